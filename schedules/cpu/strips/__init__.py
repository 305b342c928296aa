"""Convolutions and dense layers of instructions that multiply a widened copy of x."""
