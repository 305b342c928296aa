"""What this computer is: its CPU and its GPUs. Needs no TVM."""
