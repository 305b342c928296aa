"""What GPUs are and have, and the runtime libraries that reach them."""
