"""Split a grouped convolution where its first groups fill blocks of channels and the last do not.

    Before:  y = call_dps_packed('{"kind": "conv2d", "groups": 17, ...}', (x, w, bias, ...))
    After:   a = call_dps_packed('{"kind": "conv2d", "groups": 16, ...}', (x[:, :384], ...))
             b = call_dps_packed('{"kind": "conv2d", "groups": 1, ...}', (x[:, 384:], ...))
             y = call_dps_packed('{"kind": "concat", ...}', (a, b))

RegNetX-1.6GF has 7 and 17 groups of 24 channels: 16 of them are 8 pairs, which fill three blocks
each, and are computed as groups of 48. All 17 as one group would be 17 times the products.

Place:  ahead of AlterLayout, on CPUs.
Exact:  bit-identical; each channel has the same sums and the same epilogue.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import cast

import numpy as np
import tvm
from tvm import IRModule, relax
from tvm.target import Target

from relay_int8.graph import dataflow
from relay_int8.graph.origins import Origins
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from schedules.cpu.contractions.conv2d_any_group import ANY_GROUP
from schedules.cpu.contractions.merged_groups import MERGED, even_groups
from schedules.selection import select
from schedules.spec import PER_CHANNEL, Concat, Conv2d, DType, Move


@tvm.transform.module_pass(opt_level=0, name="SplitGroups")
class SplitGroups:
    """Split grouped convolutions of integers where the first groups alone fill blocks of channels.

    Those for which ``target`` has a kernel of groups that fill no blocks stay whole.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with more kernels, of fewer products; ``mod`` itself is left alone."""
        uneven = {
            var: spec
            for var, value in dataflow.calls(mod["main"])
            if (spec := _uneven(value, self._target)) is not None
        }
        return _Splitter(mod, uneven).run() if uneven else mod


def _uneven(value: relax.Expr, target: Target) -> Conv2d | None:
    """Return the spec of a convolution that is to be split."""
    spec = spec_of(value)
    if not isinstance(spec, Conv2d) or spec.x == "float32" or not even_groups(spec):
        return None
    _, params = operands(value, spec)
    if not all(isinstance(param, np.ndarray) for param in params.values()):
        return None
    return spec if select(spec, target).name.startswith((MERGED, ANY_GROUP)) else None


class _Splitter:
    """Rewrites one function."""

    def __init__(self, mod: IRModule, uneven: Mapping[relax.Var, Conv2d]) -> None:
        self._uneven = uneven
        self._func = mod["main"]
        self._writer = dataflow.FunctionWriter(mod, func=self._func)
        self._origins = Origins(self._func)

    def run(self) -> IRModule:
        """Write the function anew."""
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(self._func):
            value = dataflow.substitute(value, done)
            if var in self._uneven:
                value = self._split(str(var.name), value, self._uneven[var])
            done[var] = self._writer.emit(var.name, value)
        outputs = [done.get(var, var) for var in dataflow.results(self._func)]
        attributes = self._origins.added_to(dataflow.attributes(self._func))
        return self._writer.finish(self._func.params, outputs, attributes)

    def _split(self, name: str, value: relax.Call, spec: Conv2d) -> relax.Call:
        """Return the concatenation of both convolutions."""
        tensors, params = operands(value, spec)
        even = even_groups(spec)
        parts = []
        for ending, groups in (("even", range(even)), ("rest", range(even, spec.groups))):
            part = dataclasses.replace(
                spec,
                batch=dataflow.shape(tensors[0])[0],
                in_channels=len(groups) * spec.in_channels // spec.groups,
                out_channels=len(groups) * spec.out_channels // spec.groups,
                groups=len(groups),
            )
            read = []
            for key, tensor in zip(spec.tensors, tensors, strict=True):
                channels = _channels(tensor, part.shape(key)[1], last=groups.start > 0)
                read.append(self._part(name, f"{ending}/{key}", channels))
            call = kernel_call(part, read, _constants(params, spec, groups))
            parts.append(self._part(name, ending, call))
        joined = Concat(shapes=tuple(map(dataflow.shape, parts)), axis=1, x=spec.y)
        return kernel_call(joined, parts, {})

    def _part(self, name: str, ending: str, value: relax.Call) -> relax.Var:
        var = self._writer.derive(f"{name}/{ending}", value)
        self._origins.note(var, name, "part")
        return var


def _constants(
    params: Mapping[str, np.ndarray], spec: Conv2d, groups: range
) -> dict[str, np.ndarray]:
    """Return the constants of some groups."""
    begin, end = (group * spec.out_channels // spec.groups for group in (groups.start, groups.stop))
    return {
        name: value[begin:end] if name == "w" or name in PER_CHANNEL else value
        for name, value in params.items()
    }


def _channels(tensor: relax.Expr, count: int, *, last: bool) -> relax.Call:
    """Return the first channels of an image, or the last."""
    dims = dataflow.shape(tensor)
    spec = Move(
        move="slice",
        x_shape=dims,
        y_shape=(dims[0], count, *dims[2:]),
        arguments=(0, dims[1] - count if last else 0, 0, 0, 1, 1, 1, 1),
        x=cast(DType, dataflow.dtype(tensor)),
    )
    return kernel_call(spec, [tensor], {})
