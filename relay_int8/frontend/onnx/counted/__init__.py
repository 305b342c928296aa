"""Tensors whose length is known only when the network runs: room for all rows, and a mark each."""
