"""Import an ONNX model into Relax under the names of the file.

What comes out is ``main`` with one dataflow block, one call a binding, the model's data inputs as
parameters and its initializers as constants, half and double precision as float32. A variable that
stands for an ONNX tensor has that tensor's name, letter by letter; steps that the importer adds are
called ``<output>/<operator>``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import tvm
from onnx import numpy_helper
from tvm import IRModule

from relay_int8.argument_types import checked
from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.extents import EXAMPLES, Extent, fixed_batch, input_shapes
from relay_int8.frontend.importing import check_inputs, refuse_operators
from relay_int8.frontend.onnx.cut_points import cut_points
from relay_int8.frontend.onnx.file import read_model
from relay_int8.frontend.onnx.graph import NamedImporter
from relay_int8.frontend.onnx.operator_support import (
    nodes_of,
    reasons,
    unsupported_nodes,
)
from relay_int8.frontend.onnx.plain_opset import opset_of, to_plain_opset
from relay_int8.frontend.onnx.rewrites.dynamic_biases import restore_biases
from relay_int8.frontend.onnx.rewrites.fixed_inputs import fix_inputs, refuse_text
from relay_int8.frontend.onnx.rewrites.functions import expand_functions
from relay_int8.frontend.onnx.rewrites.local_functions import inline_functions
from relay_int8.frontend.onnx.rewrites.masked_writes import find_masked_writes
from relay_int8.frontend.onnx.rewrites.node_order import in_order
from relay_int8.frontend.onnx.rewrites.restore_weights import RestoreWeights
from relay_int8.frontend.onnx.rewrites.small_integers import unpack_integers
from relay_int8.frontend.onnx.rewrites.sparse import make_dense
from relay_int8.frontend.onnx.rewrites.unused import cut_at, drop_unused
from relay_int8.frontend.onnx.rewrites.widen import widen
from relay_int8.frontend.options import (
    NO_SHAPES,
    NO_VALUES,
    ImportOptions,
    Shapes,
    Values,
    refuse_params,
    shape_option,
)
from relay_int8.frontend.weights import check_finite
from relay_int8.graph.attributes import QRANGE
from relay_int8.notices import notice

NO_LABELS = ("?", "-1", "None")
"""What exporters write for extents that are open, and not the same."""

FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)


@checked
def import_onnx(
    source: str | Path | onnx.ModelProto,
    *,
    batch: int | None = None,
    inputs: Shapes = NO_SHAPES,
    values: Values = NO_VALUES,
    outputs: Sequence[str] = (),
) -> IRModule:
    """Return the Relax module of an ONNX model.

    Parameters
    ----------
    source
        A file (weights in external files are found beside it) or a model in memory.
    batch
        Extent of the leading dimension of every input; 1, with a notice, where the model leaves it
        open.
    inputs
        Name -> shape, of inputs that the model leaves open in other dimensions too.
    values
        Name -> number, or numbers in row order, of inputs that are constants of the network then.
    outputs
        Tensors that are the outputs, in place of those that the file names.

    An output that has as many rows as values say (NonMaxSuppression, NonZero) has room for all that
    there may be, zeros behind the last one; one more output, ``<name>.rows``, says how many there
    are.

    Raises
    ------
    ConfigError
        ``inputs``, ``values`` or ``outputs`` do not go with the model.
    FrontendError
        The file is not a whole ONNX model, its shapes stay open, its weights are not finite.
    UnsupportedOpError
        Operators that cannot be imported; all of them are listed with their nodes.

    Examples
    --------
    >>> module = relay_int8.import_onnx("digits.onnx", batch=1)
    >>> relay_int8.Model(module=module, name="digits")
    <Model digits: image float32 1 x 1 x 8 x 8 -> logits float32 1 x 10>
    """
    model = source if isinstance(source, onnx.ModelProto) else read_model(Path(source))
    file = cut_at(fix_inputs(model, values), outputs)
    model = _rewritten(file)
    written = _written_shapes(model.graph, inputs)
    shapes = input_shapes(written, inputs, batch)
    check_inputs(shapes)
    asked, batch = batch, fixed_batch(written, shapes, batch)
    missing = unsupported_nodes(model.graph)
    if missing:
        reads = cut_points(file, nodes_of(model.graph, missing))
        refuse_operators(missing, reads=reads, reasons=reasons(missing))
    model = drop_unused(find_masked_writes(to_plain_opset(model)))
    importer = NamedImporter(
        shapes, opset=opset_of(model), cut_points=lambda node: cut_points(file, [node])
    )
    try:
        mod = importer.run(model.graph)
    except UnsupportedOpError as err:
        if batch is None:
            raise
        raise FrontendError(f"with batch {batch}: {err}") from err
    for number, counted in importer.rows.items():
        _tell_of_rows(number, counted)
    check_finite(mod, importer.constants)
    mod = tvm.transform.Sequential([RestoreWeights()])(mod)
    ranges = {entry.key: entry.value for entry in model.metadata_props}.get(QRANGE)
    if ranges is not None:
        mod["main"] = mod["main"].with_attr(QRANGE, ranges)
    if batch is not None:
        _check_outputs(model.graph, shapes, importer.output_shapes, is_asked=asked is not None)
    return mod


def import_file(path: Path, options: ImportOptions) -> IRModule:
    """Import an ONNX file as ``frontend.model`` wants it."""
    refuse_params(path, options)
    return import_onnx(
        path,
        batch=options.batch,
        inputs=options.inputs,
        values=options.values,
        outputs=options.outputs,
    )


def _rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model as the importer reads it: what outputs depend on, in order, in float32."""
    model = drop_unused(in_order(make_dense(model)))
    _check_weights(model.graph)
    if model.functions:
        model = inline_functions(model)
        _check_weights(model.graph)
    if (widened := widen(model)) is not model:
        model = widened
        _check_weights(model.graph)
    return expand_functions(restore_biases(unpack_integers(model)))


