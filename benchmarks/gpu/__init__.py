"""Int8 networks on an NVIDIA GPU: built anywhere, checked and timed where the GPU is."""
