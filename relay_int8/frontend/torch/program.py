"""The graph of an exported PyTorch program: what the JSON of a .pt2 file says, checked.

An argument is a one-entry object that names its kind: ``{"as_ints": [2, 2]}``. Arguments that keep
their default are not written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from relay_int8.errors import FrontendError
from relay_int8.frontend.extents import Extent
from relay_int8.frontend.torch.file import DTYPES, Archive, Array

SCHEMA = 8  # major version of the JSON
PLAIN = {
    "as_bool": bool,
    "as_float": float,
    "as_int": int,
    "as_scalar_type": int,
    "as_string": str,
}
"""Kind of an argument that stands for itself -> its Python type."""
NESTED = ("as_optional_tensor", "as_sym_bool", "as_sym_float", "as_sym_int")
LISTS = {
    "as_bools": "as_bool",
    "as_floats": "as_float",
    "as_ints": "as_int",
    "as_optional_tensors": "as_optional_tensor",
    "as_strings": "as_string",
    "as_sym_ints": "as_sym_int",
    "as_tensors": "as_tensor",
}
"""Kind of a list -> the kind of its entries, which are written without it."""
NAMED = ("as_name", "as_tensor")
SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)$")
IGNORED = ("as_device", "as_graph", "as_layout", "as_memory_format")
WRAPPERS = ("higher_order.wrap_with_autocast", "higher_order.wrap_with_set_grad_enabled")
"""Operators that run a graph of their own under some setting, which changes no result here."""
MUTATIONS = frozenset({"buffer_mutation", "user_input_mutation"})
"""Outputs of a program that its model does not return: what buffers and inputs become."""


@dataclass(frozen=True)
class Ref:
    """A value that an earlier node computes, by name."""

    name: str


Argument = Any  # None, bool, int, float, complex, str, Ref, or a list of these


@dataclass(frozen=True, kw_only=True)
class ProgramNode:
    """One call: ``operator`` is torch's name of it, as ``aten.conv2d``.

    ``changes`` says whether it writes its result over its first operand, ``path`` is the module it
    was called in, ``leaf`` whether that is one of torch's own.
    """

    name: str
    operator: str
    arguments: Mapping[str, Argument]
    outputs: tuple[str, ...]
    changes: bool
    path: str
    leaf: bool

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"node {self.name} ({self.operator}{f' in {self.path}' if self.path else ''})"


@dataclass(frozen=True, kw_only=True)
class Program:
    """A graph in order.

    Attributes
    ----------
    inputs
        Name -> element type and sizes of every data input; an open size is torch's symbol.
    tensors
        Name in the graph -> value, of parameters, buffers and constants.
    weights
        Names of those that are parameters.
    buffers
        Those that are buffers -> their names in the model.
    changed
        Names in the model of the buffers that are given back changed, as a program without changes
        in place says it.
    overwritten
        Inputs that are, in such a program.
    nodes, outputs
        The calls, and the names of what is returned.
    sizes
        Name -> sizes that torch found, symbols where they are open.
    """

    inputs: Mapping[str, tuple[str, tuple[Extent, ...]]]
    tensors: Mapping[str, Array]
    weights: frozenset[str]
    buffers: Mapping[str, str]
    changed: tuple[str, ...]
    overwritten: tuple[str, ...] = ()
    nodes: tuple[ProgramNode, ...]
    outputs: tuple[str, ...]
    sizes: Mapping[str, tuple[Extent, ...]]


def read_program(archive: Archive) -> Program:
    """Return the program of an archive.

    Raises
    ------
    FrontendError
        The JSON is not that of a program, or a program of another kind.
    """
    try:
        return _program(archive)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as err:
        reason = f"{err} is missing" if isinstance(err, KeyError) else str(err)
        raise FrontendError(f"no program of torch.export that can be read: {reason}") from err


def _program(archive: Archive) -> Program:
    document = archive.program
    version = document["schema_version"]["major"]
    if version != SCHEMA:
        raise FrontendError(
            f"the file has version {version} of PyTorch's schema, expected {SCHEMA}: load it with "
            "torch.export.load, save it again with PyTorch 2.9 or newer"
        )
    graph, signature = document["graph_module"]["graph"], document["graph_module"]["signature"]
    kinds = _kinds(graph)
    inputs, tensors = {}, {}
    for spec in signature["input_specs"]:
        if "constant_input" in spec:  # an argument that is no tensor: nodes have its value
            continue
        name, source = _input(spec)
        if source is None:
            inputs[name] = kinds[name]
        elif source in archive.tensors:
            tensors[name] = archive.tensors[source]
        else:
            raise ValueError(f"tensor {source} is not in the archive")
    return Program(
        inputs=inputs,
        tensors=tensors,
        weights=frozenset(
            _input(spec)[0] for spec in signature["input_specs"] if "parameter" in spec
        ),
        nodes=tuple(_nodes(graph)),
        changed=tuple(
            _text(spec["buffer_mutation"]["buffer_name"])
            for spec in signature["output_specs"]
            if "buffer_mutation" in spec
        ),
        overwritten=tuple(
            _text(spec["user_input_mutation"]["user_input_name"])
            for spec in signature["output_specs"]
            if "user_input_mutation" in spec
        ),
        buffers={
            _input(spec)[0]: _text(spec["buffer"]["buffer_name"])
            for spec in signature["input_specs"]
            if "buffer" in spec
        },
        outputs=tuple(
            _output(spec)
            for spec in signature["output_specs"]
            if MUTATIONS.isdisjoint(spec) and not _is_none(spec)
        ),
        sizes={name: sizes for name, (_, sizes) in kinds.items()},
    )


def _kinds(graph: dict[str, Any]) -> dict[str, tuple[str, tuple[Extent, ...]]]:
    """Return name -> element type and sizes of the tensors of a graph, and of those inside it."""
    kinds = {name: _tensor_kind(meta) for name, meta in graph["tensor_values"].items()}
    for entry in graph["nodes"]:
        inner = _inner_graph(entry)
        if inner is not None:
            for name, kind in _kinds(inner["graph"]).items():
                kinds.setdefault(_inside(inner, name), kind)
    return kinds


def _nodes(graph: dict[str, Any]) -> Iterator[ProgramNode]:
    """Yield the calls of a graph; those of a wrapped graph stand in place of the wrapper."""
    for entry in graph["nodes"]:
        inner = _inner_graph(entry)
        if inner is None:
            yield _node(entry)
        else:
            yield from _unwrapped(entry, inner)


def _inner_graph(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return name and graph that a wrapper runs, or None where a node is none."""
    if not _text(entry["target"]).endswith(WRAPPERS):
        return None
    graphs = [given["arg"]["as_graph"] for given in entry["inputs"] if "as_graph" in given["arg"]]
    if len(graphs) != 1:
        raise ValueError(f"{entry['target']} runs {len(graphs)} graphs")
    return dict(graphs[0])


