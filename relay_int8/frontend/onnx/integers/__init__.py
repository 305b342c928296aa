"""Converters of operators on integers, and of weights of a few bits, the standard's and others."""
