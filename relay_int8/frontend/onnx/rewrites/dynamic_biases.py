"""Biases that a dynamically quantized model rounds to its sums' scale, unrounded.

    Before:  q = Add(ConvInteger(x_q, w_q), Reshape(Cast(Floor(Div(bias, Mul(s, s_w)))), shape))
    After:   q = Add(ConvInteger(x_q, w_q), Reshape(Div(bias, Mul(s, s_w)), shape))

Early versions of ONNX Runtime's ``quantize_dynamic`` wrote this. ``s`` is found for every run; here
it is 1, as ``quantized`` says, and the step that a bias would be rounded to a whole weight's.
"""

from __future__ import annotations

import onnx

from relay_int8.frontend.onnx.rewrites.producers import produced_by, producers_of

RANGE = "DynamicQuantizeLinear"


def restore_biases(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with such biases as floats; itself where there are none."""
    producers = producers_of(model.graph)
    rounded: dict[str, str] = {}
    for node in model.graph.node:
        floor = produced_by(producers, node.input[0], "Floor") if node.op_type == "Cast" else None
        quotient = produced_by(producers, floor.input[0], "Div") if floor is not None else None
        scale = produced_by(producers, quotient.input[1], "Mul") if quotient is not None else None
        if scale is None or quotient is None:
            continue
        if any(produced_by(producers, name, RANGE) is not None for name in scale.input):
            rounded[node.output[0]] = quotient.output[0]
    if not rounded:
        return model
    restored = onnx.ModelProto()
    restored.CopyFrom(model)
    for node in restored.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = rounded.get(name, name)
    return restored
