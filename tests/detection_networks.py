"""Small detectors with the real ends: TensorFlow's SSD on MobileNet as a TFLite file, MXNet's SSD."""

import numpy as np

from tests.frontend.test_tflite_custom import customs
from tests.frontend.test_tflite_landmarks import as_map
from tests.mxnet_models import MxnetModel
from tests.tflite_models import TfliteModel, quantized, schema

RELU6, SAME = 3, 0
SIZE = 32


def tflite_ssd(
    classes: int = 4, *, regular: bool = False, count: int = 10, in_integers: bool = False
) -> TfliteModel:
    """Return a MobileNet of five layers, with boxes and scores at two of its scales.

    A file ``in_integers`` has uint8 boxes, scores and anchors, the only ones that TFLite takes.
    """
    net = TfliteModel(3)
    image = net.input("image", (1, SIZE, SIZE, 3))
    step = {"strideW": 2, "strideH": 2, "padding": SAME}
    x = net.conv(image, 16, 3, 3, fusedActivationFunction=RELU6, **step)
    encodings, scores, anchors = [], [], []
    for channels in (16, 32):
        x = net.depthwise(x, net_channels(net, x), 3, fusedActivationFunction=RELU6, **step)
        x = net.conv(x, channels, 1, net_channels(net, x), fusedActivationFunction=RELU6)
        rows = SIZE // 4 if channels == 16 else SIZE // 8
        for kind, depth, tensors in (("box", 4, encodings), ("class", classes + 1, scores)):
            head = net.conv(x, 3 * depth, 1, channels, padding=SAME)
            shape = net.constant([1, rows * rows * 3, depth])
            tensors.append(net.op("RESHAPE", head, shape, name=f"{kind}{rows}"))
        anchors.append(anchor_boxes(rows, (0.25, 0.4, 0.6)))
    boxes, logits = (
        net.op("CONCATENATION", *parts, options="ConcatenationOptions", axis=1)
        for parts in (encodings, scores)
    )
    predictions = net.op("LOGISTIC", logits, name="predictions")
    options = {
        "max_detections": count, "max_classes_per_detection": 1, "detections_per_class": 100,
        "use_regular_nms": regular, "nms_score_threshold": 1e-8, "nms_iou_threshold": 0.6,
        "num_classes": classes, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    places = np.concatenate(anchors).astype("float32")
    net.finish(boxes, predictions)
    if in_integers:
        net = quantized(net)
        where = net.constant(np.rint(places * 200), "uint8")
        scales = {where: (0.005, 0)}
        for tensor in (boxes, predictions):
            known = net.graph.tensors[tensor].quantization
            found = net.op("QUANTIZE", tensor, dtype="uint8", options="QuantizeOptions")
            net.graph.tensors[found].shape = net.graph.tensors[tensor].shape
            scales[found] = known.scale[0], known.zeroPoint[0] + 128
        boxes, predictions = list(scales)[1:]
        for tensor, (scale, zero) in scales.items():
            net.graph.tensors[tensor].quantization = schema.QuantizationParametersT(
                scale=[scale], zeroPoint=[zero]
            )
    else:
        where = net.constant(places, "float32")
    net.graph.outputs = customs(
        net, "TFLite_Detection_PostProcess", as_map(options),
        [(1, count, 4), (1, count), (1, count), (1,)], boxes, predictions, where,
    )  # fmt: skip
    return net


def net_channels(net: TfliteModel, x: int) -> int:
    """Return the channels of a convolution's result: those of its bias."""
    (operator,) = (each for each in net.graph.operators if x in each.outputs)
    return net.graph.tensors[operator.inputs[2]].shape[0]


def anchor_boxes(rows: int, sizes: tuple[float, ...]) -> np.ndarray:
    """Return anchors around each pixel: y, x, height, width."""
    centres = (np.stack(np.meshgrid(*[np.arange(rows)] * 2, indexing="ij"), -1) + 0.5) / rows
    boxes = [np.concatenate([centres, np.full_like(centres, size)], -1) for size in sizes]
    return np.stack(boxes, 2).reshape(-1, 4)


def mxnet_ssd(net: MxnetModel, classes: int = 3, *, gluon: bool = False) -> tuple[int, int]:
    """Add an SSD of three convolutions; ``gluon`` ends as GluonCV's do, else as MXNet's example."""
    x = net.variable("data")
    shapes = [(12, 3, 3, 3), (24, 12, 3, 3), (24, 24, 3, 3)]
    for index, shape in enumerate(shapes):
        conv = net.conv(x, f"conv{index}", shape, bias=True, stride=(2, 2), pad=(1, 1))
        x = net.relu(conv, f"relu{index}")
    anchors = net.op("_contrib_MultiBoxPrior", "anchors", x, sizes="(0.3, 0.5)", ratios="(1, 2)")
    count = 3 * (SIZE // 8) ** 2
    heads = []
    for name, width in (("class", classes + 1), ("box", 4)):
        head = net.conv(x, name, (3 * width, 24, 3, 3), pad=(1, 1))
        turned = net.op("transpose", f"{name}_t", head, axes="(0, 2, 3, 1)")
        heads.append(net.op("Reshape", f"{name}_rows", turned, shape=f"(0, {count}, {width})"))
    if not gluon:
        scores = net.op("transpose", "scores", heads[0], axes="(0, 2, 1)")
        scores = net.op("softmax", "probabilities", scores, axis=1)
        moves = net.op("Flatten", "moves", heads[1])
        return net.op(
            "_contrib_MultiBoxDetection", "detections", scores, moves, anchors, nms_topk=40
        )
    boxes = net.op("_contrib_box_decode", "boxes", heads[1], anchors, format="corner")
    scores = net.op("softmax", "probabilities", heads[0], axis=-1)
    rows = []
    for label in range(classes):
        score = net.op(
            "slice_axis", f"score{label}", scores, axis=-1, begin=label + 1, end=label + 2
        )
        ones = net.op("ones_like", f"ones{label}", score)
        number = net.op("_mul_scalar", f"label{label}", ones, scalar=float(label))
        rows.append(net.op("Concat", f"rows{label}", number, score, boxes, dim=2, num_args=3))
    every = net.op("Concat", "rows", *rows, dim=1, num_args=classes)
    kept = net.op(
        "_contrib_box_nms", "kept", every,
        overlap_thresh=0.45, valid_thresh=0.01, topk=60, id_index=0, score_index=1, coord_start=2,
    )  # fmt: skip
    return net.op("slice_axis", "detections", kept, axis=1, begin=0, end=20)
