"""Dilated convolutions, which Keras writes as convolutions of every position within blocks.

    Before:  SPACE_TO_BATCH_ND, CONV_2D (VALID, stride 1), BATCH_TO_SPACE_ND, of blocks of d x e
    After:   CONV_2D with dilation d x e, padded by what is padded less what is cropped

The same sums, without the tensors of blocks; what follows can be folded into the convolution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from relay_int8.frontend.tflite.model import TfliteGraph, TfliteOperator
from relay_int8.frontend.tflite.schema import PADDINGS
from relay_int8.frontend.tflite.tensors import have_one_scale

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
PADS = "pads"
"""The option of a convolution that says what is padded: top, left, bottom, right."""


def join_dilated(operators: Sequence[TfliteOperator], graph: TfliteGraph) -> list[TfliteOperator]:
    """Return operators with such convolutions in one; others stay as they are."""
    makers = {index: operator for operator in operators for index in operator.outputs}
    reads = Counter(index for operator in operators for index in operator.inputs)
    reads.update(graph.outputs)
    joined: list[TfliteOperator] = []
    for operator in operators:
        whole = _dilated(operator, makers, reads, graph)
        if whole is not None:
            conv = makers[operator.inputs[0]]
            joined = [o for o in joined if o is not conv and o is not makers[conv.inputs[0]]]
        joined.append(whole or operator)
    return joined


def _dilated(
    last: TfliteOperator,
    makers: dict[int, TfliteOperator],
    reads: Counter[int],
    graph: TfliteGraph,
) -> TfliteOperator | None:
    """Return the convolution that three operators are, of which ``last`` puts blocks together."""
    if last.kind != "BATCH_TO_SPACE_ND" or len(last.inputs) != 3:
        return None
    conv = makers.get(last.inputs[0])
    if conv is None or conv.kind not in CONVOLUTIONS or not _is_plain(conv):
        return None
    first = makers.get(conv.inputs[0])
    if first is None or first.kind != "SPACE_TO_BATCH_ND" or len(first.inputs) != 3:
        return None
    if reads[last.inputs[0]] != 1 or reads[conv.inputs[0]] != 1:
        return None
    if not _have_one_scale(graph, last.inputs[0], last.outputs[0]):
        return None
    if not _have_one_scale(graph, first.inputs[0], conv.inputs[0]):
        return None
    blocks, crops = (_numbers(graph, index) for index in last.inputs[1:])
    if blocks != _numbers(graph, first.inputs[1]) or len(blocks) != 2 or len(crops) != 4:
        return None
    widths = _numbers(graph, first.inputs[2])
    pads = [width - crop for width, crop in zip(widths, crops, strict=False)]
    if len(pads) != 4 or min(*pads, *(b - 1 for b in blocks)) < 0:
        return None
    top, bottom, left, right = pads
    options = {
        **conv.options,
        "dilation_h": blocks[0],
        "dilation_w": blocks[1],
        PADS: (top, left, bottom, right),
    }
    inputs = (first.inputs[0], *conv.inputs[1:])
    return replace(conv, inputs=inputs, outputs=last.outputs, options=options)


def _is_plain(conv: TfliteOperator) -> bool:
    """Whether a convolution has neither padding nor strides nor dilation."""
    ones = ("stride_h", "stride_w", "dilation_h", "dilation_w")
    is_single = all(conv.options[name] == 1 for name in ones)
    return bool(is_single and conv.options["padding"] == PADDINGS.index("VALID"))


def _numbers(graph: TfliteGraph, index: int) -> tuple[int, ...]:
    """Return the integers of a constant; nothing of another tensor."""
    values = graph.tensors[index].values
    if values is None or values.dtype.kind != "i":
        return ()
    return tuple(int(value) for value in values.reshape(-1)[:8])


def _have_one_scale(graph: TfliteGraph, a: int, b: int) -> bool:
    """Whether two tensors are floats, or integers of one scale and zero point."""
    return have_one_scale(graph.tensors[a], graph.tensors[b])
