"""Make a quantized network more accurate, by what calibration images show."""
