"""Which layers integers cost most, and a plan that leaves those in float."""
