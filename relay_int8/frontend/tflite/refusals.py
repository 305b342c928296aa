"""What of a TFLite graph cannot be imported, said with the reason."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.importing import refuse_operators
from relay_int8.frontend.tflite.model import TfliteOperator, TfliteTensor
from relay_int8.frontend.tflite.tensors import QUANTIZED


def refuse_unsupported(
    operators: Sequence[TfliteOperator], tensors: Sequence[TfliteTensor], known: Collection[str]
) -> None:
    """Refuse operators of other kinds than ``known``, all of them at once."""
    missing: dict[str, list[str]] = {}
    computed = {index for operator in operators for index in operator.outputs}
    reads: list[str] = []
    for operator in operators:
        if operator.kind not in known:
            missing.setdefault(operator.kind, []).append(tensors[operator.outputs[0]].name)
            reads += [tensors[i].name for i in operator.inputs if i in computed]
    refuse_operators(missing, reads=reads)


def refuse_wide(tensor: TfliteTensor) -> None:
    """Refuse quantized tensors that no kernel takes."""
    quantization = tensor.quantization
    if quantization is None or tensor.dtype == "float32":
        return
    if tensor.dtype not in QUANTIZED:
        raise UnsupportedOpError(
            f"tensor {tensor.name} is quantized to {tensor.dtype}; activations of int8, uint8 and "
            "int16 can be imported: convert the model with these"
        )
    if quantization.scale.size > 1:
        raise UnsupportedOpError(
            f"tensor {tensor.name} is an activation with {quantization.scale.size} scales; "
            "expected one"
        )