def _unwrapped(entry: dict[str, Any], inner: dict[str, Any]) -> Iterator[ProgramNode]:
    """Yield the nodes of a wrapped graph under names of their own.

    Before:  y = wrapper(setting, graph, x), graph: v -> (w = f(v); g(w))
    After:   y = alias(g(f(x)))
    """
    given = [item["arg"] for item in entry["inputs"]]
    first = next(index for index, argument in enumerate(given) if "as_graph" in argument) + 1
    operands = [_argument(argument) for argument in given[first:]]
    graph = inner["graph"]
    variables = [next(_names(_argument(item))) for item in graph["inputs"]]
    values: dict[str, Argument] = dict(zip(variables, operands, strict=True))
    for node in _nodes(graph):
        values.update((name, Ref(_inside(inner, name))) for name in node.outputs)
        yield replace(
            node,
            name=_inside(inner, node.name),
            arguments={key: _replaced(value, values) for key, value in node.arguments.items()},
            outputs=tuple(_inside(inner, name) for name in node.outputs),
        )
    wrapper = _node(entry)
    results = [name for item in graph["outputs"] for name in _names(_argument(item))]
    for name, result in zip(wrapper.outputs, results, strict=True):
        arguments = {"self": values[result]}
        yield replace(
            wrapper, name=name, operator="aten.alias", arguments=arguments, outputs=(name,)
        )


def _replaced(argument: Argument, values: Mapping[str, Argument]) -> Argument:
    """Return an argument in which names of a wrapped graph are those outside."""
    if isinstance(argument, list):
        return [_replaced(entry, values) for entry in argument]
    return values.get(argument.name, argument) if isinstance(argument, Ref) else argument


