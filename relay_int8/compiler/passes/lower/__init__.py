"""Passes from Q/DQ to scheduled kernels of a target."""
