"""The calls of the public interface; each is one file, and ``relay_int8`` exports it."""
