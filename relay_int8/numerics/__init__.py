"""Arithmetic in pure NumPy: scales, multipliers, rounding, ratios; no graph and no target."""
