"""Kernels of any CPU: loops that take their instruction from x86, Arm or plain code."""
