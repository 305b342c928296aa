"""Imported networks beside the frameworks that they come from: the same results, to rounding."""
