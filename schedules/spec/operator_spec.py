"""The base class of specs, and the types of their fields."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from tvm import tirx

QType = Literal["uint8", "int8"]
DType = Literal["uint8", "int8", "float32"]
WeightType = Literal["int8", "int16"]
Size = int | tirx.Var  # a batch may be symbolic
Pair = tuple[int, int]
Padding = tuple[int, int, int, int]  # top, left, bottom, right
Shape = tuple[Size, ...]
FLOAT32_MAX = 3.4028234663852886e38


def static_size(size: Size) -> int:
    """Return ``size``, or 1 where it is symbolic."""
    return size if isinstance(size, int) else 1


def window_positions(
    size: Pair, kernel: Pair, strides: Pair, dilation: Pair, padding: Padding
) -> Pair:
    """Return how many positions down and across a window fits into a padded image."""
    padded = (size[0] + padding[0] + padding[2], size[1] + padding[1] + padding[3])
    down, across = (
        (extent - step * (taps - 1) - 1) // stride + 1
        for extent, taps, stride, step in zip(padded, kernel, strides, dilation, strict=True)
    )
    return down, across


class OperatorSpec:
    """One operator; subclasses are frozen dataclasses with a field or constant for each type."""

    kind: ClassVar[str]

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ()

    @property
    def zero_points(self) -> tuple[str, ...]:
        """Names of the activations whose zero points the constant z holds, in its order."""
        return (*(name for name in self.tensors if self.dtype(name) != "float32"), "y")

    @property
    def multiplications(self) -> int:
        """How many products it sums up, a symbolic size taken as 1; 0 where it sums none.

        Taps in the padding are left out: a kernel may skip them, and none may count them.
        """
        return 0

    @property
    def is_static(self) -> bool:
        """Whether every size is known, and none symbolic."""
        shapes = [self.shape(name) for name in (*self.tensors, "y")]
        return all(isinstance(size, int) for shape in shapes for size in shape)

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name``, one of ``tensors`` or "y"."""
        raise NotImplementedError

    def constant_dtype(self, name: str) -> str:
        """Element type of constant ``name``, one of ``params``."""
        if name in ("w", "bias") and self.dtype("x") != "float32":
            return "int8" if name == "w" else "int32"
        if name in ("table", "fill"):
            return self.dtype("y")
        return "int32" if name in ("z", "last", "mask") else "float32"

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        dtype: Any = getattr(self, name)
        return str(dtype)
