"""Rewrites of a model before its nodes are converted: the same network, in plainer nodes."""
