"""Runs under MXNet 1.9.1: write networks with seeded weights, an input, and what MXNet computes.

::

    python mxnet_exporter.py FOLDER --list               print the names of Gluon's vision networks
    python mxnet_exporter.py FOLDER --network NAME       one of them (--size N: at another size)
    python mxnet_exporter.py FOLDER --operators          a network of one operator for each case

Each is ``NAME-symbol.json``, ``NAME-0000.params`` and ``NAME.npz``: the inputs under their names,
the results as ``output0`` and so on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import mxnet  # type: ignore[import-not-found]
import numpy as np
from mxnet.gluon.model_zoo import vision  # type: ignore[import-not-found]

IMAGES = (2, 6, 7, 9)
ROWS = (4, 12)

# Operator, shapes of its data inputs, attributes.
CASES: list[Any] = [
    ("Convolution", [IMAGES], {"kernel": (3, 2), "num_filter": 4}),
    (
        "Convolution",
        [IMAGES],
        {"kernel": (3, 3), "num_filter": 4, "stride": (2, 1), "pad": (1, 2), "dilate": (2, 1)},
    ),
    ("Convolution", [IMAGES], {"kernel": (1, 1), "num_filter": 4, "num_group": 2, "no_bias": True}),
    ("Convolution", [(2, 6, 9)], {"kernel": (3,), "num_filter": 4, "pad": (1,)}),
    (
        "Deconvolution",
        [IMAGES],
        {"kernel": (4, 4), "num_filter": 4, "stride": (2, 2), "pad": (1, 1)},
    ),
    (
        "Deconvolution",
        [IMAGES],
        {"kernel": (3, 3), "num_filter": 6, "num_group": 2, "stride": (2, 2), "adj": (1, 1)},
    ),
    (
        "Deconvolution",
        [IMAGES],
        {"kernel": (4, 4), "num_filter": 4, "stride": (2, 2), "target_shape": (14, 17)},
    ),
    ("FullyConnected", [IMAGES], {"num_hidden": 5}),
    ("FullyConnected", [(2, 3, 8)], {"num_hidden": 5, "flatten": False, "no_bias": True}),
    ("BatchNorm", [IMAGES], {}),
    ("BatchNorm", [IMAGES], {"fix_gamma": False, "eps": 1e-5, "use_global_stats": True}),
    ("BatchNorm", [IMAGES], {"fix_gamma": False, "axis": 3}),
    ("InstanceNorm", [IMAGES], {}),
    ("LayerNorm", [IMAGES], {}),
    ("LayerNorm", [IMAGES], {"axis": 1}),
    ("L2Normalization", [IMAGES], {}),
    ("L2Normalization", [IMAGES], {"mode": "channel"}),
    ("L2Normalization", [IMAGES], {"mode": "spatial"}),
    ("LRN", [IMAGES], {"nsize": 5}),
    ("LRN", [IMAGES], {"nsize": 3, "alpha": 0.5, "beta": 0.6, "knorm": 1.0}),
    *[
        ("Pooling", [size], {"kernel": (3, 3), "stride": (2, 2), **attrs})
        for size in ((1, 3, 6, 9), (1, 3, 7, 8))
        for attrs in (
            {"pool_type": "max"},
            {"pool_type": "max", "pad": (1, 1)},
            {"pool_type": "max", "pooling_convention": "full"},
            {"pool_type": "avg", "pad": (1, 1)},
            {"pool_type": "avg", "pad": (1, 1), "count_include_pad": False},
            {"pool_type": "avg", "pad": (1, 1), "pooling_convention": "full"},
            {"pool_type": "avg", "pooling_convention": "full", "count_include_pad": False},
            {"pool_type": "sum", "pad": (1, 0)},
        )
    ],
    ("Pooling", [IMAGES], {"global_pool": True, "pool_type": "avg", "kernel": (7, 7)}),
    ("Pooling", [IMAGES], {"global_pool": True, "pool_type": "max"}),
    ("UpSampling", [IMAGES], {"scale": 2, "sample_type": "nearest"}),
    (
        "UpSampling",
        [IMAGES, (2, 3, 14, 18)],
        {"scale": 2, "sample_type": "nearest", "num_args": 2},
    ),
    *[
        (
            "UpSampling",
            [IMAGES, (6, 1, size, size)],
            {"scale": scale, "sample_type": "bilinear", "num_args": 2, "num_filter": 6},
        )
        for scale, size in ((2, 4), (3, 5))
    ],
    ("contrib.BilinearResize2D", [IMAGES], {"height": 11, "width": 5}),
    ("contrib.AdaptiveAvgPooling2D", [(1, 3, 8, 6)], {"output_size": (4, 3)}),
    ("contrib.AdaptiveAvgPooling2D", [IMAGES], {"output_size": 1}),
    ("Crop", [IMAGES], {"h_w": (3, 4), "offset": (1, 2), "num_args": 1}),
    ("Crop", [IMAGES, (2, 1, 3, 4)], {"center_crop": True, "num_args": 2}),
    *[
        ("Activation", [IMAGES], {"act_type": kind})
        for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    ],
    *[
        ("LeakyReLU", [IMAGES], {"act_type": kind})
        for kind in ("leaky", "prelu", "elu", "selu", "gelu", "rrelu")
    ],
    ("LeakyReLU", [IMAGES], {"act_type": "elu", "slope": 0.7}),
    ("Concat", [IMAGES, (2, 3, 7, 9)], {"num_args": 2}),
    ("Concat", [ROWS, (4, 2)], {"num_args": 2, "dim": -1}),
    ("stack", [ROWS, ROWS], {"axis": 1, "num_args": 2}),
    ("Flatten", [IMAGES], {}),
    *[
        ("Reshape", [(2, 3, 4, 5)], {"shape": target, **more})
        for target, more in (
            ((6, -1), {}),
            ((0, 0, 20), {}),
            ((0, -2), {}),
            ((-3, -3), {}),
            ((0, -3, -2), {}),
            ((-4, 1, 2, -2), {}),
            ((0, -4, -1, 3, -2), {}),
            ((-1, 0), {"reverse": True}),
            ((0, 0, 2, -1, -4, 0), {"reverse": True}),
        )
    ],
    ("reshape_like", [(2, 6), (3, 4)], {}),
    *[
        (op, [IMAGES, IMAGES], {})
        for op in (
            "elemwise_add",
            "elemwise_sub",
            "elemwise_mul",
            "elemwise_div",
            "_maximum",
            "_minimum",
        )
    ],
    *[
        (op, [IMAGES, (1, 6, 1, 9)], {})
        for op in (
            "broadcast_add",
            "broadcast_sub",
            "broadcast_mul",
            "broadcast_div",
            "broadcast_maximum",
            "broadcast_minimum",
        )
    ],
    *[
        (f"_{op}_scalar", [IMAGES], {"scalar": 1.7})
        for op in (
            "plus",
            "minus",
            "rminus",
            "mul",
            "div",
            "rdiv",
            "maximum",
            "minimum",
            "rpower",
        )
    ],
    ("_power_scalar", [IMAGES], {"scalar": 2}),
    ("add_n", [IMAGES, IMAGES, IMAGES], {"num_args": 3}),
    ("clip", [IMAGES], {"a_min": -0.4, "a_max": 0.7}),
    ("hard_sigmoid", [IMAGES], {}),
    *[
        (op, [IMAGES], {})
        for op in ("abs", "ceil", "cos", "erf", "exp", "floor", "negative", "relu", "sigmoid")
    ],
    *[(op, [IMAGES], {}) for op in ("sign", "sin", "square", "tanh", "softsign", "reciprocal")],
    ("softmax", [IMAGES], {}),
    ("softmax", [IMAGES], {"axis": 1, "temperature": 2.5}),
    ("log_softmax", [ROWS], {}),
    ("softmin", [ROWS], {}),
    ("SoftmaxOutput", [ROWS], {}),
    ("SoftmaxOutput", [IMAGES], {"multi_output": True}),
    ("SoftmaxOutput", [IMAGES], {"preserve_shape": True}),
    ("SoftmaxOutput", [IMAGES], {}),
    ("SoftmaxActivation", [IMAGES], {"mode": "channel"}),
    ("SoftmaxActivation", [ROWS], {}),
    ("LogisticRegressionOutput", [ROWS], {}),
    ("Dropout", [ROWS], {"p": 0.5}),
    ("identity", [ROWS], {}),
    ("transpose", [IMAGES], {}),
    ("transpose", [IMAGES], {"axes": (0, 2, 3, 1)}),
    ("SwapAxis", [IMAGES], {"dim1": 1, "dim2": 3}),
    ("expand_dims", [ROWS], {"axis": -1}),
    ("squeeze", [(2, 1, 3, 1)], {}),
    ("squeeze", [(2, 1, 3, 1)], {"axis": 1}),
    ("slice", [IMAGES], {"begin": (None, 1), "end": (None, -1)}),
    ("slice", [IMAGES], {"begin": (0, 5, 1), "end": (2, 0, 7), "step": (1, -2, 3)}),
    ("slice_axis", [IMAGES], {"axis": 1, "begin": 2, "end": None}),
    ("slice_axis", [IMAGES], {"axis": -1, "begin": -5, "end": -1}),
    ("slice_like", [IMAGES, (1, 2, 3, 4)], {"axes": (1, -1)}),
    ("SliceChannel", [IMAGES], {"num_outputs": 3}),
    ("SliceChannel", [IMAGES], {"num_outputs": 2, "axis": 0, "squeeze_axis": True}),
    ("split_v2", [IMAGES], {"indices_or_sections": (2, 5), "axis": 1}),
    (
        "Pad",
        [IMAGES],
        {"mode": "constant", "constant_value": 0.5, "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)},
    ),
    ("Pad", [IMAGES], {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}),
    ("Pad", [IMAGES], {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}),
    *[(op, [IMAGES], {"axis": (2, 3)}) for op in ("mean", "sum", "max", "min")],
    ("mean", [IMAGES], {"axis": 1, "exclude": True, "keepdims": True}),
    ("Cast", [ROWS], {"dtype": "int32"}),
    ("dot", [ROWS, (5, 12)], {"transpose_b": True}),
    ("batch_dot", [(2, 3, 4), (2, 4, 5)], {}),
    ("broadcast_to", [(1, 6, 1, 9)], {"shape": (2, 0, 7, 0)}),
    ("broadcast_axis", [(1, 6, 1, 9)], {"axis": (0, 2), "size": (2, 7)}),
    ("broadcast_like", [(1, 6, 1, 9), IMAGES], {}),
    ("tile", [ROWS], {"reps": (2, 1, 3)}),
    ("depth_to_space", [(1, 8, 2, 3)], {"block_size": 2}),
    ("space_to_depth", [(1, 2, 4, 6)], {"block_size": 2}),
    ("ones_like", [ROWS], {}),
    *[
        (
            f"contrib.{op}",
            [(2, 4, 9, 8), (2, 2 * 9 * parts, 5, 8), *masks],
            {
                "kernel": (3, 3),
                "stride": (2, 1),
                "pad": (1, 1),
                "num_filter": 6,
                "num_group": parts,
                "num_deformable_group": parts,
            },
        )
        for parts in (1, 2)
        for op, masks in (
            ("DeformableConvolution", []),
            ("ModulatedDeformableConvolution", [(2, 9 * parts, 5, 8)]),
        )
    ],
    *[
        (op, [(2, 3, 12, 16), (7, 5)], {"pooled_size": (3, 4), "spatial_scale": 0.5, **more})
        for op, more in (
            ("ROIPooling", {}),
            ("contrib.ROIAlign", {}),
            ("contrib.ROIAlign", {"sample_ratio": 2, "aligned": True}),
        )
    ],
]


def export_network(folder: Path, name: str, size: int | None) -> None:
    """Export a network of Gluon's zoo; its batch norms hold the statistics of a random batch."""
    mxnet.random.seed(0)
    net = vision.get_model(name)
    size = size or (299 if name.startswith("inception") else 224)
    net.initialize(mxnet.init.MSRAPrelu())
    set_momentum(net)
    rng = np.random.default_rng(0)
    x = mxnet.nd.array(rng.normal(size=(1, 3, size, size)))
    with mxnet.autograd.train_mode():
        net(x)
    for key, value in net.collect_params().items():
        if key.endswith(("gamma", "beta")):
            base = 1.0 if key.endswith("gamma") else 0.0
            value.set_data(mxnet.nd.array(base + rng.normal(0, 0.2, value.shape)))
    net.hybridize()
    y = net(x)
    net.export(str(folder / name))
    np.savez(folder / f"{name}.npz", data=x.asnumpy(), output0=y.asnumpy())


