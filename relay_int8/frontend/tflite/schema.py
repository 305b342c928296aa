"""The numbers of the TFLite schema (version 3): fields, types, operators and their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 3
IDENTIFIER = b"TFL3"

TYPES = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    6: "bool",
    7: "int16",
    8: "complex64",
    9: "int8",
    10: "float64",
    13: "resource",
    15: "uint32",
    16: "uint16",
}
"""Number of a tensor's type -> NumPy's name, for those with elements of whole bytes.

A resource is the handle of a variable, without elements.
"""
COMPLEX = "complex64"
OTHER_TYPES = {5: "string", 17: "int4", 18: "bfloat16", 19: "int2"}

OPERATORS = {
    0: "ADD", 1: "AVERAGE_POOL_2D", 2: "CONCATENATION", 3: "CONV_2D", 4: "DEPTHWISE_CONV_2D",
    5: "DEPTH_TO_SPACE", 6: "DEQUANTIZE", 7: "EMBEDDING_LOOKUP", 8: "FLOOR", 9: "FULLY_CONNECTED",
    10: "HASHTABLE_LOOKUP", 11: "L2_NORMALIZATION", 12: "L2_POOL_2D",
    13: "LOCAL_RESPONSE_NORMALIZATION", 14: "LOGISTIC", 15: "LSH_PROJECTION", 16: "LSTM",
    17: "MAX_POOL_2D", 18: "MUL", 19: "RELU", 20: "RELU_N1_TO_1", 21: "RELU6", 22: "RESHAPE",
    23: "RESIZE_BILINEAR", 24: "RNN", 25: "SOFTMAX", 26: "SPACE_TO_DEPTH", 27: "SVDF", 28: "TANH",
    29: "CONCAT_EMBEDDINGS", 30: "SKIP_GRAM", 31: "CALL", 32: "CUSTOM",
    33: "EMBEDDING_LOOKUP_SPARSE", 34: "PAD", 35: "UNIDIRECTIONAL_SEQUENCE_RNN", 36: "GATHER",
    37: "BATCH_TO_SPACE_ND", 38: "SPACE_TO_BATCH_ND", 39: "TRANSPOSE", 40: "MEAN", 41: "SUB",
    42: "DIV", 43: "SQUEEZE", 44: "UNIDIRECTIONAL_SEQUENCE_LSTM", 45: "STRIDED_SLICE",
    46: "BIDIRECTIONAL_SEQUENCE_RNN", 47: "EXP", 48: "TOPK_V2", 49: "SPLIT", 50: "LOG_SOFTMAX",
    51: "DELEGATE", 52: "BIDIRECTIONAL_SEQUENCE_LSTM", 53: "CAST", 54: "PRELU", 55: "MAXIMUM",
    56: "ARG_MAX", 57: "MINIMUM", 58: "LESS", 59: "NEG", 60: "PADV2", 61: "GREATER",
    62: "GREATER_EQUAL", 63: "LESS_EQUAL", 64: "SELECT", 65: "SLICE", 66: "SIN",
    67: "TRANSPOSE_CONV", 68: "SPARSE_TO_DENSE", 69: "TILE", 70: "EXPAND_DIMS", 71: "EQUAL",
    72: "NOT_EQUAL", 73: "LOG", 74: "SUM", 75: "SQRT", 76: "RSQRT", 77: "SHAPE", 78: "POW",
    79: "ARG_MIN", 80: "FAKE_QUANT", 81: "REDUCE_PROD", 82: "REDUCE_MAX", 83: "PACK",
    84: "LOGICAL_OR", 85: "ONE_HOT", 86: "LOGICAL_AND", 87: "LOGICAL_NOT", 88: "UNPACK",
    89: "REDUCE_MIN", 90: "FLOOR_DIV", 91: "REDUCE_ANY", 92: "SQUARE", 93: "ZEROS_LIKE", 94: "FILL",
    95: "FLOOR_MOD", 96: "RANGE", 97: "RESIZE_NEAREST_NEIGHBOR", 98: "LEAKY_RELU",
    99: "SQUARED_DIFFERENCE", 100: "MIRROR_PAD", 101: "ABS", 102: "SPLIT_V", 103: "UNIQUE",
    104: "CEIL", 105: "REVERSE_V2", 106: "ADD_N", 107: "GATHER_ND", 108: "COS", 109: "WHERE",
    110: "RANK", 111: "ELU", 112: "REVERSE_SEQUENCE", 113: "MATRIX_DIAG", 114: "QUANTIZE",
    115: "MATRIX_SET_DIAG", 116: "ROUND", 117: "HARD_SWISH", 118: "IF", 119: "WHILE",
    120: "NON_MAX_SUPPRESSION_V4", 121: "NON_MAX_SUPPRESSION_V5", 122: "SCATTER_ND",
    123: "SELECT_V2", 124: "DENSIFY", 125: "SEGMENT_SUM", 126: "BATCH_MATMUL", 128: "CUMSUM",
    129: "CALL_ONCE", 130: "BROADCAST_TO", 131: "RFFT2D", 132: "CONV_3D", 133: "IMAG", 134: "REAL",
    135: "COMPLEX_ABS", 136: "HASHTABLE", 137: "HASHTABLE_FIND", 138: "HASHTABLE_IMPORT",
    139: "HASHTABLE_SIZE", 140: "REDUCE_ALL", 141: "CONV_3D_TRANSPOSE", 142: "VAR_HANDLE",
    143: "READ_VARIABLE", 144: "ASSIGN_VARIABLE", 145: "BROADCAST_ARGS",
    146: "RANDOM_STANDARD_NORMAL", 147: "BUCKETIZE", 148: "RANDOM_UNIFORM", 149: "MULTINOMIAL",
    150: "GELU", 151: "DYNAMIC_UPDATE_SLICE", 152: "RELU_0_TO_1", 153: "UNSORTED_SEGMENT_PROD",
    154: "UNSORTED_SEGMENT_MAX", 155: "UNSORTED_SEGMENT_SUM", 156: "ATAN2",
    157: "UNSORTED_SEGMENT_MIN", 158: "SIGN", 159: "BITCAST", 160: "BITWISE_XOR",
    161: "RIGHT_SHIFT", 206: "STABLEHLO_COMPOSITE",
}  # fmt: skip
"""Number of an operator -> its name; StableHLO's single operators are left out."""
CUSTOM = 32

