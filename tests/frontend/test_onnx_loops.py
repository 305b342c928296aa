"""Loops that run a known number of times, and lists of tensors."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from relay_int8.errors import Int8Error, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator
from tests.mxnet_models import run_fast
from tests.onnx_models import assert_close, run_onnx

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
info, node = helper.make_tensor_value_info, helper.make_node
X = np.random.default_rng(4).normal(size=(6, 4)).astype("float32")


def graph_of(nodes, outputs, constants=(), inputs=(("x", FLOAT, (6, 4)),)):
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [info(*each) for each in inputs],
        [info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def body(nodes, inputs, outputs):
    return helper.make_graph(list(nodes), "body", inputs, [info(*each, None) for each in outputs])


RUN = [info("i", INT, []), info("going", BOOL, [])]
ONCE_MORE = node("Identity", ["going"], ["goes"])


def bags(count="count"):
    """Add up rows between bounds, a bag a run, in a list: as an EmbeddingBag is exported."""
    inner = body(
        [
            ONCE_MORE,
            node("Unsqueeze", ["i", "zero"], ["at"]),
            node("Gather", ["begins", "at"], ["begin"]),
            node("Gather", ["ends", "at"], ["end"]),
            node("Slice", ["x", "begin", "end", "zero"], ["rows"]),
            node("ReduceMean", ["rows"], ["bag"], axes=[0], keepdims=0),
            node("SequenceInsert", ["before", "bag"], ["after"]),
        ],
        [*RUN, helper.make_tensor_sequence_value_info("before", FLOAT, None)],
        [("goes", BOOL)],
    )
    inner.output.append(helper.make_tensor_sequence_value_info("after", FLOAT, None))
    return graph_of(
        [
            node("SequenceEmpty", [], ["none"]),
            node("Loop", [count, "true", "none"], ["list"], body=inner, name="loop"),
            node("ConcatFromSequence", ["list"], ["y"], axis=0, new_axis=1),
        ],
        [("y", FLOAT)],
        [
            ("count", np.array(3)),
            ("true", np.array(True)),
            ("zero", np.array([0])),
            ("begins", np.array([0, 1, 4])),
            ("ends", np.array([1, 4, 6])),
        ],
    )


def test_a_list_that_a_loop_fills():
    proto = bags()
    mod = import_onnx(proto)
    assert_close(run_fast(mod, X), run_onnx(proto, X))
    assert [operator(value) for _, value in calls(mod["main"])].count("mean") == 3


def test_values_that_go_from_run_to_run_and_rows_of_each():
    inner = body(
        [
            ONCE_MORE,
            node("Mul", ["state", "factor"], ["next"]),
            node("ReduceSum", ["next"], ["row"], keepdims=0),
        ],
        [*RUN, info("state", FLOAT, None)],
        [("goes", BOOL), ("next", FLOAT), ("row", FLOAT)],
    )
    proto = graph_of(
        [node("Loop", ["count", "", "x"], ["last", "rows"], body=inner)],
        [("last", FLOAT), ("rows", FLOAT)],
        [("count", np.array(4)), ("factor", np.array(0.5, "float32"))],
    )
    assert_close(run_fast(import_onnx(proto), X), run_onnx(proto, X))


@pytest.mark.parametrize("count", ["", "largest"])
def test_a_condition_of_numbers_ends_a_loop(count: str):
    """PyTorch writes a loop of an unknown number of runs with the largest number."""
    inner = body(
        [
            node("Less", ["i", "last"], ["goes"]),
            node("Add", ["state", "x"], ["next"]),
        ],
        [*RUN, info("state", FLOAT, None)],
        [("goes", BOOL), ("next", FLOAT)],
    )
    proto = graph_of(
        [node("Loop", [count, "true", "x"], ["y"], body=inner)],
        [("y", FLOAT)],
        [("true", np.array(True)), ("last", np.array(2)), ("largest", np.array(2**63 - 1))],
    )
    assert_close(run_fast(import_onnx(proto), X), run_onnx(proto, X))


@pytest.mark.parametrize("split", [None, 4, [1, 2, 3]])
def test_parts_of_a_tensor(split):
    given = [] if split is None else ["split"]
    constants = [] if split is None else [("split", np.array(split))]
    proto = graph_of(
        [
            node("SplitToSequence", ["x", *given], ["parts"], axis=0),
            node("SequenceErase", ["parts", "first"], ["rest"]),
            node("SequenceInsert", ["rest", "x", "first"], ["more"]),
            node("SequenceAt", ["more", "end"], ["last"]),
            node("SequenceLength", ["more"], ["count"]),
            node("Cast", ["count"], ["times"], to=FLOAT),
            node("Mul", ["last", "times"], ["y"]),
            node("SequenceConstruct", ["last", "y"], ["both"]),
            node("ConcatFromSequence", ["both"], ["z"], axis=1),
        ],
        [("y", FLOAT), ("z", FLOAT)],
        [*constants, ("first", np.array(0)), ("end", np.array(-1))],
    )
    assert_close(run_fast(import_onnx(proto), X), run_onnx(proto, X))


@pytest.mark.parametrize("place", [-2, -1, 0, 2])
def test_a_tensor_inserted_at_a_position_from_the_end(place: int):
    proto = graph_of(
        [
            node("Neg", ["x"], ["n"]),
            node("SequenceConstruct", ["x", "x"], ["pair"]),
            node("SequenceInsert", ["pair", "n", "place"], ["three"]),
            node("ConcatFromSequence", ["three"], ["y"], axis=0),
        ],
        [("y", FLOAT)],
        [("place", np.array(place))],
    )
    assert_close(run_fast(import_onnx(proto), X), run_onnx(proto, X))


@pytest.mark.fast
def test_loops_and_lists_that_depend_on_values_are_refused():
    proto = bags("n")
    proto.graph.input.append(info("n", INT, []))
    with pytest.raises(UnsupportedOpError, match=r"node loop \(Loop\) runs as often as values"):
        import_onnx(proto)
    proto = bags()
    proto.graph.node[1].attribute[0].g.node[-2].op_type = "Unknown"
    with pytest.raises(UnsupportedOpError, match=r"1 kind of operator .* Unknown"):
        import_onnx(proto)
    proto = bags()
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(5000), "count"))
    with pytest.raises(UnsupportedOpError, match="5000 times"):
        import_onnx(proto)
    listed = graph_of([node("SequenceConstruct", ["x", "x"], ["y"])], [("y", FLOAT)])
    with pytest.raises(UnsupportedOpError, match="output y is a list of tensors"):
        import_onnx(listed)
    given = graph_of([node("SequenceAt", ["l", "x"], ["y"])], [("y", FLOAT)])
    given.graph.input.append(helper.make_tensor_sequence_value_info("l", FLOAT, None))
    with pytest.raises(UnsupportedOpError, match="input l is no tensor but sequence_type: make in"):
        import_onnx(given)
    read = graph_of(
        [node("SequenceConstruct", ["x", "x"], ["l"]), node("Relu", ["l"], ["y"], name="relu")],
        [("y", FLOAT)],
    )
    with pytest.raises(UnsupportedOpError, match=r"node relu .* it reads a list of tensors"):
        import_onnx(read)
    tensor = graph_of([node("ConcatFromSequence", ["x"], ["y"], axis=0)], [("y", FLOAT)])
    with pytest.raises(Int8Error, match="reads a list of tensors, and its first input is a tensor"):
        import_onnx(tensor)


@pytest.mark.fast
def test_a_branch_that_gives_a_list_is_refused():
    branch = helper.make_graph([node("SequenceConstruct", ["x", "x"], ["l"])], "branch", [], [])
    branch.output.append(helper.make_tensor_sequence_value_info("l", FLOAT, None))
    proto = graph_of(
        [
            node("If", ["chooses"], ["list"], then_branch=branch, else_branch=branch, name="if"),
            node("ConcatFromSequence", ["list"], ["y"], axis=0),
        ],
        [("y", FLOAT)],
        inputs=[("x", FLOAT, (6, 4)), ("chooses", BOOL, ())],
    )
    with pytest.raises(UnsupportedOpError, match=r"node if \(If\) .*a branch gives a list"):
        import_onnx(proto)


def test_what_a_run_knows_is_forgotten_in_the_next():
    """A number that only the first run knows is rounded to an integer in each run."""
    inner = body(
        [
            ONCE_MORE,
            node("Mul", ["before", "third"], ["share"]),
            node("Cast", ["share"], ["whole"], to=INT),
            node("Cast", ["whole"], ["rounded"], to=FLOAT),
            node("ReduceMax", ["x"], ["most"], keepdims=0),
            node("Add", ["rounded", "most"], ["after"]),
        ],
        [*RUN, info("before", FLOAT, [])],
        [("goes", BOOL), ("after", FLOAT)],
    )
    proto = graph_of(
        [node("Loop", ["count", "true", "nine"], ["y"], body=inner, name="loop")],
        [("y", FLOAT)],
        [
            ("count", np.int64(2)),
            ("true", True),
            ("nine", np.float32(9)),
            ("third", np.float32(1 / 3)),
        ],
    )
    x = X + 20
    assert_close(run_fast(import_onnx(proto), x), run_onnx(proto, x))


def scanned(**attributes):
    """Add up columns of x, from run to run, and return what each run has."""
    inner = helper.make_graph(
        [node("Add", ["sum", "column"], ["next"]), node("Mul", ["next", "factor"], ["row"])],
        "body",
        [info("sum", FLOAT, [6]), info("column", FLOAT, [6]), info("factor", FLOAT, [])],
        [info("next", FLOAT, [6]), info("row", FLOAT, [6])],
    )
    return graph_of(
        [node("Scan", ["zero", "x", "factors"], ["last", "rows"], body=inner, **attributes)],
        [("last", FLOAT), ("rows", FLOAT)],
        [
            ("zero", np.zeros(6, "float32")),
            ("factors", np.arange(4, dtype="float32")),
        ],
    )


BACKWARD = {"scan_input_directions": [1, 0], "scan_output_directions": [1]}


@pytest.mark.parametrize("more", [{}, {"scan_output_axes": [1]}, BACKWARD])
def test_a_scan_reads_slice_by_slice(more):
    proto = scanned(num_scan_inputs=2, scan_input_axes=[1, 0], **more)
    assert_close(run_fast(import_onnx(proto), X), run_onnx(proto, X))


def test_a_scan_of_slices_that_do_not_fit():
    with pytest.raises(Int8Error, match=r"\(Scan\) has no whole body: its operands have \[4, 6\]"):
        import_onnx(scanned(num_scan_inputs=2))


@pytest.mark.parametrize("dims", [(), (1,)])
def test_the_number_of_a_run_may_be_a_vector(dims):
    """A row of x by the number, of the rank that the body says."""
    rows = helper.make_graph(
        [node("Gather", ["x", "i"], ["row"]), ONCE_MORE],
        "body",
        [info("i", INT, dims), info("going", BOOL, dims)],
        [info("goes", BOOL, dims), info("row", FLOAT, None)],
    )
    nodes = [node("Loop", ["count", ""], ["y"], body=rows)]
    proto = graph_of(nodes, [("y", FLOAT)], [("count", np.full(dims, 3))])
    (found,) = run_fast(import_onnx(proto), X)
    np.testing.assert_array_equal(found, X[:3].reshape(3, *dims, 4))
