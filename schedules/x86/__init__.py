"""Instructions and kernels of x86: AVX512-VNNI, AVX-VNNI, AVX2."""
