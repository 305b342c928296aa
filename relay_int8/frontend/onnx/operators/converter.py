"""The type of what turns one ONNX node into Relax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

Converter = Callable[[relax.BlockBuilder, list[Any], dict[str, Any]], relax.Expr]
"""Takes a builder, the operands (None for one that is left out) and the attributes of a node."""