def _inside(inner: dict[str, Any], name: str) -> str:
    return f"{_text(inner['name'])}.{name}"


def _tensor_kind(meta: dict[str, Any]) -> tuple[str, tuple[Extent, ...]]:
    sizes = tuple(_extent(extent) for extent in meta["sizes"])
    return DTYPES.get(meta["dtype"], f"element type {meta['dtype']}"), sizes


def _extent(entry: dict[str, Any]) -> Extent:
    """Return a size, or the name or expression of one that is open; None if it has neither."""
    if "as_int" in entry:
        if type(entry["as_int"]) is not int:
            raise ValueError(f"a size is {str(entry)[:100]}")
        return int(entry["as_int"])
    said = entry.get("as_expr")
    if not isinstance(said, dict):
        return None
    text = _text(said.get("expr_str", ""))
    symbol = SYMBOL.match(text)
    return symbol[1] if symbol else text or None


def _input(spec: dict[str, Any]) -> tuple[str, str | None]:
    """Return the name of an input, and that of the tensor it stands for, if it is no data."""
    ((kind, entry),) = spec.items()
    for source in ("parameter", "buffer", "tensor_constant"):
        if kind == source:
            return _text(entry["arg"]["name"]), _text(entry[f"{source}_name"])
    if kind != "user_input" or list(entry["arg"]) != ["as_tensor"]:
        raise FrontendError(f"input {str(spec)[:100]} is no tensor; export the model without it")
    return _text(entry["arg"]["as_tensor"]["name"]), None


def _is_none(spec: dict[str, Any]) -> bool:
    """Whether an output is Python's None, as results that a model leaves out are."""
    return "user_output" in spec and list(spec["user_output"]["arg"]) == ["as_none"]


def _output(spec: dict[str, Any]) -> str:
    ((kind, entry),) = spec.items()
    if kind != "user_output" or list(entry["arg"]) != ["as_tensor"]:
        raise FrontendError(f"output {str(spec)[:100]} is no tensor; export the model without it")
    return _text(entry["arg"]["as_tensor"]["name"])


def _node(entry: dict[str, Any]) -> ProgramNode:
    target = _text(entry["target"])
    call = target.removeprefix("torch.ops.").split(".")
    operator = ".".join(call[:2])
    # Python's or_ and and_ change nothing: their underscore keeps them from being keywords.
    named_so = operator.startswith("_operator.") or operator.endswith("__")
    changes = operator.endswith("_") and not named_so
    outputs = tuple(name for output in entry["outputs"] for name in _names(_argument(output)))
    path, leaf = _module(entry.get("metadata", {}).get("nn_module_stack", ""))
    return ProgramNode(
        name=_text(entry.get("name") or (outputs[0] if outputs else target)),
        operator=operator.removesuffix("_") if changes else operator,
        arguments={_text(given["name"]): _argument(given["arg"]) for given in entry["inputs"]},
        outputs=outputs,
        changes=changes,
        path=path,
        leaf=leaf,
    )


def _module(stack: str) -> tuple[str, bool]:
    """Return path and kind of the innermost module of a stack ``key,path,class;...``."""
    _, path, kind = [*_text(stack).rpartition(";")[2].split(",", 2), "", "", ""][:3]
    return path, kind.startswith("torch.nn.modules.")


def _argument(tagged: dict[str, Any]) -> Argument:
    ((kind, value),) = tagged.items()
    if kind in NAMED:
        return Ref(_text(value["name"] if kind == "as_tensor" else value))
    if kind in NESTED:
        return _argument(value)
    if kind in LISTS:
        nested = LISTS[kind]
        return [_argument({nested: entry}) for entry in value]
    if kind in PLAIN and type(value) is PLAIN[kind]:
        return value
    if kind == "as_float" and (type(value) is int or value in ("Infinity", "-Infinity", "NaN")):
        return float(value)
    if kind == "as_complex":
        return complex(*(float(value[part]) for part in ("real", "imag")))
    if kind == "as_none" or kind in IGNORED:
        return None
    raise ValueError(f"an argument is {str(tagged)[:100]}")


def _names(argument: Argument) -> Iterator[str]:
    for entry in argument if isinstance(argument, list) else [argument]:
        if isinstance(entry, Ref):
            yield entry.name


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"expected a text, found {str(text)[:60]}")
    return text
