"""Converters of ONNX's standard operators."""
