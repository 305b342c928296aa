"""Hand-written schedule templates for the kernels relay_int8 lowers to: see ``catalog``."""
