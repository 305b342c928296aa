"""The record of an operator: what passes, plans and reports ask of a kind of group."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.contractions import multiply_accumulates
from relay_int8.graph.group import Group
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Kernel

Array = npt.NDArray[Any]
Holds = Callable[[np.ndarray], bool]
"""Says of a constant whether it has the sign that is asked about."""


class Operator:
    """The record of one kind of group; subclasses override the defaults.

    ``kind`` is that of :class:`relay_int8.graph.group.Group`. Records hold no state.
    """

    kind: ClassVar[str] = ""

    pays_alone: ClassVar[bool] = False
    """Whether its kind is worth integers by itself: products with weights."""

    requantizes: ClassVar[bool] = False
    """Whether it gives its result in any scale, so also in the one that its reader wants."""

    prepares_input: ClassVar[bool] = False
    """Whether it is preparation where it reads an input of the network: that is quantized later."""

    shares_scale: ClassVar[bool] = False
    """Whether its integer kernel reads inputs in the scale of its result: nothing is computed."""

    rounds: ClassVar[bool] = False
    """Whether its float kernel gives integers as well, so that readers may want these."""

    in_numpy: ClassVar[bool] = False
    """Whether :meth:`evaluate` computes it; TVM's own kernel does otherwise."""

    in_fixed_point: ClassVar[bool] = True
    """Whether it has integers without floats too: ``requantize`` other than "float"."""

    takes_constants: ClassVar[bool] = False
    """Whether :meth:`evaluate` computes it too where constant operands refuse integers."""

    def is_worth_alone(self, group: Group) -> bool:
        """Whether integers are worth it for ``group``, whatever its neighbours are."""
        return self.pays_alone

    def refusal(self, group: Group) -> str | None:
        """Say why ``group`` has no integer form, or None; shapes and types have been looked at."""
        return None

    def float_refusal(self, group: Group) -> str | None:
        """Say why ``group`` has no float kernel of this project's own, or None."""
        return self.refusal(group)

    def range_refusal(self, group: Group, x: QParams) -> str | None:
        """Say why ``group`` has no exact integers where its first input has these parameters."""
        return None

    def pair_refusal(self, group: Group) -> str | None:
        """Say which constants lack the Q/DQ pair that would make ``group`` integers, or None."""
        return None

    def macs(self, group: Group) -> int:
        """Return its multiply-accumulates, of two activations too; 0 where it multiplies none."""
        return multiply_accumulates(group.root)

    def keeps_range(self, group: Group) -> bool:
        """Say whether the result takes the scale and zero point of the input."""
        return False

    def lends_range(self, group: Group) -> bool:
        """Say whether what feeds ``group`` alone had better take the parameters of its result."""
        return False

    def is_part(self, group: Group, whole: Group) -> bool:
        """Say whether the result of ``whole`` contains that of ``group``, of this kind."""
        return False

    def scaled_inputs(self, group: Group) -> Sequence[relax.Var]:
        """Return the inputs that alone have to be scaled for each channel of the result to be.

        Factors of channels pass from these to the result; an activation is not looked at.
        """
        return ()

    def is_bound(self, group: Group) -> bool:
        """Say whether it only moves values into bounds."""
        return False

    def gives_float(self, group: Group) -> bool:
        """Say whether an integer kernel may give floats, with no quantize behind it."""
        return False

    def function(self, group: Group) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return the function of real numbers that it applies to each element, or None."""
        return None

    def is_non_negative(self, group: Group) -> bool:
        """Say whether its result is never negative, whatever it reads."""
        return False

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Say whether the result has a sign that its inputs in ``known`` and constants have."""
        return False

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return spec and constants in integers, multipliers as real numbers.

        Parameters
        ----------
        group
            A group whose activations are all dequantized integers, and that is not refused.
        xs
            Parameters of its inputs, in the order of ``group.inputs``.
        y
            Parameters of its result; None where it gives floats.
        """
        raise NotImplementedError(self.kind)

    def constant_tensors(self, group: Group) -> list[np.ndarray]:
        """Return the tensors that its integer kernel reads behind those of the group."""
        return []

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return spec and constants in float32, or None: TVM's own kernel computes it."""
        return None

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return its float32 result of many images, in NumPy; see ``operators.images``."""
        raise NotImplementedError(self.kind)

    def is_batched(self, group: Group) -> bool:
        """Say whether :meth:`evaluate` computes the images along the first axis at once."""
        shapes = [dataflow.shape(var) for var in (*group.inputs, *group.floats, group.output)]
        return all(shape[:1] == (1,) for shape in shapes)
