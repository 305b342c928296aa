"""Norms and softmax, of rows and of channels."""
