"""Converters of what the standard leaves out: com.microsoft, ai.onnx.ml, ONNX's experiments."""
