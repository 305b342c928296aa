"""Read the graph of an MXNet model: a ``-symbol.json`` of any version from 0.9 to 1.9.

``nodes`` are in topological order and read earlier ones by number. An operator's attributes are
texts, under ``param`` (0.8, 0.9), ``attr`` (0.9 to 0.12) or ``attrs`` (from 1.0 on).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relay_int8 import finite_json
from relay_int8.errors import FrontendError
from relay_int8.file_names import absent
from relay_int8.frontend.options import require_tensors

VARIABLE = "null"
LARGEST_BYTES = 16 << 20  # size of a symbol file; the deepest networks of the model zoos have 1 MB
SPELLINGS = ("attr", "attrs", "param")  # keys of attributes; of two, the later counts

Entry = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class SymbolNode:
    """An operator or a variable; ``inputs`` are pairs of node and output."""

    op: str
    name: str
    attributes: Mapping[str, str]
    inputs: tuple[Entry, ...]

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"node {self.name} ({self.op})"


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """A graph: nodes in topological order, and what it returns."""

    nodes: tuple[SymbolNode, ...]
    heads: tuple[Entry, ...]


def cut_at(symbol: Symbol, outputs: Sequence[str]) -> Symbol:
    """Return a graph that returns these nodes' first results; itself where none is named.

    Raises
    ------
    ConfigError
        No operator has such a name.
    """
    places = {n.name: (i, 0) for i, n in enumerate(symbol.nodes) if n.op != VARIABLE}
    require_tensors(outputs, places)
    return replace(symbol, heads=tuple(places[name] for name in outputs)) if outputs else symbol


def read_symbol(path: Path) -> Symbol:
    """Return the graph of a symbol file.

    Raises
    ------
    FrontendError
        There is no such file, or it is not a whole MXNet symbol.
    """
    if not path.is_file():
        raise FrontendError(f"{path}: {absent(path)}; expected an MXNet symbol (-symbol.json)")
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        raise FrontendError(f"{path}: {size} bytes; an MXNet symbol has at most {LARGEST_BYTES}")
    try:
        document = finite_json.loads(path.read_bytes())
    except ValueError as err:
        raise FrontendError(f"{path}: expected the JSON of an MXNet symbol: {err}") from err
    try:
        return _symbol(document)
    except ValueError as err:
        raise FrontendError(f"{path}: no MXNet symbol that can be read: {err}") from err


def _symbol(document: Any) -> Symbol:
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise ValueError("it has no list of nodes")
    nodes = tuple(_node(index, node) for index, node in enumerate(document["nodes"]))
    if not isinstance(document.get("heads"), list) or not document["heads"]:
        raise ValueError("it has no heads: nothing to compute")
    heads = tuple(_entry(entry, len(nodes), "a head") for entry in document["heads"])
    return Symbol(nodes=nodes, heads=heads)


def _node(index: int, fields: Any) -> SymbolNode:
    if not isinstance(fields, dict):
        raise ValueError(f"node {index} is {type(fields).__name__}, not an object")
    op, name = fields.get("op"), fields.get("name")
    if not isinstance(op, str) or not isinstance(name, str) or not name:
        raise ValueError(f"node {index} has no op or no name")
    inputs = fields.get("inputs", [])
    if not isinstance(inputs, list):
        raise ValueError(f"the inputs of node {name} are no list")
    return SymbolNode(
        op=op,
        name=name,
        attributes=_attributes(name, fields),
        inputs=tuple(_entry(entry, index, f"node {name}") for entry in inputs),
    )


def _attributes(name: str, entry: dict[str, Any]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for spelling in SPELLINGS:
        attributes = entry.get(spelling) or {}
        if not isinstance(attributes, dict):
            raise ValueError(f"{spelling} of node {name} is no object")
        merged.update({key: str(value).strip() for key, value in attributes.items()})
    return merged


def _entry(entry: Any, before: int, reader: str) -> Entry:
    """Return node and output of an input, which must be one of the first ``before`` nodes."""
    whole = isinstance(entry, list) and len(entry) in (2, 3)
    if not whole or any(type(number) is not int or number < 0 for number in entry[:2]):
        raise ValueError(f"{reader} reads {str(entry)[:60]}, not [node, output]")
    if entry[0] >= before:
        raise ValueError(f"{reader} reads node {entry[0]}, of which there are {before} before it")
    return entry[0], entry[1]
