"""ONNX operators that we turn into Relax ourselves.

TVM's importer makes opaque kernels of Clip and Pad, keeps Dropout, pads in front of a convolution
with ``auto_pad``, scales the input of a Gemm, stacks the operands of Max and computes with float
constants in float32; the passes after it want plain Relax operators on what the file holds.
"""

from __future__ import annotations

from tvm import relax

from relay_int8.frontend.onnx.operators.activations import celu, clip, dropout, thresholded_relu
from relay_int8.frontend.onnx.operators.blocks import col2im
from relay_int8.frontend.onnx.operators.conv_transpose import conv_transpose
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.deformable import deform_conv
from relay_int8.frontend.onnx.operators.elementwise import (
    bit_shift,
    erfc,
    is_inf,
    mod,
    power,
    shrink,
)
from relay_int8.frontend.onnx.operators.fourier import dft, stft
from relay_int8.frontend.onnx.operators.indices import INDEX_CONVERTERS
from relay_int8.frontend.onnx.operators.movement import (
    compress,
    filled,
    pad,
    space_to_depth,
    squeeze,
    tile,
)
from relay_int8.frontend.onnx.operators.normalization import (
    batch_norm,
    layer_norm,
    lp_norm,
    rms_norm,
)
from relay_int8.frontend.onnx.operators.pairwise import mean, pairwise
from relay_int8.frontend.onnx.operators.pool import global_max_pool, max_unpool, pool
from relay_int8.frontend.onnx.operators.products import conv, det, einsum_of, gemm
from relay_int8.frontend.onnx.operators.recurrent import gru, lstm, rnn
from relay_int8.frontend.onnx.operators.reductions import (
    cum_sum,
    extreme,
    reduced,
    reduced_in_reals,
)
from relay_int8.frontend.onnx.operators.regions import roi_align
from relay_int8.frontend.onnx.operators.resize import resize
from relay_int8.frontend.onnx.operators.sorting import top_k

CONVERTERS: dict[str, Converter] = {
    **INDEX_CONVERTERS,
    "Add": pairwise(relax.op.add),
    "AveragePool": pool("avg"),
    "BatchNormalization": batch_norm,
    "BitShift": bit_shift,
    "Celu": celu,
    "Clip": clip,
    "Col2Im": col2im,
    "Compress": compress,
    "ConstantOfShape": filled,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "CumSum": cum_sum,
    "DFT": dft,
    "Det": det,
    "DeformConv": deform_conv,
    "Div": pairwise(relax.op.divide),
    "Dropout": dropout,
    "Einsum": einsum_of,
    "Erfc": erfc,
    "GRU": gru,
    "Gemm": gemm,
    "GlobalMaxPool": global_max_pool,
    "IsInf": is_inf,
    "LSTM": lstm,
    "LayerNormalization": layer_norm,
    "LpNormalization": lp_norm,
    "Max": pairwise(relax.op.maximum),
    "MaxPool": pool("max"),
    "MaxUnpool": max_unpool,
    "Mean": mean,
    "Min": pairwise(relax.op.minimum),
    "Mod": mod,
    "Mul": pairwise(relax.op.multiply),
    "Pad": pad,
    "Pow": power,
    "RMSNormalization": rms_norm,
    "RNN": rnn,
    "ReduceL1": reduced("ReduceL1"),
    "ReduceL2": reduced_in_reals("ReduceL2"),
    "ReduceLogSum": reduced("ReduceLogSum"),
    "ReduceMax": extreme("ReduceMax"),
    "ReduceMean": reduced_in_reals("ReduceMean"),
    "ReduceMin": extreme("ReduceMin"),
    "ReduceSumSquare": reduced("ReduceSumSquare"),
    "Resize": resize,
    "RoiAlign": roi_align,
    "STFT": stft,
    "Shrink": shrink,
    "SpaceToDepth": space_to_depth,
    "Squeeze": squeeze,
    "Sub": pairwise(relax.op.subtract),
    "Sum": pairwise(relax.op.add),
    "ThresholdedRelu": thresholded_relu,
    "Tile": tile,
    "TopK": top_k,
}
