"""Which layers stay in float, as bytes would lose what they are for, and why: a rule a file."""
