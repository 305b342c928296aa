"""Passes around Q/DQ pairs: corrected weights and biases in, pairs in, pairs out."""
