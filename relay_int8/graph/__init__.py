"""Facts about a Relax function: its bindings, groups, layers, signs and digests."""
