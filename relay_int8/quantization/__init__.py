"""From a float network to integers: configuration, plan, quantized model."""
