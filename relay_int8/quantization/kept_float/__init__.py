"""Rules that keep layers in float where 8 bits would lose what they compute, one per file."""
