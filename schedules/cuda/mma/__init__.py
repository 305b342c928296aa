"""Convolution and dense layers by warps: the tensor cores, which multiply matrices of bytes."""
