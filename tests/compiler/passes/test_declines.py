"""A rewrite whose pattern was nearly there says why it left a tensor alone, in each pass."""

import json
import logging

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.build import compile_module
from relay_int8.compiler.passes.lower.halve_floats import HalveFloats
from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.compiler.passes.normalize.canonicalize_activation import CanonicalizeActivation
from relay_int8.compiler.passes.normalize.canonicalize_pool import CanonicalizePool
from relay_int8.compiler.passes.normalize.canonicalize_qdq import CanonicalizeQdq
from relay_int8.compiler.passes.normalize.canonicalize_sequence import CanonicalizeSequence
from relay_int8.compiler.passes.normalize.drop_expand import DropExpand
from relay_int8.compiler.passes.normalize.fold_affine import FoldAffine
from relay_int8.compiler.passes.normalize.fold_constants import FoldConstants
from relay_int8.compiler.passes.normalize.fold_pad import FoldPad
from relay_int8.compiler.passes.normalize.fold_samples import FoldSamples
from relay_int8.compiler.passes.normalize.lower_batch_norm import LowerBatchNorm
from relay_int8.compiler.passes.normalize.lower_transposed_conv import LowerTransposedConv
from relay_int8.compiler.passes.normalize.merge_branches import MergeBranches
from relay_int8.compiler.passes.normalize.remove_identity import RemoveIdentity
from relay_int8.compiler.passes.normalize.unfold_computed_kernels import UnfoldComputedKernels
from relay_int8.compiler.passes.qdq.remove_qdq import RemoveQdq
from relay_int8.compiler.pipeline import normalized
from relay_int8.graph.dataflow import FunctionWriter, calls, operator
from relay_int8.graph.declined import Declined, collecting_declined
from relay_int8.graph.rewriting import rewrite_main
from relay_int8.graph.spec_calls import kernel_call
from relay_int8.report.contents import Report
from schedules.spec import Sample2d
from schedules.targets import TARGETS
from tests.onnx_models import model

pytestmark = pytest.mark.fast

op, nn = relax.op, relax.op.nn
SIZE = (1, 4, 7, 7)


def constant(*dims: int, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.ones(dims, dtype))


class Net:
    """A network that is written operator by operator."""

    def __init__(self, **inputs: tuple[int, ...]) -> None:
        self.writer = FunctionWriter()
        self.inputs = {
            name: relax.Var(name, relax.TensorType(dims, "float32"))
            for name, dims in (inputs or {"x": SIZE}).items()
        }

    def __getitem__(self, name: str) -> relax.Var:
        return self.inputs[name]

    def __call__(self, name: str, value: relax.Expr) -> relax.Var:
        return self.writer.emit(name, value)

    def quantized(self, name: str, x: relax.Expr, scales: int = 1) -> relax.Var:
        shape = () if scales == 1 else (scales,)
        pair = constant(*shape), constant(*shape, dtype="int8")
        q = self(f"{name}/q", op.quantize(x, *pair, 1, "int8"))
        return self(name, op.dequantize(q, *pair, 1))

    def module(self, *outputs: relax.Var) -> tvm.IRModule:
        return self.writer.finish(list(self.inputs.values()), outputs)


def expanded_both():
    net = Net(x=(1, 4, 1, 7), g=(1, 4, 7, 1))
    e = net("e", op.broadcast_to(net["g"], SIZE))
    return net.module(net("y", op.multiply(e, net["x"])))


def identity_that_broadcasts():
    net = Net(x=(1, 4, 1, 7))
    return net.module(net("y", op.multiply(net["x"], constant(1, 4, 7, 1))))


def pad_by_a_value():
    net = Net()
    p = net("p", nn.pad(net["x"], [0, 0, 0, 0, 1, 1, 1, 1], pad_value=2.0))
    return net.module(net("y", nn.conv2d(p, constant(8, 4, 3, 3))))


def mean_of_channels():
    net = Net()
    return net.module(net("y", op.mean(net["x"], [1, 2])))


def read_twice():
    net = Net()
    c = net("c", nn.conv2d(net["x"], constant(4, 4, 1, 1)))
    y = net("y", op.multiply(c, constant(1, 4, 1, 1)))
    return net.module(net("z", op.add(c, y)))


def mask():
    net = Net()
    c = net("c", nn.conv2d(net["x"], constant(4, 4, 1, 1)))
    infinite = relax.const(np.full((1, 4, 1, 1), -np.inf, "float32"))
    return net.module(net("y", op.add(c, infinite)))


