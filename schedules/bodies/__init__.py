"""What kernels compute, whatever the target: expressions, bodies of operators, packed constants."""
