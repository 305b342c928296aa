"""CheckKernels: accumulators do not leave their kernels."""

import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.check_kernels import CheckKernels
from relay_int8.errors import UnsupportedOpError
from relay_int8.graph.attributes import SPEC, TEMPLATE
from relay_int8.graph.dataflow import FunctionWriter
from schedules.spec import Spec, Suppression, to_json

pytestmark = pytest.mark.fast


def two_kernels(
    between: str, *, is_read: bool = True, template: str = "dense_vnni", spec: Spec | None = None
) -> tvm.IRModule:
    """Return a kernel that writes ``between`` and, if it is read, one that reads it."""
    writer = FunctionWriter()
    x = relax.Var("x", relax.TensorType((4,), "int8"))

    def cast(name: str, source: relax.Var, types: tuple[str, str]) -> relax.Var:
        te = tvm.te
        a = te.placeholder((4,), types[0], name="a")
        kernel = te.create_prim_func([a, te.compute((4,), lambda i: a[i].astype(types[1]))])
        kernel = kernel.with_attr(TEMPLATE, template) if template else kernel
        kernel = kernel.with_attr(SPEC, to_json(spec)) if spec else kernel
        out = relax.TensorType((4,), types[1])
        call = relax.call_tir(writer.add_kernel(kernel, name), [source], out)
        return writer.emit(name, call)

    acc = cast("acc", x, ("int8", between))
    return writer.finish([x], [cast("y", acc, (between, "int8")) if is_read else acc])


def test_an_accumulator_between_kernels_is_refused():
    with pytest.raises(
        UnsupportedOpError, match="acc is an int32 tensor between two kernels, read by y; its requ"
    ):
        CheckKernels()(two_kernels("int32"))


@pytest.mark.parametrize(
    "mod",
    [
        two_kernels("float32"),
        two_kernels("int8"),
        two_kernels("int32", is_read=False),
        two_kernels("int32", template=""),
        two_kernels("int32", spec=Suppression(batch=1, boxes=4, max_output=4)),
    ],
    ids=[
        "reals",
        "steps",
        "counts that are a result",
        "indices of a float island",
        "numbers of boxes",
    ],
)
def test_others_pass_unchanged(expect_rewrite, mod):
    expect_rewrite(CheckKernels(), mod, mod)


def test_indices_that_a_kernel_reads_are_no_accumulators():
    x = relax.Var("x", relax.TensorType((4,), "int32"))
    te = tvm.te
    a = te.placeholder((4,), "int32", name="a")
    kernel = te.create_prim_func([a, te.compute((4,), lambda i: a[i].astype("int8"))])
    writer = FunctionWriter()
    call = relax.call_tir(writer.add_kernel(kernel, "k"), [x], relax.TensorType((4,), "int8"))
    mod = writer.finish([x], [writer.emit("y", call)])
    tvm.ir.assert_structural_equal(CheckKernels()(mod), mod)
