"""A group: operators that become one kernel. ``graph.groups`` finds those of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.attention import AttentionSubgraph
from relay_int8.graph.channel_affine import ChannelAffine
from relay_int8.graph.functions import FunctionSubgraph
from relay_int8.graph.matrix_products import MatrixProduct
from relay_int8.graph.shuffles import ShuffleSubgraph
from schedules.spec import GATES_ALONE, Activation, Recurrence, Sample2d, WeightType

CONV2D, DENSE = "conv2d", "dense"
"""Kinds of the layers: products with constant weights."""

AFFINE = "affine"
"""Kind of ``a * x + b`` with one a and b a channel."""

SAMPLE = Sample2d.kind
"""Of the call that samples for a deformable convolution: a spec from the frontend on."""

RECURRENCE = Recurrence.kind
"""Of the call that computes all steps of a recurrent layer: a spec from the frontend on."""

INTERPOLATE = "interpolate"
"""Kind of a bilinear resize; "resize" moves pixels."""

MOVES = ("reshape", "transpose", "slice", "shuffle", "pad", "concat")
"""Kinds that move elements, each to one place at most."""


@dataclass(frozen=True)
class Clip:
    """Clamp to [low, high]; ReLU is [0, inf]."""

    low: float
    high: float


@dataclass(frozen=True)
class Leaky:
    """Multiply negative values by ``slope``, float64, one value or one per channel."""

    slope: np.ndarray


@dataclass(frozen=True)
class Smooth:
    """A smooth function of one tensor, such as swish, that the epilogue of a layer computes.

    ``kind`` is that of the group which it would be by itself; ``function`` is of float64 arrays.
    It is ``scale * f + shift``, f being the function called ``name``. ``factors``, float64
    (channels,), are positive, and multiply its values; None: nothing does.
    """

    name: Activation
    kind: str
    function: Callable[[np.ndarray], np.ndarray]
    factors: np.ndarray | None = None
    scale: float = 1.0
    shift: float = 0.0

    @property
    def is_non_negative(self) -> bool:
        """Whether its values are never negative: those of a gate itself."""
        return self.name in GATES_ALONE and self.shift >= 0


@dataclass(frozen=True)
class Weight:
    """Constant weights in float, and scales and zero points by output channel if they have Q/DQ."""

    values: np.ndarray
    scale: np.ndarray | None = None
    zero_point: np.ndarray | None = None

    @property
    def dtype(self) -> WeightType:
        """Of their integers less the zero points: int16 where these may not fit int8."""
        if self.zero_point is None:
            return "int8"
        is_plain = self.zero_point.dtype == np.int8 and not self.zero_point.any()
        return "int8" if is_plain else "int16"


@dataclass
class Group:
    """Operators that become one kernel.

    ``inputs`` are the activations it reads, the residual last (none where its operand is constant);
    ``output`` is what it gives.
    ``floats`` are read as float32 even by an integer kernel: offsets, masks, sums that a recurrent
    layer adds to; ``state_weight`` is what its state is multiplied by.
    Of the members, ``addition`` is the sum with the residual, ``activated`` what the activation
    gives.
    """

    kind: str
    root: relax.Expr
    inputs: list[relax.Var]
    output: relax.Var
    members: list[relax.Var] = field(default_factory=list)
    weight: Weight | None = None
    bias: np.ndarray | None = None
    addition: relax.Var | None = None
    floats: list[relax.Var] = field(default_factory=list)
    activation: Clip | Leaky | Smooth | None = None
    activated: relax.Var | None = None
    function: FunctionSubgraph | None = None
    affine: ChannelAffine | None = None
    shuffle: ShuffleSubgraph | None = None
    attention: AttentionSubgraph | None = None
    product: MatrixProduct | None = None
    state_weight: Weight | None = None

    @property
    def name(self) -> str:
        """Name of the tensor it computes."""
        return str(self.output.name)

    @property
    def residual(self) -> bool:
        """Whether a residual is added."""
        return self.addition is not None

    @property
    def ends_in_sum(self) -> bool:
        """Whether a residual is added last, to what the activation gives if there is one."""
        return self.addition is not None and self.addition.same_as(self.output)

    @property
    def sum_first(self) -> bool:
        """Whether a slope or a function is of the sum with the residual."""
        is_bound = isinstance(self.activation, Clip | None)
        return self.residual and not self.ends_in_sum and not is_bound

    @property
    def steepness(self) -> npt.NDArray[np.float64]:
        """(oc,): by what the activation of a layer multiplies errors of large sums."""
        ones = np.ones(len(self.weight_rows))
        if not isinstance(self.activation, Smooth):
            return ones
        factors = ones if self.activation.factors is None else self.activation.factors
        return self.activation.scale * factors

    @property
    def is_layer(self) -> bool:
        """Whether it is a convolution or a dense layer."""
        return self.kind in (CONV2D, DENSE)

    @property
    def is_depthwise(self) -> bool:
        """Whether it is a convolution with constant weights of which an output reads one channel.

        So it has a scale of weights for each channel that it reads.
        """
        is_convolution = self.kind == CONV2D and self.weight is not None
        return is_convolution and self.weight_rows.shape[1] == 1

    @property
    def weight_rows(self) -> np.ndarray:
        """Constant weights with output channels first: (oc, ic, kh, kw) or (oc, k)."""
        assert self.weight is not None
        values: np.ndarray = np.moveaxis(self.weight.values, 0 if self.kind == CONV2D else 1, 0)
        return values

    @property
    def bias_or_zero(self) -> np.ndarray:
        """(oc,): the bias, or float32 zeros."""
        zeros = np.zeros(len(self.weight_rows), np.float32)
        return zeros if self.bias is None else self.bias


def readers_of(groups: Iterable[Group]) -> dict[relax.Var, list[Group]]:
    """Return the groups that read each tensor, in integers or in float, in their order."""
    readers: dict[relax.Var, list[Group]] = {}
    for group in groups:
        for var in (*group.inputs, *group.floats):
            readers.setdefault(var, []).append(group)
    return readers


def pad_value(group: Group) -> float:
    """Return what a pad puts around its input; 0 for any other group, and where it adds nothing."""
    if group.kind != "pad" or group.root.attrs.pad_mode != "constant":
        return 0.0
    return dataflow.pad_fill(group.root)


def adds_values(group: Group) -> bool:
    """Say whether a group puts values beside those of its input that its parameters may lack."""
    return pad_value(group) != 0
