"""Readers of model files, one per format; each gives a Relax module that keeps the file's names."""
