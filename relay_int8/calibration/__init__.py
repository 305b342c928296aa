"""Calibration: which range of every tensor its integers should cover."""

from relay_int8.calibration.calibrate import calibrate
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.calibration.methods import METHODS, Max, Method, Percentile
from relay_int8.calibration.observe import Progress, Runner
from relay_int8.calibration.table import CalibrationTable
from relay_int8.data.dataset import Dataset, Image, open_data
from relay_int8.data.preprocessing import Preprocessing

__all__ = [
    "METHODS",
    "CalibrationTable",
    "Dataset",
    "Entry",
    "Grid",
    "Histogram",
    "Image",
    "Max",
    "Method",
    "Percentile",
    "Preprocessing",
    "Progress",
    "Range",
    "Runner",
    "calibrate",
    "open_data",
]
