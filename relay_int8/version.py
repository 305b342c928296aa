"""The version of this project."""

__version__ = "0.1.0"