def set_momentum(block: mxnet.gluon.Block) -> None:
    """Make batch norms take the statistics of the last batch as they are."""
    if isinstance(block, mxnet.gluon.nn.BatchNorm):
        block._kwargs["momentum"] = 0.0
    for child in block._children.values():
        set_momentum(child)


def export_operator(folder: Path, place: int) -> None:
    """Export case number ``place``."""
    op, shapes, attributes = CASES[place]
    rng = np.random.default_rng(place)
    build = mxnet.sym._internal if op.startswith("_") else mxnet.sym
    for part in op.split("."):
        build = getattr(build, part)
    inputs = {f"x{i}": rng.normal(size=shape).astype("f4") for i, shape in enumerate(shapes)}
    if "ROI" in op:
        corners = np.sort(rng.uniform(0, 22, (2, 7, 2)), axis=0)
        inputs["x1"] = np.concatenate([rng.integers(0, 2, (7, 1)), *corners], 1).astype("f4")
    variables = [mxnet.sym.var(name) for name in inputs]
    symbol = build(*variables, **attributes, **({} if op == "split_v2" else {"name": "y"}))
    symbol = symbol[0] if op == "LeakyReLU" else symbol  # rrelu gives its noise too
    executor = symbol.simple_bind(
        mxnet.cpu(), grad_req="null", **{name: x.shape for name, x in inputs.items()}
    )
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        low = 0.2 if name.endswith(("var", "gamma")) else -1.0
        array[:] = inputs.get(name, rng.uniform(low, 1.0, array.shape))
    outputs = executor.forward(is_train=False)
    weights = {k: v for k, v in executor.arg_dict.items() if k not in inputs and "label" not in k}
    name = f"{place:03d}_{op.split('.')[-1]}"
    mxnet.model.save_checkpoint(str(folder / name), 0, symbol, weights, executor.aux_dict)
    results = {f"output{i}": y.asnumpy() for i, y in enumerate(outputs)}
    arrays: dict[str, Any] = {**inputs, **results}
    np.savez(folder / f"{name}.npz", **arrays)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--network")
    parser.add_argument("--size", type=int, help="height and width; the published by default")
    parser.add_argument("--operators", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(NETWORKS))
    if args.network:
        export_network(args.folder, args.network, args.size)
    if args.operators:
        for place in range(len(CASES)):
            export_operator(args.folder, place)


NETWORKS = (
    "alexnet",
    *(f"densenet{depth}" for depth in (121, 161, 169, 201)),
    "inceptionv3",
    *(f"mobilenet{width}" for width in ("1.0", "0.75", "0.5", "0.25")),
    *(f"mobilenetv2_{width}" for width in ("1.0", "0.75", "0.5", "0.25")),
    *(f"resnet{depth}_v{kind}" for kind in (1, 2) for depth in (18, 34, 50, 101, 152)),
    *(f"squeezenet{version}" for version in ("1.0", "1.1")),
    *(f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")),
)

if __name__ == "__main__":
    main()
