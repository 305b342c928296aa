"""Kernels for images of any size and any number of channels, for networks that run briefly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from schedules.spec.operator_spec import DType, OperatorSpec, Pair, Shape

LAST = "last"
"""The constant of kernels for all sizes that a kernel of one size has not: int32 (1,), how many
channels the last block of y has; its other lanes become 0."""


@dataclass(frozen=True, kw_only=True)
class OpenConv2d(OperatorSpec):
    """A float32 ``Conv2d`` of one image, whose sizes are known when it runs.

    Memory is NCHW16c: ``x_shape`` and ``y_shape`` are (blocks of 16 channels, height, width), which
    are symbolic. Sums have the order, and so the bits, of the convolution that knows its sizes:
    over (block, row, column, channel of the block), or with ``columns_last`` over (block, row,
    channel of the block, column). Where it is ``depthwise``, over (row, column).

    Parameters
    ----------
    padding
        Top and left; zeros to the right and at the bottom follow from the sizes.
    is_padded
        Whether any window reaches past the image.
    steps
        Channels of a block that are summed: all 16, or those of an image that has fewer; one of a
        depthwise convolution.
    tile
        Blocks of channels and positions of y that are computed at a time; whole tiles of blocks.

    Params: w float32 (blocks of y, blocks of x, kernel rows, kernel columns, steps, 16), bias
    (classes of rows, classes of columns, blocks, 16), alpha (blocks, 16) if leaky, clamp (2,): as
    the convolution that knows its sizes packs them; every class has one bias. Depthwise: w (blocks,
    kernel rows times columns, 16), bias (blocks, 16). Then ``last``, see ``LAST``.
    """

    kind: ClassVar[str] = "open_conv2d"
    x: ClassVar[str] = "float32"
    y: ClassVar[str] = "float32"
    x_shape: Shape
    y_shape: Shape
    kernel: Pair
    strides: Pair
    dilation: Pair
    padding: Pair
    is_padded: bool
    columns_last: bool
    steps: int
    tile: Pair
    residual: bool = False
    sum_first: bool = False
    leaky: bool = False
    depthwise: bool = False

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x", "r") if self.residual else ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("w", "bias", *(("alpha",) if self.leaky else ()), "clamp", LAST)

    def shape(self, name: str) -> Shape:
        """Shape in memory of activation ``name`` ("x", "r" or "y")."""
        return (1, *(self.x_shape if name == "x" else self.y_shape), 16)

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return "float32"


@dataclass(frozen=True, kw_only=True)
class OpenUnpack(OperatorSpec):
    """One image in NCHW16c made row major, of any size; as it is, or dequantized.

    ``y = x``, or ``y = float32(x - z) * s`` where x is of integers and y float32. ``x_shape`` is
    (blocks of 16 channels, height, width) and ``channels`` (channels,), all of them symbolic.
    Where there are no ``channels`` y is in NCHW16c too, and its last block has ``last_channels``;
    its other lanes are 0.
    Params: none, or s float32 (1,), z int32 (1,).
    """

    kind: ClassVar[str] = "open_unpack"
    x_shape: Shape
    channels: Shape
    last_channels: int
    x: DType
    y: DType

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("s", "z") if self.x != self.y else ()

    def shape(self, name: str) -> Shape:
        """Shape in memory of activation ``name`` ("x" or "y")."""
        if name == "x" or not self.channels:
            return (1, *self.x_shape, 16)
        return (1, *self.channels, *self.x_shape[1:])


@dataclass(frozen=True, kw_only=True)
class OpenPack(OperatorSpec):
    """One row-major float32 image of any size in NCHW16c; lanes past the last channel are 0.

    ``x_shape`` is (channels, height, width) and ``blocks`` (blocks of 16 channels,), all symbolic.
    """

    kind: ClassVar[str] = "open_pack"
    x_shape: Shape
    blocks: Shape

    def shape(self, name: str) -> Shape:
        """Shape in memory of activation ``name`` ("x" or "y")."""
        if name == "x":
            return (1, *self.x_shape)
        return (1, *self.blocks, *self.x_shape[1:], 16)

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return "float32"


@dataclass(frozen=True, kw_only=True)
class OpenPool2d(OperatorSpec):
    """A float32 ``Pool2d`` of one image, whose sizes are known when it runs.

    Memory is NCHW16c or row major: ``x_shape`` and ``y_shape`` are (blocks of ``lanes`` channels,
    height, width), which are symbolic. The order of a window is that of the pooling that knows its
    sizes.

    Parameters
    ----------
    kernel
        Rows and columns of a window; None if it is the whole image.
    padding
        Top and left; what is missing to the right and at the bottom follows from the sizes.
    is_padded
        Whether any window reaches past the image.
    lanes
        16, or 1 of a row-major image.

    Params: none for max; m float32 (height, width) of y for avg.
    """

    kind: ClassVar[str] = "open_pool2d"
    reduce: Literal["max", "avg"]
    x_shape: Shape
    y_shape: Shape
    kernel: Pair | None
    strides: Pair
    dilation: Pair
    padding: Pair
    is_padded: bool
    lanes: int

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("m",) if self.reduce == "avg" else ()

    def shape(self, name: str) -> Shape:
        """Shape in memory of activation ``name`` ("x" or "y")."""
        lanes = (16,) if self.lanes > 1 else ()
        return (1, *(self.x_shape if name == "x" else self.y_shape), *lanes)

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return "float32"
