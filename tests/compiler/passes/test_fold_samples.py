"""FoldSamples: samples are written in the order of channels that they are turned to."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.normalize.fold_samples import FoldSamples
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.spec_calls import kernel_call, spec_of
from schedules.reference.kernels import reference
from schedules.spec import Sample2d

pytestmark = pytest.mark.fast
SPEC = Sample2d(
    batch=1, channels=6, height=5, width=4, kernel=(2, 2), groups=6, x="float32", y="float32"
)
OUT = SPEC.out_size
TURNED = [0, 1, 3, 2, 4, 5]


def network(
    spec: Sample2d = SPEC,
    split: tuple[int, ...] = (1, 2, 3, 4, *OUT),
    axes: list[int] | None = TURNED,
    last: tuple[int, ...] = (1, 24, *OUT),
) -> tvm.IRModule:
    """Return samples ordered channel, tap, that are turned to group, tap, channel."""
    writer = FunctionWriter()
    params = [
        relax.Var(name, relax.TensorType(spec.shape(name), "float32")) for name in spec.tensors
    ]
    s = writer.emit("s", kernel_call(spec, params, {}))
    s = writer.emit("split", relax.op.reshape(s, split))
    if axes:
        s = writer.emit("turned", relax.op.permute_dims(s, axes))
    return writer.finish(params, [writer.emit("y", relax.op.reshape(s, last))])


@pytest.mark.parametrize(("groups", "masked"), [(1, False), (2, False), (3, True)])
def test_the_turn_is_a_number_of_groups(expect_rewrite, groups, masked):
    spec = replace(SPEC, masked=masked)
    before = network(spec, (1, groups, 6 // groups, 4, *OUT))
    writer = FunctionWriter()
    params = list(before["main"].params)
    call = kernel_call(replace(spec, groups=groups), params, {})
    expect_rewrite(FoldSamples(), before, writer.finish(params, [writer.emit("y", call)]))

    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=spec.shape(name)).astype("float32") for name in spec.tensors}
    samples = reference(spec, arrays, {}).reshape(1, groups, 6 // groups, 4, *OUT)
    ((_, folded),) = dataflow.calls(FoldSamples()(before)["main"])
    np.testing.assert_array_equal(
        reference(spec_of(folded), arrays, {}), samples.transpose(TURNED).reshape(1, 24, *OUT)
    )


KEPT = {
    "another turn": network(axes=[0, 2, 1, 3, 4, 5], split=(1, 2, 3, 4, *OUT)),
    "no turn": network(axes=None),
    "taps cut elsewhere": network(split=(1, 2, 6, 2, *OUT)),
    "another result": network(last=(1, 6, 4, OUT[0] * OUT[1])),
    "samples in groups": network(replace(SPEC, groups=2)),
}


@pytest.mark.parametrize("case", KEPT)
def test_other_turns_stay(expect_rewrite, case):
    expect_rewrite(FoldSamples(), KEPT[case], KEPT[case])


def test_turns_of_other_tensors_stay(expect_rewrite):
    x = relax.Var("x", relax.TensorType((1, 24, *OUT), "float32"))
    writer = FunctionWriter()
    split = writer.emit("split", relax.op.reshape(x, (1, 2, 3, 4, *OUT)))
    turned = writer.emit("turned", relax.op.permute_dims(split, TURNED))
    mod = writer.finish([x], [writer.emit("y", relax.op.reshape(turned, (1, 24, *OUT)))])
    expect_rewrite(FoldSamples(), mod, mod)
