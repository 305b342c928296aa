"""A network in NumPy: float, quantized by any plan and parameters, or anything in between.

What a QDQ module computes, without building it: each integer layer reads dequantized integers and
multiplies dequantized weights, everything else reads floats. One image or many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.pipeline import finalize, lower
from relay_int8.graph import dataflow
from relay_int8.graph.batch import stacked
from relay_int8.graph.capability import refusal
from relay_int8.graph.groups import Group, find_groups
from relay_int8.graph.plan import Plan
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.quantization.refine.operators import evaluator, linear
from schedules.targets import native_target

Array = npt.NDArray[Any]
Arrays = dict[str, Array]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """How a network is quantized.

    Parameters
    ----------
    plan
        Which layers are integers, and which tensors.
    params
        Of the calibrated tensors; one that is missing stays in float.
    weights
        Layer -> dequantized weights, shaped as the float ones; made by :func:`rounded` if missing.
    biases
        Layer -> (channels,) bias, in place of the float one.
    """

    plan: Plan
    params: Mapping[str, QParams]
    weights: Mapping[str, Array] = field(default_factory=dict)
    biases: Mapping[str, Array] = field(default_factory=dict)


class NumpyNetwork:
    """The normalized float network ``mod``, of batch 1, as NumPy computes it.

    Parameters
    ----------
    mod
        Normalized float module of batch 1.
    alone
        Additions that are layers of their own (``find_groups``).
    """

    def __init__(self, mod: IRModule, alone: Iterable[str] = ()) -> None:
        func = mod["main"]
        self.mod = mod
        self.groups = find_groups(func, alone=set(alone))
        self.layers = {group.name: group for group in self.groups}
        self.inputs = [str(param.name) for param in func.params]
        self.outputs = [str(var.name) for var in dataflow.results(func)]
        self._values = dict(dataflow.calls(func))
        self._compiled: dict[str, Callable[[Sequence[Array]], Array]] = {}
        self._read_last = read_last(self.groups)
        shapes = [dataflow.shape(var) for var in (*func.params, *self._values)]
        self.stackable = all(shape[:1] == (1,) for shape in shapes)

    def run(
        self,
        inputs: Mapping[str, Array],
        simulation: Simulation | None = None,
        *,
        keep: Callable[[str], bool] | None = None,
        known: Mapping[str, Array] | None = None,
    ) -> Arrays:
        """Return the outputs, and the tensors that ``keep`` wants, as their producers give them.

        Parameters
        ----------
        inputs
            Input name -> images along the first axis.
        simulation
            None: everything in float.
        keep
            Says of a tensor's name whether to return it too.
        known
            Tensors of a float run on the same inputs: what precedes all integers is taken from it.
        """
        state = _State(self, inputs, simulation, known or {})
        kept: Arrays = {}
        for group in self.groups:
            kept_here = state.compute(group)
            if group.name in self.outputs or (keep is not None and keep(group.name)):
                kept[group.name] = kept_here
            for name in self._read_last.get(group.name, ()):
                if name not in self.outputs:
                    state.forget(name)
        for name in self.outputs:
            kept[name] = state.seen(name, integer=False)
        return kept

    def images(self, data: Iterable[Mapping[str, Array]], size: int = 8) -> Iterator[Arrays]:
        """Yield the images stacked, ``size`` of them where the network allows it."""
        stack: list[Mapping[str, Array]] = []
        for image in data:
            stack.append(image)
            if len(stack) == (size if self.stackable else 1):
                yield stacked(stack)
                stack = []
        if stack:
            yield stacked(stack)

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the float result of a group that is no layer with weights."""
        if group.weight is not None:
            return linear(group, xs, group.weight.values, group.bias)
        operator = evaluator(group)
        if operator is not None and refusal(group) is None:
            return operator(group, xs)
        if operator is not None and group.kind in ("add", "mul"):
            return operator(group, xs)
        if group.name not in self._compiled:
            self._compiled[group.name] = _compiled(group, self._values)
        run = self._compiled[group.name]
        images = [[x[i : i + 1] for x in xs] for i in range(len(xs[0]))]
        return np.concatenate([run(image) for image in images])


