"""Runs an artifact: reads it, checks it, calls TVM's runtime. Never imports the compiler."""
