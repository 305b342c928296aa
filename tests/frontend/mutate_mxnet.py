"""Run alone: import damaged MXNet files (see ``mutations.survive``).

::

    python -m tests.frontend.mutate_mxnet FOLDER params|symbol COUNT
"""

import json
import random
import re
import sys
from pathlib import Path

from relay_int8.frontend.mxnet import import_mxnet
from relay_int8.frontend.mxnet.converters import CONVERTERS
from tests.frontend.mutations import (
    Mutation,
    absurd_at,
    flipped,
    repeated,
    survive,
    truncated,
)
from tests.mxnet_models import MxnetModel

NUMBERS = (
    "0",
    "-1",
    "2147483647",
    "4294967297",
    "9" * 30,
    "9" * 5000,
    "1e308",
    "NaN",
    "None",
    "0.5",
)


def network() -> tuple[MxnetModel, tuple[int, int]]:
    """A small network in which every kind of attribute occurs."""
    net = MxnetModel()
    x = net.variable("data", __shape__="(1, 3, 9, 9)")
    x = net.op("_mul_scalar", "scaled", x, scalar=0.0078125)
    y = net.conv(x, "conv0", (8, 3, 3, 3), stride=(2, 2), pad=(1, 1), bias=True)
    y = net.relu(net.batch_norm(y, "bn0", 8, eps=1e-5), "relu0")
    z = net.batch_norm(net.conv(y, "conv1", (8, 4, 3, 3), num_group=2, pad=(1, 1)), "bn1", 8)
    y = net.op("elemwise_add", "add", y, z)
    y = net.op("clip", "clip", y, a_min=0, a_max=6)
    pool = {"kernel": (3, 3), "stride": (2, 2), "pooling_convention": "full", "pool_type": "avg"}
    y = net.op("Concat", "concat", y, net.op("LeakyReLU", "leaky", y, slope=0.1), num_args=2)
    y = net.op("Pooling", "pool", y, **pool)
    offset = net.op("zeros_like", "zeros", net.conv(y, "offset", (2, 16, 1, 1)))
    w = net.variable("deformable_weight", net.rng.normal(size=(16, 16, 1, 1)).astype("float32"))
    y = net.op(
        "_contrib_DeformableConvolution", "deformable", y, offset, w, kernel=(1, 1), num_filter=16,
        no_bias=True,
    )  # fmt: skip
    y = net.op("Pad", "pad", y, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))
    y = net.op("transpose", "moved", y, axes=(0, 1, 3, 2))
    y = net.op("slice_axis", "cut", y, axis=1, begin=2, end=14)
    y = net.op("SliceChannel", "halves", y, num_outputs=2)
    y = net.op("UpSampling", "up", (y[0], 1), scale=2, sample_type="nearest")
    y = net.op("Reshape", "flat", y, shape=(0, -3, -1))
    y = net.op("mean", "mean", y, axis=2)
    y = net.dense(y, "fc", (5, 48))
    return net, net.op("SoftmaxOutput", "softmax", y, net.variable("softmax_label"))


def absurd_length(rng: random.Random, data: bytes) -> bytes:
    """Put an extreme number over four or eight bytes: at the start, or in front of an array."""
    marks = [match.start() for match in re.finditer(rb"[\xc8-\xca]\xfa\x93\xf9", data)]
    start = rng.choice((0, *marks, data.rfind(b"arg:") - 16))
    return absurd_at(rng, data, start + rng.randrange(0, 48, 4), rng.choice((4, 8)))


def absurd_number(rng: random.Random, data: bytes) -> bytes:
    """Replace a number in the text."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    place = rng.choice(numbers)
    return data[: place.start()] + rng.choice(NUMBERS).encode() + data[place.end() :]


def other_operator(rng: random.Random, data: bytes) -> bytes:
    """Let a node be any other operator."""
    graph = json.loads(data)
    node = rng.choice(graph["nodes"])
    node["op"] = rng.choice((*sorted(CONVERTERS), "null", "nothing"))
    return json.dumps(graph).encode()


def other_inputs(rng: random.Random, data: bytes) -> bytes:
    """Let a node read something else, or more, or less."""
    graph = json.loads(data)
    node = rng.choice(graph["nodes"])
    entry = [rng.randrange(-1, len(graph["nodes"]) + 1), rng.choice((0, 0, 1, 7)), 0]
    node["inputs"] = [*node["inputs"], entry][rng.randrange(2) :]
    return json.dumps(graph).encode()


def removed(rng: random.Random, data: bytes) -> bytes:
    """Take a node out, or one of its attributes."""
    graph = json.loads(data)
    node = rng.choice(graph["nodes"])
    if rng.random() < 0.5 and node.get("attrs"):
        del node["attrs"][rng.choice(sorted(node["attrs"]))]
    else:
        graph["nodes"].remove(node)
    return json.dumps(graph).encode()


MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "params": (truncated, flipped, flipped, absurd_length, absurd_length, repeated),
    "symbol": (
        truncated,
        flipped,
        absurd_number,
        absurd_number,
        other_operator,
        other_inputs,
        removed,
    ),
}


def main(folder: Path, kind: str, count: int) -> None:
    net, head = network()
    symbol = net.save(folder, head)
    path = symbol if kind == "symbol" else folder / "net-0000.params"
    survive(path, lambda: import_mxnet(symbol), MUTATIONS[kind], count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
