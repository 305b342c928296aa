"""Convolution and dense layers by threads: dp4a of bytes, or products of floats, in one nest."""
