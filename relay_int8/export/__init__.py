"""Writers of model files: a quantized network leaves in another tool's form."""
