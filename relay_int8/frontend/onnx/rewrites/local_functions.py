"""Write the functions that a model brings along as what they consist of.

onnxscript, and PyTorch with ``export_modules_as_functions``, write a module as a function of the
model, which its graph calls as an operator of a domain of its own.
"""

from __future__ import annotations

from itertools import chain

import onnx
from onnx import inliner

from relay_int8.errors import FrontendError
from relay_int8.frontend.onnx.nested import nested_nodes
from relay_int8.frontend.onnx.rewrites.functions import STANDARD
from relay_int8.frontend.onnx.rewrites.outline import fill, outline
from relay_int8.frontend.onnx.rewrites.typed import typed

INLINER_ERRORS = (
    RuntimeError,
    ValueError,
    onnx.checker.ValidationError,
    onnx.version_converter.ConvertError,
)


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with its functions inlined; the model itself if it has none.

    Raises
    ------
    FrontendError
        If ONNX cannot inline them: a function calls itself, or is of an opset that cannot be
        converted to the model's.
    """
    if not model.functions:
        return model
    outlined, weights = outline(model)
    _write_defaults(outlined)
    _align_versions(outlined)
    try:
        inlined = inliner.inline_local_functions(typed(outlined), convert_version=True)
    except INLINER_ERRORS as err:
        reason = str(err).strip().splitlines()
        raise FrontendError(
            f"the functions of the model cannot be inlined: {reason[0] if reason else err!r}; "
            "export it without functions"
        ) from err
    return fill(inlined, weights)


def _write_defaults(model: onnx.ModelProto) -> None:
    """Give calls the attributes that they leave to defaults; the inliner of ONNX 1.23 does not."""
    defaults = {(f.domain, f.name): f.attribute_proto for f in model.functions}
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nested_nodes(nodes):
            given = {attribute.name for attribute in node.attribute}
            missing = defaults.get((node.domain, node.op_type), ())
            node.attribute.extend(default for default in missing if default.name not in given)


def _align_versions(model: onnx.ModelProto) -> None:
    """Give the domains of functions one version everywhere.

    ONNX leaves a function as it is where model and function disagree; jax2onnx writes 1 and 23.
    """
    domains = {function.domain for function in model.functions}.difference(STANDARD)
    for opset in chain(model.opset_import, *(f.opset_import for f in model.functions)):
        if opset.domain in domains:
            opset.version = 1
