"""Samples between pixels, which a deformable convolution multiplies."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from tvm import relax

from relay_int8.graph.group import SAMPLE, Group
from relay_int8.graph.spec_calls import spec_of
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Kernel, zero_points
from relay_int8.operators.operator import Array, Holds, Operator
from schedules.reference.kernels import reference
from schedules.spec import Sample2d


class Sample(Operator):
    """An image read at float32 offsets, times a float32 mask where there is one."""

    kind = SAMPLE
    in_numpy = True

    def refusal(self, group: Group) -> str | None:
        """Say where image, offsets or mask are constants."""
        spec = spec_of(group.root)
        whole = spec is not None and len(group.inputs) + len(group.floats) == len(spec.tensors)
        return None if whole else "its image, offsets or mask are a constant"

    def keeps_range(self, group: Group) -> bool:
        """Say yes without a mask: what lies between pixels is within their range."""
        return len(group.floats) == 1

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Look at image and mask; the offsets do not count."""
        if not group.inputs or self.refusal(group) is not None:
            return False
        return all(var in known for var in (*group.inputs, *group.floats[1:]))

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return the spec of the frontend, with types."""
        spec, x = spec_of(group.root), xs[0]
        assert isinstance(spec, Sample2d) and y is not None
        constants = {"m": qparams.rescale_multiplier(x.scale, y.scale), "z": zero_points(x, y)}
        return replace(spec, x=x.dtype, y=y.dtype), constants | {"clamp": y.clamp}

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it by the reference of its kernel."""
        spec = spec_of(group.root)
        assert spec is not None
        return reference(spec, dict(zip(spec.tensors, xs, strict=True)), {})
