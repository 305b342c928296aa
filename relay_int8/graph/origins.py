"""The float tensors that variables of a realized module stand for, an attribute of ``main``.

A tensor of the network keeps its name through every pass. Realize and the passes behind it bind
others beside it, its integers or the same numbers in another layout: their names are for reading,
and here stands which tensor each of them is and what was done to get it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Literal

from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.attributes import ORIGINS

Role = Literal["result", "part", "quantize", "dequantize", "rescale", "reshape", "sign", "repack"]


@dataclass(frozen=True)
class Origin:
    """A tensor of the network, and what made a variable of it.

    "result": the layer that gives the tensor. "part": what gives or reads some channels of it, of a
    layer in parts. "sign": int8 became uint8, or the reverse. "repack":
    another layout. The others are what their names say.
    """

    tensor: str
    role: Role = "result"


class Origins:
    """The origins of a module's variables; one that nothing is said of is the tensor of its name.

    Parameters
    ----------
    func
        ``main`` as the pass before left it.
    """

    def __init__(self, func: relax.Function) -> None:
        text = str(dataflow.attributes(func).get(ORIGINS, "{}"))
        self._origins = {name: Origin(*fields) for name, fields in json.loads(text).items()}

    def of(self, variable: str) -> Origin:
        """Return what the variable of that name stands for."""
        return self._origins.get(variable, Origin(variable))

    def note(self, variable: relax.Var, source: str, role: Role) -> None:
        """Note that ``variable`` was made of the variable called ``source``."""
        self._origins[str(variable.name)] = Origin(self.of(source).tensor, role)

    def added_to(self, attributes: Mapping[str, object]) -> dict[str, object]:
        """Return attributes of a function with these origins among them."""
        kept = {name: value for name, value in attributes.items() if name != ORIGINS}
        if not self._origins:
            return kept
        return kept | {ORIGINS: json.dumps({name: astuple(o) for name, o in self._origins.items()})}
