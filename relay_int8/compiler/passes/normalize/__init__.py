"""Passes over the float graph: the canonical form that annotate reads."""