PADDINGS = ("SAME", "VALID")
ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
INTEGERS, REALS, TEXT = "ints", "reals", "text"
"""As the form of an option: a vector of int32 or of float32, a text."""


@dataclass(frozen=True)
class Options:
    """The table of an operator's options: its number, and (field, form, default) by name.

    ``is_new`` says that the number is one of the schema's second list of tables.
    """

    number: int
    fields: Mapping[str, tuple[int, str, float]]
    is_new: bool = False


_STRIDES = {"padding": (0, "b", 0), "stride_w": (1, "i", 0), "stride_h": (2, "i", 0)}
_POOL = Options(
    5,
    {**_STRIDES, "filter_w": (3, "i", 0), "filter_h": (4, "i", 0), "activation": (5, "b", 0)},
)
_REDUCER = Options(27, {"keep_dims": (0, "?", 0)})
_CONV_3D = Options(
    106,
    {
        "padding": (0, "b", 0),
        "stride_d": (1, "i", 0),
        "stride_w": (2, "i", 0),
        "stride_h": (3, "i", 0),
        "activation": (4, "b", 0),
        "dilation_d": (5, "i", 1),
        "dilation_w": (6, "i", 1),
        "dilation_h": (7, "i", 1),
    },
)
_ALONE = {"activation": (0, "b", 0)}

