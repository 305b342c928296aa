"""All TFLite operators that can be imported, and which of their operands are settings."""

from __future__ import annotations

from relay_int8.frontend.tflite.arithmetic import ARITHMETIC
from relay_int8.frontend.tflite.creation import CREATION
from relay_int8.frontend.tflite.detections import DETECTIONS
from relay_int8.frontend.tflite.images import IMAGES
from relay_int8.frontend.tflite.indices import INDICES
from relay_int8.frontend.tflite.landmarks import LANDMARKS
from relay_int8.frontend.tflite.layers import LAYERS
from relay_int8.frontend.tflite.logic import LOGIC
from relay_int8.frontend.tflite.movement import MOVES
from relay_int8.frontend.tflite.recurrent import RECURRENT, STATES
from relay_int8.frontend.tflite.slices import SLICES
from relay_int8.frontend.tflite.spectra import SPECTRA
from relay_int8.frontend.tflite.step import Converter
from relay_int8.frontend.tflite.volumes import VOLUMES

CONVERTERS: dict[str, Converter] = {
    **ARITHMETIC,
    **CREATION,
    **DETECTIONS,
    **IMAGES,
    **INDICES,
    **LANDMARKS,
    **LAYERS,
    **LOGIC,
    **MOVES,
    **RECURRENT,
    **SLICES,
    **SPECTRA,
    **VOLUMES,
}

SETTINGS: dict[str, tuple[int, ...]] = {
    "ARG_MAX": (1,),
    "ARG_MIN": (1,),
    "BATCH_TO_SPACE_ND": (1, 2),
    "BROADCAST_TO": (1,),
    "CONV_3D_TRANSPOSE": (0,),
    "CUMSUM": (1,),
    "DYNAMIC_UPDATE_SLICE": (2,),
    "EXPAND_DIMS": (1,),
    "MEAN": (1,),
    "MIRROR_PAD": (1,),
    "NON_MAX_SUPPRESSION_V4": (2, 3, 4),
    "NON_MAX_SUPPRESSION_V5": (2, 3, 4, 5),
    "ONE_HOT": (1, 2, 3),
    "PAD": (1,),
    "PADV2": (1, 2),
    "REDUCE_ALL": (1,),
    "REDUCE_ANY": (1,),
    "REDUCE_MAX": (1,),
    "REDUCE_MIN": (1,),
    "REDUCE_PROD": (1,),
    "RESHAPE": (1,),
    "RESIZE_BILINEAR": (1,),
    "RESIZE_NEAREST_NEIGHBOR": (1,),
    "REVERSE_V2": (1,),
    "RFFT2D": (1,),
    "SCATTER_ND": (2,),
    "SLICE": (1, 2),
    "SPACE_TO_BATCH_ND": (1, 2),
    "SPLIT": (0,),
    "SPLIT_V": (1, 2),
    "STRIDED_SLICE": (1, 2, 3),
    "SUM": (1,),
    "TILE": (1,),
    "TOPK_V2": (1,),
    "TRANSPOSE": (1,),
    "TRANSPOSE_CONV": (0,),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": STATES,
}
"""Operator -> places of operands that say how it computes: shapes, axes, widths."""
