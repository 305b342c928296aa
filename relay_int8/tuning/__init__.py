"""Tuning: which of a template's schedules is fastest on a device, measured and remembered."""