OPTIONS = {
    "ADD": Options(11, _ALONE),
    "AVERAGE_POOL_2D": _POOL,
    "BATCH_MATMUL": Options(101, {"adj_x": (0, "?", 0), "adj_y": (1, "?", 0)}),
    "BUCKETIZE": Options(115, {"boundaries": (0, REALS, 0)}),
    "CALL_ONCE": Options(103, {"first": (0, "i", 0)}),
    "CONCATENATION": Options(10, {"axis": (0, "i", 0), "activation": (1, "b", 0)}),
    "CONV_2D": Options(
        1,
        {
            **_STRIDES,
            "activation": (3, "b", 0),
            "dilation_w": (4, "i", 1),
            "dilation_h": (5, "i", 1),
        },
    ),
    "CONV_3D": _CONV_3D,
    "CONV_3D_TRANSPOSE": _CONV_3D,
    "CUMSUM": Options(102, {"exclusive": (0, "?", 0), "reverse": (1, "?", 0)}),
    "DEPTHWISE_CONV_2D": Options(
        2,
        {
            **_STRIDES,
            "depth_multiplier": (3, "i", 0),
            "activation": (4, "b", 0),
            "dilation_w": (5, "i", 1),
            "dilation_h": (6, "i", 1),
        },
    ),
    "DEPTH_TO_SPACE": Options(94, {"block_size": (0, "i", 0)}),
    "DIV": Options(29, _ALONE),
    "FAKE_QUANT": Options(
        58,
        {
            "min": (0, "f", 0.0),
            "max": (1, "f", 0.0),
            "num_bits": (2, "i", 0),
            "narrow_range": (3, "?", 0),
        },
    ),
    "FULLY_CONNECTED": Options(
        8,
        {"activation": (0, "b", 0), "weights_format": (1, "b", 0), "keep_num_dims": (2, "?", 0)},
    ),
    "GATHER": Options(23, {"axis": (0, "i", 0), "batch_dims": (1, "i", 0)}),
    "GELU": Options(116, {"approximate": (0, "?", 0)}),
    "IF": Options(92, {"then": (0, "i", 0), "otherwise": (1, "i", 0)}),
    "L2_NORMALIZATION": Options(12, _ALONE),
    "L2_POOL_2D": _POOL,
    "LEAKY_RELU": Options(75, {"alpha": (0, "f", 0.0)}),
    "LOCAL_RESPONSE_NORMALIZATION": Options(
        13,
        {
            "radius": (0, "i", 0),
            "bias": (1, "f", 0.0),
            "alpha": (2, "f", 0.0),
            "beta": (3, "f", 0.0),
        },
    ),
    "MAX_POOL_2D": _POOL,
    "MEAN": _REDUCER,
    "MIRROR_PAD": Options(77, {"mode": (0, "b", 0)}),
    "MUL": Options(21, _ALONE),
    "ONE_HOT": Options(61, {"axis": (0, "i", 0)}),
    "PACK": Options(59, {"axis": (1, "i", 0)}),
    "REDUCE_ALL": _REDUCER,
    "REDUCE_ANY": _REDUCER,
    "REDUCE_MAX": _REDUCER,
    "REDUCE_MIN": _REDUCER,
    "REDUCE_PROD": _REDUCER,
    "REVERSE_SEQUENCE": Options(87, {"axis": (0, "i", 0), "batch_axis": (1, "i", 0)}),
    "RESHAPE": Options(17, {"new_shape": (0, INTEGERS, 0)}),
    "RESIZE_BILINEAR": Options(15, {"align_corners": (2, "?", 0), "half_pixel": (3, "?", 0)}),
    "RESIZE_NEAREST_NEIGHBOR": Options(
        74, {"align_corners": (0, "?", 0), "half_pixel": (1, "?", 0)}
    ),
    "SOFTMAX": Options(9, {"beta": (0, "f", 0.0)}),
    "SPACE_TO_DEPTH": Options(19, {"block_size": (0, "i", 0)}),
    "SQUEEZE": Options(30, {"axes": (0, INTEGERS, 0)}),
    "STABLEHLO_COMPOSITE": Options(21, {"graph": (1, "i", 0)}, is_new=True),
    "STRIDED_SLICE": Options(
        32,
        {
            "begin_mask": (0, "i", 0),
            "end_mask": (1, "i", 0),
            "ellipsis_mask": (2, "i", 0),
            "new_axis_mask": (3, "i", 0),
            "shrink_axis_mask": (4, "i", 0),
            "offset": (5, "?", 0),
        },
    ),
    "SUB": Options(28, _ALONE),
    "SUM": _REDUCER,
    "SVDF": Options(6, {"rank": (0, "i", 0), "activation": (1, "b", 0)}),
    "TRANSPOSE_CONV": Options(49, {**_STRIDES, "activation": (3, "b", 0)}),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Options(
        71,
        {
            "activation": (0, "b", 0),
            "cell_clip": (1, "f", 0.0),
            "projection_clip": (2, "f", 0.0),
            "time_major": (3, "?", 0),
        },
    ),
    "UNPACK": Options(64, {"num": (0, "i", 0), "axis": (1, "i", 0)}),
    "VAR_HANDLE": Options(111, {"container": (0, TEXT, 0), "shared_name": (1, TEXT, 0)}),
    "WHILE": Options(93, {"condition": (0, "i", 0), "body": (1, "i", 0)}),
}
"""Operators whose options have fields that count here."""

_STRIDES_IN_C = ("padding", "stride_w", "stride_h")
_POOL_IN_C = (*_STRIDES_IN_C, "filter_w", "filter_h", "activation")

CUSTOM_OPTIONS = {
    "CUSTOM Convolution2DTransposeBias": _STRIDES_IN_C,
    "CUSTOM MaxPoolingWithArgmax2D": _POOL_IN_C,
    "CUSTOM MaxUnpooling2D": _POOL_IN_C,
}
"""Operators of MediaPipe -> the int32 numbers that their options begin with."""

_SIZE = ("output_height", "output_width")
_ENDS = ("left_rotation_idx", "right_rotation_idx")

CUSTOM_MAPS = {
    "CUSTOM Landmarks2TransformMatrix": (
        *_SIZE,
        *_ENDS,
        "target_rotation_radians",
        "scale_x",
        "scale_y",
        "subset_idxs",
    ),
    "CUSTOM TFLite_Detection_PostProcess": (
        "max_detections",
        "max_classes_per_detection",
        "nms_score_threshold",
        "nms_iou_threshold",
        "num_classes",
        "y_scale",
        "x_scale",
        "h_scale",
        "w_scale",
    ),
    "CUSTOM TransformTensorBilinear": _SIZE,
}
"""Operators whose options are a map in FlexBuffers -> names that it has: MediaPipe's version 2, and
the end of TensorFlow's detectors."""

GRAPHS = ("body", "condition", "first", "graph", "otherwise", "then")
"""Options that are numbers of graphs."""
