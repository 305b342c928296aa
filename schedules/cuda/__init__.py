"""Kernels for NVIDIA GPUs: dp4a, one thread block a tile of the image."""