def batch_norm_of_inputs():
    net = Net(x=SIZE, gain=(4,))
    rest = [constant(4) for _ in range(3)]
    c = net("c", nn.conv2d(net["x"], constant(4, 4, 1, 1)))
    n = net("n", nn.batch_norm(c, net["gain"], *rest, axis=1, training=False))
    return net.module(net("y", relax.TupleGetItem(n, 0)))


def samples_turned_otherwise():
    net = Net(x=SIZE, places=(1, 18, 7, 7))
    spec = Sample2d(
        batch=1,
        channels=4,
        height=7,
        width=7,
        kernel=(3, 3),
        padding=(1, 1, 1, 1),
        groups=4,
        x="float32",
        y="float32",
    )
    s = net("s", kernel_call(spec, [net["x"], net["places"]], {}))
    split = net("split", op.reshape(s, (1, 1, 4, 9, 7, 7)))
    turned = net("turned", op.permute_dims(split, [0, 1, 3, 2, 5, 4]))
    return net.module(net("y", op.reshape(turned, (1, 36, 7, 7))))


def residual():
    net = Net()
    c = net("c", nn.conv2d(net["x"], constant(4, 4, 3, 3), padding=(1, 1)))
    return net.module(net("y", op.add(net["x"], c)))


def many_bounds():
    net = Net()
    return net.module(net("y", op.maximum(net["x"], constant(1, 4, 1, 1))))


def shared_bound():
    net = Net()
    r = net("r", op.clip(net["x"], relax.prim_value(0.0), relax.prim_value(6.0)))
    return net.module(r, net("y", nn.relu(r)))


def move_by_channel():
    net = Net()
    x = net.quantized("d", net["x"], scales=4)
    return net.module(net("y", op.reshape(x, (1, 4, 49))))


def transposed_conv_of_two_inputs():
    net = Net(x=SIZE, w=(4, 8, 3, 3))
    return net.module(net("y", nn.conv2d_transpose(net["x"], net["w"], strides=(2, 2))))


def dilated_transposed_conv_of_two_inputs():
    net = Net(x=SIZE, w=(4, 8, 3, 3))
    return net.module(net("y", nn.conv2d_transpose(net["x"], net["w"], dilation=(2, 2))))


def conv_of_two_inputs_of_other_layout():
    net = Net(x=(1, 7, 7, 4), w=(3, 3, 4, 8))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    return net.module(net("y", nn.conv2d(net["x"], net["w"], **layouts)))


def sum_of_positions():
    net = Net()
    t = net("t", nn.conv2d_transpose(net["x"], constant(4, 8, 2, 2), strides=(2, 2)))
    return net.module(net("y", op.add(t, constant(1, 1, 14, 14))))


def sequence_of_other_layout():
    net = Net(x=(2, 7, 5))
    conv = nn.conv1d(net["x"], constant(3, 5, 4), data_layout="NWC", kernel_layout="WIO")
    return net.module(net("y", conv))


def unknown_operator_of_constants():
    net = Net()
    k = net("k", op.cumprod(constant(7), 0))
    return net.module(net("y", op.add(net["x"], k)))


def index_outside():
    net = Net()
    k = net("k", op.take(constant(7), relax.const(np.array([9], "int64")), 0))
    return net.module(net("y", op.add(net["x"], k)))


def integers_of_a_move():
    net = Net()
    pair = constant(), constant(dtype="int8")
    q = net("q", op.quantize(net["x"], *pair, -1, "int8"))
    moved = net("moved", op.reshape(q, (4, 49)))
    return net.module(net("y", op.dequantize(moved, *pair, -1)))


