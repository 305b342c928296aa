"""Products of two activations: matrix products, attention, recurrent layers."""