def _tell_of_rows(number: str, names: Sequence[str]) -> None:
    """Tell of outputs that are longer here than in the file."""
    which = f"output {names[0]} has" if len(names) == 1 else f"outputs {', '.join(names)} have"
    notice(
        f"{which} as many rows as values say: there is room for all that there may be, with zeros "
        f"behind the last one, and one more output, {number}, says how many there are"
    )


def _check_weights(graph: onnx.GraphProto) -> None:
    """Refuse values that are no numbers; infinite ones are masks, where no layer reads them."""
    broken = [name for name, array in _weights(graph) if np.isnan(array).any()]
    if broken:
        raise FrontendError(
            f"initializers with NaN or infinite values: {', '.join(broken)}; "
            "weights must be finite: check the training or the export"
        )


def _weights(graph: onnx.GraphProto) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and value of the float weights; a scalar may be NaN: it is a clip bound."""
    written = [(tensor.name, tensor) for tensor in graph.initializer]
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            written += [(node.output[0], a.t) for a in node.attribute if a.name == "value"]
    for name, tensor in written:
        try:
            array = numpy_helper.to_array(tensor)
        except (TypeError, ValueError, KeyError) as err:
            raise FrontendError(f"tensor {name} of the file cannot be read: {err}") from err
        if tensor.dims and tensor.data_type in FLOATS:
            yield name, array


def _written_shapes(graph: onnx.GraphProto, given: Shapes) -> dict[str, list[Extent]]:
    """Return the shape of every data input, as the file has it; if it has none, all is open."""
    weights = {tensor.name for tensor in graph.initializer}
    shapes: dict[str, list[Extent]] = {}
    for value in graph.input:
        if value.name in weights:
            continue
        refuse_text(value)
        if (kind := value.type.WhichOneof("value")) not in (None, "tensor_type"):
            raise UnsupportedOpError(
                f"input {value.name} is no tensor but {kind}: make inputs of the tensors in it"
            )
        if value.type.tensor_type.HasField("shape"):
            shapes[value.name] = [_written(dim) for dim in value.type.tensor_type.shape.dim]
        elif value.name in given:
            shapes[value.name] = [None] * len(given[value.name])
        else:
            raise FrontendError(
                f"input {value.name} has no shape in the file; say what it shall be, as "
                f"{shape_option(value.name, EXAMPLES[4])}"
            )
    return shapes


def _written(dim: onnx.TensorShapeProto.Dimension) -> Extent:
    is_known = dim.HasField("dim_value") and dim.dim_value > 0
    label = "" if dim.dim_param in NO_LABELS else str(dim.dim_param)
    return int(dim.dim_value) if is_known else label or None


def _check_outputs(
    graph: onnx.GraphProto,
    inputs: Mapping[str, Sequence[int]],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    is_asked: bool,
) -> None:
    """Refuse a batch that shapes written into the graph did not follow.

    Where the user did not ask for it, the file may have one name for several extents: a notice.
    """
    batches = {
        _leading(value): inputs[value.name][0]
        for value in graph.input
        if _leading(value) and value.name in inputs
    }
    for value in graph.output:
        label, shape = _leading(value), shapes[value.name]
        if label not in batches or shape[0] == (batch := batches[label]):
            continue
        found = (
            f"shapes inside the model are written for batch {shape[0]}: with batch {batch} its "
            f"output {value.name} "
        )
        if is_asked:
            raise FrontendError(f"{found}would be {list(shape)}; export it with that batch")
        notice(f"{found}is {list(shape)}: right only if its first extent is no batch")


def _leading(value: onnx.ValueInfoProto) -> int | str | None:
    """Return the extent or the name of a tensor's first dimension."""
    dims = value.type.tensor_type.shape.dim
    return (dims[0].dim_value or dims[0].dim_param) if dims else None
