"""TFLite models of truth values, of indices, and of shapes that are computed of shapes."""

import numpy as np

from tests.tflite_models import TfliteModel

MEAN = {"options": "ReducerOptions"}


def chosen():
    """Comparisons, logic, and a choice by them; a condition of each row."""
    net = TfliteModel(4)
    x, y = net.input("x", (3, 4)), net.input("y", (3, 4))

    def truth(kind, *operands, **options):
        return net.op(kind, *operands, dtype="bool", **options)

    more = truth("GREATER", x, y, options="GreaterOptions")
    less = truth("LESS", x, net.constant(np.float32(-0.5), "float32"), options="LessOptions")
    least = truth("GREATER_EQUAL", y, net.constant(np.float32(0), "float32"),
                  options="GreaterEqualOptions")  # fmt: skip
    most = truth("LESS_EQUAL", x, y, options="LessEqualOptions")
    same = truth("EQUAL", more, truth("LOGICAL_NOT", less, options="LogicalNotOptions"),
                 options="EqualOptions")  # fmt: skip
    both = truth("LOGICAL_AND", truth("NOT_EQUAL", least, most, options="NotEqualOptions"), same,
                 options="LogicalAndOptions")  # fmt: skip
    some = truth("LOGICAL_OR", both, less, options="LogicalOrOptions")
    rows = truth("REDUCE_ANY", some, net.constant((1,)), **MEAN)
    whole = truth("REDUCE_ALL", more, net.constant((1,)), **MEAN, keepDims=True)
    z = net.op("SELECT_V2", some, x, y, options="SelectV2Options")
    z = net.op("SELECT", rows, z, x, options="SelectOptions")
    return net.finish(z, net.op("SELECT_V2", whole, x, z, options="SelectV2Options"))


def indexed():
    """Indices that the network computes."""
    net = TfliteModel(4)
    x = net.input("x", (3, 6))
    values, places = net.op("TOPK_V2", x, net.constant(2), results=2, options="TopKV2Options")
    net.graph.tensors[places].type = 2
    ends = [net.constant(np.float32(value), "float32") for value in (2, -1)]
    rows = net.op("ONE_HOT", places, net.constant(6), *ends, options="OneHotOptions", axis=-1)
    found = net.op("EMBEDDING_LOOKUP", net.op(
        "ARG_MAX", x, net.constant(1), options="ArgMaxOptions", dtype="int32", outputType=2
    ), net.weights(6, 4))  # fmt: skip
    buckets = net.op("BUCKETIZE", x, options="BucketizeOptions", boundaries=[-0.5, 0.0, 1.25],
                     dtype="int32")  # fmt: skip
    return net.finish(values, rows, found, buckets)


def shaped():
    """Shapes, sizes and counts that are computed of shapes."""
    net = TfliteModel(4)
    x = net.input("x", (2, 6, 4))

    def integers(kind, *operands, **options):
        return net.op(kind, *operands, dtype="int32", **options)

    sizes = integers("SHAPE", x, options="ShapeOptions", outType=2)
    bounds = [net.constant(bound) for bound in ((0,), (1,), (1,))]
    batch = integers("STRIDED_SLICE", sizes, *bounds, options="StridedSliceOptions",
                     shrinkAxisMask=1)  # fmt: skip
    windows = integers("MUL", batch, net.constant(3), options="MulOptions")
    wanted = integers("PACK", windows, net.constant(2), net.constant(4), options="PackOptions",
                      valuesCount=3)  # fmt: skip
    y = net.op("RESHAPE", x, wanted, options="ReshapeOptions")
    rank = integers("RANK", y, options="RankOptions")
    counts = integers("FILL", net.op("PACK", rank, dtype="int32", options="PackOptions",
                                     valuesCount=1), net.constant(2), options="FillOptions")  # fmt: skip
    y = net.op("TILE", y, counts, options="TileOptions")
    like = net.op("ZEROS_LIKE", y, options="ZerosLikeOptions")
    places = integers("RANGE", net.constant(0), windows, net.constant(2), options="RangeOptions")
    both = integers("BROADCAST_ARGS", net.constant((4, 1)), net.constant((1, 3)))
    column = net.op("RESHAPE", net.op("CAST", places, options="CastOptions"),
                    net.constant((3,)), options="ReshapeOptions")  # fmt: skip
    grown = net.op("BROADCAST_TO", column, both, options="BroadcastToOptions")
    return net.finish(net.op("ADD", y, like, options="AddOptions"),
                      net.op("MUL", grown, net.op("MEAN", x, net.constant((0, 1, 2)), **MEAN),
                             options="MulOptions"))  # fmt: skip
