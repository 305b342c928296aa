"""Templates for Arm CPUs."""
