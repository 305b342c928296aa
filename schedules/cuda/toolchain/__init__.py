"""What makes machine code of CUDA C without a toolkit: NVRTC, fat binaries, a disassembler."""