CASES = [
    (DropExpand, expanded_both, "y", "not e alone is expanded"),
    (RemoveIdentity, identity_that_broadcasts, "y", "its constant changes no number, but makes"),
    (FoldPad, pad_by_a_value, "y", "the pad p is not folded into it: it pads with 2.0, not zero"),
    (CanonicalizePool, mean_of_channels, "y", "axes [1, 2], not height and width alone"),
    (FoldAffine, read_twice, "y", "not folded into c, which something else reads too"),
    (FoldAffine, mask, "y", "not folded into c: its constant is not finite"),
    (FoldAffine, batch_norm_of_inputs, "y", "the batch norm has statistics or weights that are no"),
    (MergeBranches, residual, "y", "a sum that reads x once rounds more"),
    (LowerBatchNorm, batch_norm_of_inputs, "y", "statistics or weights that are no constants"),
    (FoldSamples, samples_turned_otherwise, "y", "the samples s are turned by [0, 1, 3, 2, 5, 4]"),
    (CanonicalizeActivation, many_bounds, "y", "its bound is 4 numbers, not one"),
    (CanonicalizeActivation, shared_bound, "y", "r bounds too, but has other readers"),
    (CanonicalizeQdq, move_by_channel, "y", "d is quantized by 4 scales, not one"),
    (LowerTransposedConv, transposed_conv_of_two_inputs, "y", "its weights w are no constant"),
    (LowerTransposedConv, sum_of_positions, "y", "behind t: its constant (1, 1, 14, 14) is not"),
    (UnfoldComputedKernels, dilated_transposed_conv_of_two_inputs, "y", "only dilation 1 is known"),
    (UnfoldComputedKernels, conv_of_two_inputs_of_other_layout, "y", "layouts are NHWC and HWIO"),
    (CanonicalizeSequence, sequence_of_other_layout, "y", "its layouts are NWC and WIO"),
    (FoldConstants, unknown_operator_of_constants, "k", "constants alone, and cumprod is not"),
    (FoldConstants, index_outside, "k", "an index is not below 7"),
    (RemoveQdq, integers_of_a_move, "y", "no quantize gives its integers"),
]


@pytest.mark.parametrize(("rewrite", "build", "name", "reason"), CASES)
def test_each_pass_says_why(rewrite, build, name: str, reason: str):
    mod = build()
    before = [operator(value) for _, value in calls(mod["main"])]
    with collecting_declined() as declined:
        after = rewrite()(mod)
    assert [one.name for one in declined] == [name]
    assert reason in declined[0].reason
    kept = {str(var.name): operator(value) for var, value in calls(after["main"])}
    wanted = {str(var.name): operator(value) for var, value in calls(mod["main"])}
    assert kept[name] == wanted[name]
    assert before == list(wanted.values())  # the module itself is left alone


def test_a_build_says_what_stays_float32():
    net = Net()
    depthwise = nn.conv2d(net["x"], constant(4, 1, 3, 3), groups=4)
    large = relax.const(np.full((4, 4, 1, 1), 7e4, "float32"))
    mod = net.module(net("y", nn.conv2d(net("d", depthwise), large)))
    with collecting_declined() as declined:
        HalveFloats(Target({"kind": "cuda", "arch": "sm_80"}, host="llvm"))(LowerFloat()(mod))
    assert [(one.name, one.reason) for one in declined] == [
        ("d", "no conv2d of cuda multiplies float16 in its shape"),
        ("y", "its weights are no constants that float16 can hold"),
    ]


def test_what_is_another_operator_is_not_declined():
    net = Net()
    mod = net.module(net("y", nn.relu(net("c", nn.conv2d(net["x"], constant(4, 4, 1, 1))))))
    assert normalized(mod)[1] == ()


def test_reasons_are_collected_once_and_only_inside(caplog: pytest.LogCaptureFixture):
    mod = many_bounds()

    def _decline(scope, value):
        return Declined(f"{operator(value)} is not liked")

    with collecting_declined() as outer:
        rewrite_main(mod, _decline)
        rewrite_main(mod, _decline)
        with collecting_declined() as inner:
            rewrite_main(mod, _decline)
    assert outer == inner == [Declined("maximum is not liked", "y")]
    with caplog.at_level(logging.DEBUG, "relay_int8.graph.declined"):
        assert rewrite_main(mod, _decline).same_as(mod)
    assert caplog.messages == ["y is kept: maximum is not liked"]
    assert len(outer) == 1


def test_a_report_holds_them():
    (one,) = declined = normalized(mean_of_channels())[1]
    report = Report(model="m", digest="", declined=declined)
    text = report.to_json()
    assert json.loads(text)["declined"] == [{"reason": one.reason, "name": "y"}]
    assert Report.from_json(text).declined == declined
    built = compile_module(mean_of_channels(), Target(TARGETS["x86"]))
    assert built.declined == ()


def test_inspect_shows_them(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    from typer.testing import CliRunner

    from relay_int8.cli import app

    nodes = [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1])]
    file = tmp_path / "mean.onnx"
    file.write_bytes(model(nodes, {"x": SIZE}, {"y": None}, {}, 13).SerializeToString())
    runner = CliRunner()
    short, long, as_json = (
        runner.invoke(app, ["inspect", str(file), *options])
        for options in ([], ["--verbose"], ["--json"])
    )
    reason = "it reduces axes [1], not height and width alone"
    assert reason not in short.output
    assert reason in long.output
    assert [item["reason"] for item in json.loads(as_json.output)["declined"]] == [reason]