class _State:
    """One run: values of tensors as produced, and as integer layers see them."""

    def __init__(
        self,
        network: NumpyNetwork,
        inputs: Mapping[str, Array],
        simulation: Simulation | None,
        known: Mapping[str, Array],
    ) -> None:
        self._network = network
        self._values: Arrays = {name: inputs[name] for name in network.inputs}
        self._quantized: Arrays = {}
        self._known = known
        self._clean = set(network.inputs) if known else set()
        plan = simulation.plan if simulation else None
        self._simulation = simulation
        self._integer = {layer.name for layer in plan.layers if layer.integer} if plan else set()
        self._params: dict[str, QParams] = {}
        if simulation:
            self._params = {
                name: simulation.params[tensor.like]
                for name, tensor in simulation.plan.tensors.items()
                if tensor.like in simulation.params
            }

    def compute(self, group: Group) -> Array:
        """Return a group's tensor, and keep it; the known one where only floats precede."""
        integer = group.name in self._integer
        names = [str(var.name) for var in group.inputs]
        floats = [str(var.name) for var in group.floats]
        clean = not integer and all(name in self._clean for name in (*names, *floats))
        if clean and group.name in self._known:
            y = self._known[group.name]
        else:
            xs = [self.seen(name, integer=integer) for name in names]
            xs += [self.seen(name, integer=False) for name in floats]
            y = self._result(group, xs, integer)
        if clean:
            self._clean.add(group.name)
        self._values[group.name] = y
        return y

    def seen(self, name: str, *, integer: bool) -> Array:
        """Return what an integer or a float reader sees of a tensor."""
        if name not in self._params or not (integer or name in self._integer):
            return self._values[name]
        if name not in self._quantized:
            self._quantized[name] = fake_quantize(self._values[name], self._params[name])
        return self._quantized[name]

    def forget(self, name: str) -> None:
        """Drop a tensor that nothing reads any more."""
        self._values.pop(name, None)
        self._quantized.pop(name, None)

    def _result(self, group: Group, xs: Sequence[Array], integer: bool) -> Array:
        if group.weight is None or not integer:
            return self._network.evaluate(group, xs)
        assert self._simulation is not None
        b = self._simulation.biases.get(group.name, group.bias)
        w = self._simulation.weights.get(group.name)
        if w is None:
            x = self._params.get(str(group.inputs[0].name))
            w = rounded(group, np.float32(1) if x is None else x.scale)
        return linear(group, xs, w, b)


def fake_quantize(x: Array, params: QParams) -> Array:
    """Return the reals that the integers of ``x`` stand for, float32."""
    low, high = params.clamp
    q = np.divide(x, params.scale)
    np.rint(q, out=q)
    np.clip(q, low, high, out=q)
    q *= params.scale
    return q


def weight_rows(group: Group) -> Array:
    """Return the weights with output channels first: (oc, ic, kh, kw) or (oc, k)."""
    assert group.weight is not None
    values = group.weight.values
    return values if group.kind == "conv2d" else values.T


def from_rows(group: Group, rows: Array) -> Array:
    """Return weights shaped as the layer has them; the inverse of :func:`weight_rows`."""
    return rows if group.kind == "conv2d" else np.ascontiguousarray(rows.T)


def rounded(group: Group, s_x: np.float32) -> Array:
    """Return the layer's weights as its integers stand for them, float32, nearest rounding."""
    rows = weight_rows(group)
    bias = np.zeros(len(rows), np.float32) if group.bias is None else group.bias
    scales = qparams.weight_scales(rows, bias, s_x)
    steps = qparams.quantize_weight(rows, scales).astype(np.float32)
    return from_rows(group, steps * scales.reshape(-1, *(1,) * (rows.ndim - 1)))


def read_last(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Return, by the name of a group, the tensors that nothing reads after it."""
    last: dict[str, str] = {}
    for group in groups:
        names = (str(var.name) for var in (*group.inputs, *group.floats))
        last |= dict.fromkeys((group.name, *names), group.name)
    found: dict[str, list[str]] = {}
    for name, reader in last.items():
        found.setdefault(reader, []).append(name)
    return found


def _compiled(
    group: Group, values: Mapping[relax.Var, relax.Expr]
) -> Callable[[Sequence[Array]], Array]:
    """Return TVM's own kernel of one group, for one image."""
    writer = dataflow.FunctionWriter()
    params = [relax.Var(f"x{i}", var.ty) for i, var in enumerate(group.inputs)]
    done: dict[relax.Var, relax.Expr] = dict(zip(group.inputs, params, strict=True))
    for member in group.members:
        done[member] = writer.emit(str(member.name), dataflow.substitute(values[member], done))
    mod, target = writer.finish(params, [done[group.output]]), native_target()
    with target:
        executable = tvm.compile(lower(target)(mod), target=target, relax_pipeline=finalize())
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]

    def _run(xs: Sequence[Array]) -> Array:
        result: Array = main(*(tvm.runtime.tensor(np.ascontiguousarray(x)) for x in xs)).numpy()
        return result

    return _run
