"""Moves and concats: elements go elsewhere, and nothing is computed."""
