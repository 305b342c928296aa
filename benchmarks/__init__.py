"""Benchmarks against other systems; not installed, and nothing of the compiler depends on them."""
