"""Kernels for NVIDIA GPUs, and what compiles them."""
