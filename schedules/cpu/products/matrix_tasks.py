"""The tasks of threads in a product of activations."""

from __future__ import annotations

from typing import Any

from tvm.tirx.script import builder as T

from schedules.spec import Attention, Product

SERIAL_MULTIPLICATIONS = 1 << 16  # multiplications; waking threads for fewer does not pay


def tasks(spec: Product | Attention, count: Any) -> Any:
    """Return the loop over ``count`` tasks, parallel if ``spec`` is large or its batch symbolic."""
    symbolic = not isinstance(spec.batch, int)
    is_parallel = symbolic or spec.multiplications >= SERIAL_MULTIPLICATIONS
    return (T.parallel if is_parallel else T.serial)(count)
