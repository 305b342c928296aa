"""Hand-written schedule templates of the kernels that relay_int8 lowers to: see ``catalog``."""
