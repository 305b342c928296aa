"""Import an MXNet model, ``-symbol.json`` and ``-0000.params``, into Relax; MXNet is not needed.

What comes out is as the ONNX importer's: ``main`` with one dataflow block, the data inputs as
parameters, the weights as constants. A variable has the name of its node; of several outputs the
later ones are called ``<node>_output1`` and so on; steps in between ``<node>/<step>``. Weights of
half and double precision become float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm import IRModule

from relay_int8.argument_types import checked
from relay_int8.errors import FrontendError
from relay_int8.frontend.mxnet.graph import MxnetImporter
from relay_int8.frontend.mxnet.params import read_params
from relay_int8.frontend.mxnet.symbol import cut_at, read_symbol
from relay_int8.frontend.options import ImportOptions, Shapes, refuse_values
from relay_int8.frontend.weights import check_finite

ENDING = "-symbol.json"


def import_file(path: Path, options: ImportOptions) -> IRModule:
    """Import a symbol file as ``frontend.model`` wants it."""
    refuse_values(path, options)
    return import_mxnet(
        path,
        options.params,
        inputs=options.inputs,
        batch=options.batch,
        outputs=options.outputs,
    )


@checked
def import_mxnet(
    symbol: str | Path,
    params: str | Path | None = None,
    *,
    inputs: Shapes | None = None,
    batch: int | None = None,
    outputs: Sequence[str] = (),
) -> IRModule:
    """Return the Relax module of an MXNet model.

    Parameters
    ----------
    symbol
        The graph, ``NAME-symbol.json``.
    params
        The weights; by default the only ``NAME-*.params`` beside the graph.
    inputs
        Name -> shape of the data inputs; may be left out where the symbol holds it.
    batch
        Leading extent of every input, in place of the one given or held.
    outputs
        Nodes whose first results are the outputs, in place of those that the symbol names.

    Raises
    ------
    ConfigError
        ``outputs`` names no node.
    FrontendError
        A file is damaged, the two do not belong together, or an input has no shape.
    UnsupportedOpError
        Operators that cannot be imported; all of them are listed with their nodes.
    """
    path = Path(symbol)
    graph = cut_at(read_symbol(path), outputs)
    weights = read_params(params_beside(path) if params is None else Path(params))
    return check_finite(MxnetImporter(graph, weights, inputs or {}, batch).run())


def params_beside(symbol: Path) -> Path:
    """Return the file of the weights beside a symbol; FrontendError if there is none or many."""
    name = symbol.name.removesuffix(ENDING) if symbol.name.endswith(ENDING) else symbol.stem
    candidates = sorted(
        path
        for path in symbol.parent.glob("*.params")
        if path.stem == name or path.name.startswith(f"{name}-")
    )
    if len(candidates) != 1:
        names = ", ".join(path.name for path in candidates) or "no such file"
        raise FrontendError(
            f"{symbol}: its weights are one file {name}-NNNN.params beside it; found {names}: "
            "pass ImportOptions(params='FILE')"
        )
    return candidates[0]
