"""What every kernel must return, in NumPy and logical layouts."""
