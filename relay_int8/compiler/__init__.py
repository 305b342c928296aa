"""From a Relax module to a library for one target."""
