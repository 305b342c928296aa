"""Depthwise convolutions and small groups: each lane has an x of its own."""
