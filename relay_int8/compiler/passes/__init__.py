"""The compiler's passes, one file each; ``compiler.pipeline`` has their order."""
