"""Convolutions of 3 x 3 pixels by Winograd's algorithm, in exact integers."""
