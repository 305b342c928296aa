"""Float kernels compiled once for tensors of any size, for calibration and comparisons."""
