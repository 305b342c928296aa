"""What convolutions and dense layers have in common: constant weights, bias, epilogue."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from relay_int8.errors import CalibrationError
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group, Leaky, Smooth
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.images import activate, rows, tail
from relay_int8.operators.kernel import F32, Constants, Kernel, clamp, clamp_steps
from relay_int8.operators.operator import Array, Operator
from schedules.spec import Spec


class Linear(Operator):
    """A product with weights of each output channel, + bias, + residual, activation."""

    pays_alone = True
    requantizes = True
    in_numpy = True

    weight_axis: ClassVar[int]
    """Axis of the weights along which output channels lie."""

    channel_axis: ClassVar[int]
    """Axis of input and result along which channels lie."""

    @abstractmethod
    def fields(self, group: Group) -> dict[str, Any]:
        """Return the fields of the spec that follow from shapes and attributes."""

    @abstractmethod
    def spec(self, group: Group, **types: Any) -> Spec:
        """Return the spec."""

    @abstractmethod
    def products(self, group: Group, x: Array, w: Array) -> Array:
        """Return the products alone of rows of ``x``, channels where the result has them."""

    @abstractmethod
    def patches(self, group: Group, x: Array) -> Array:
        """Return what each output position multiplies: (n, groups, k, positions).

        k runs over the channels of a group and the taps, as a row of the weights has them.
        """

    @abstractmethod
    def integer_products(self, group: Group, x: Array, w: Array, largest: float) -> Array:
        """Return :meth:`products` of whole numbers, exact; sums of magnitudes are ``largest``."""

    @abstractmethod
    def sampled_patches(self, group: Group, x: Array, positions: Array) -> Array:
        """Return (groups, k, len(positions)): the patches of some positions, (n * positions) all.

        Parameters
        ----------
        positions
            Ascending indices of output positions of all rows, row by row.
        """

    @abstractmethod
    def patch_sums(self, group: Group, x: Array) -> Array:
        """Return float64 (groups, k): the sum of the patches of all positions of all rows."""

    @abstractmethod
    def positions(self, group: Group) -> int:
        """Return how many output positions an image has."""

    @abstractmethod
    def by_input(self, group: Group, w: np.ndarray) -> np.ndarray:
        """Return (channels, -1): weights ``w`` sorted by the channel they read."""

    @abstractmethod
    def divided_by_input(self, group: Group, w: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return weights divided by a factor of each channel they read."""

    def by_output(self, w: np.ndarray) -> np.ndarray:
        """Return (channels, -1): weights ``w`` sorted by the channel they produce."""
        values: np.ndarray = np.moveaxis(w, self.weight_axis, 0)
        return values.reshape(len(values), -1)

    def addend(self, bias: np.ndarray) -> np.ndarray:
        """Return (channels,) shaped to be added to the result."""
        return bias

    def groups(self, group: Group) -> int:
        """Return how many groups of channels are multiplied apart."""
        return 1

    def gives_float(self, group: Group) -> bool:
        """Say whether neither a residual nor a function follows: sums may leave as floats."""
        return not group.residual and not isinstance(group.activation, Smooth)

    def float_refusal(self, group: Group) -> str | None:
        """Say that a function is a kernel of its own behind float sums."""
        if isinstance(group.activation, Smooth):
            return f"{group.activation.name} has a kernel of its own in float"
        return super().float_refusal(group)

    def range_refusal(self, group: Group, x: QParams) -> str | None:
        """Say where its sums may leave int32."""
        if group.weight is None or group.weight.scale is None:
            return "its weights are not of integers with a scale a channel"
        try:
            return qparams.accumulator_refusal(*self._weight_and_bias(group, x), x)
        except CalibrationError as error:
            return str(error)

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return int32 sums that start at the bias, one multiplier a channel.

        In front of a function the multiplier gives real numbers, which another one takes to steps.
        """
        assert group.weight is not None and group.weight.scale is not None
        x, s_w = xs[0], group.weight.scale
        s_y = np.float32(1) if y is None else y.scale
        weight, bias = self._weight_and_bias(group, x)
        constants: Constants = {
            "w": weight,
            "bias": bias,
            "m": qparams.multiplier(x.scale, s_w, s_y),
            "z": np.array([x.zero_point, y.zero_point if y else 0, 0], np.int32),
            "clamp": clamp_steps(group.activation, y),
        }
        types = self._types(group, x=x.dtype, y=y.dtype if y else F32, weights=group.weight.dtype)
        if isinstance(group.activation, Leaky):
            if group.sum_first:
                constants["alpha"] = self._slopes(group, group.activation)
            else:
                slopes = qparams.leaky_multiplier(x.scale, s_w, s_y, group.activation.slope)
                constants["m_neg"] = np.broadcast_to(slopes, constants["m"].shape).copy()
        if group.residual:
            assert y is not None
            types["residual"] = xs[1].dtype
            of_function = isinstance(group.activation, Smooth) and group.sum_first
            steps = np.float32(1) if of_function else y.scale
            constants["m_r"] = qparams.rescale_multiplier(xs[1].scale, steps)
            constants["z"][2] = xs[1].zero_point
        if isinstance(group.activation, Smooth):
            assert y is not None
            constants["m"] = qparams.multiplier(x.scale, s_w, np.float32(1))
            factors = group.activation.factors
            if factors is None:
                factors = np.ones(len(s_w))
            one, activation = np.float32(1), group.activation
            constants["m_y"] = qparams.multiplier(one, activation.scale * factors, y.scale)
            if activation.shift:
                constants["b_y"] = qparams.multiplier(one, activation.shift * factors, y.scale)
        return self.spec(group, **types), constants

    def float_kernel(self, group: Group) -> Kernel:
        """Return float32 sums, weights by output channel."""
        assert group.weight is not None
        constants = {
            "w": np.ascontiguousarray(group.weight_rows, np.float32),
            "bias": group.bias_or_zero.astype(np.float32),
            "clamp": clamp(group.activation).astype(np.float32),
        }
        if isinstance(group.activation, Leaky):
            constants["alpha"] = self._slopes(group, group.activation)
        types = self._types(group, x=F32, y=F32)
        return self.spec(group, **types), constants

    def _types(self, group: Group, **types: Any) -> dict[str, Any]:
        """Return fields of the spec that follow from types and from the epilogue."""
        types["leaky"] = isinstance(group.activation, Leaky)
        if isinstance(group.activation, Smooth):
            types["activation"] = group.activation.name
            types["shifted"] = group.activation.shift != 0
        if group.residual:
            types["residual"] = F32
        if group.sum_first:
            types["sum_first"] = True
        return types

    def _slopes(self, group: Group, activation: Leaky) -> np.ndarray:
        """Return float32 (channels,): slopes below zero."""
        return np.broadcast_to(activation.slope, len(group.weight_rows)).astype(np.float32)

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it with its own weights."""
        assert group.weight is not None
        return self.evaluate_with(group, xs, group.weight.values, group.bias)

    def evaluate_with(self, group: Group, xs: Sequence[Array], w: Array, b: Array | None) -> Array:
        """Return the layer with other weights, its epilogue included.

        Parameters
        ----------
        xs
            Its input, and the residual where it adds one; images along the first axis.
        w
            Shaped as ``group.weight.values``.
        b
            (channels,), or None.
        """
        y = self.products(group, rows(xs[0], dataflow.shape(group.inputs[0])), w)
        return self._finished(group, xs, y, b)

    def evaluate_integers(
        self, group: Group, xs: Sequence[Array], w: Array, s: Array, b: Array | None, largest: float
    ) -> Array:
        """Return the layer of an integer input and integer weights: exact sums, times scales.

        Parameters
        ----------
        xs
            Its input, whole numbers in float32, and the residual in reals where it adds one.
        w
            Whole numbers in float32, shaped as ``group.weight.values``.
        s
            (channels,) float32: the scale of the sums.
        b
            (channels,) in reals, or None.
        largest
            What no sum of magnitudes of products exceeds.
        """
        x = rows(xs[0], dataflow.shape(group.inputs[0]))
        y = self.integer_products(group, x, w, largest)
        y *= self.addend(s)
        return self._finished(group, xs, y, b)

    def _finished(self, group: Group, xs: Sequence[Array], y: Array, b: Array | None) -> Array:
        """Return products ``y`` with bias, residual and activation, images along the first axis."""
        if b is not None:
            y += self.addend(b)
        if group.residual and not group.ends_in_sum:
            y += xs[1].reshape(y.shape)
        y = activate(group.activation, y)
        if group.ends_in_sum:
            y += xs[1].reshape(y.shape)
        return y.reshape(len(xs[0]), *tail(dataflow.shape(group.output)))

    def is_batched(self, group: Group) -> bool:
        """Say yes: rows of images are rows of products."""
        return True

    def _weight_and_bias(self, group: Group, x: QParams) -> tuple[np.ndarray, np.ndarray]:
        assert group.weight is not None and group.weight.scale is not None
        s_w = group.weight.scale
        bias = np.zeros(len(s_w), np.float32) if group.bias is None else group.bias
        weight = np.ascontiguousarray(
            qparams.quantize_weight(group.weight_rows, s_w, group.weight.dtype)
        )
        return weight, qparams.quantize_bias(bias, x.scale, s_w)
