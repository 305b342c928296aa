"""Convolutions and dense layers whose lanes multiply the same x."""
