"""One small network of each family of Gluon's vision zoo, as the symbols that Gluon exports.

Structures as published: the block of each family, one or two of a kind, on narrow layers.
"""

from collections.abc import Callable

from tests.mxnet_models import MxnetModel

Entry = tuple[int, int]
CLASSES = 10


def alexnet(net: MxnetModel, x: Entry) -> Entry:
    """Convolutions with bias, overlapping pools, dense layers with dropout."""
    for index, (shape, stride, pad) in enumerate(
        (((16, 3, 11, 11), 4, 2), ((24, 16, 5, 5), 1, 2), ((24, 24, 3, 3), 1, 1))
    ):
        x = net.conv(x, f"conv{index}_fwd", shape, bias=True, stride=(stride,) * 2, pad=(pad,) * 2)
        x = net.relu(x, f"conv{index}_relu_fwd")
        if index < 2:
            x = net.pool(x, f"pool{index}_fwd", 3, 2)
    x = net.op("Flatten", "flatten0_flatten0", x)
    x = net.relu(net.dense(x, "dense0_fwd", (32, 24 * 9)), "dense0_relu_fwd")
    x = net.op("Dropout", "dropout0_fwd", x, p=0.5, mode="training", axes=())
    return net.dense(x, "dense1_fwd", (CLASSES, 32))


def vgg(net: MxnetModel, x: Entry) -> Entry:
    """3x3 convolutions, with batch norm in one stage, and 2x2 pools."""
    channels = 3
    for index, width in enumerate((16, 32)):
        name = f"conv{index}_fwd"
        x = net.conv(x, name, (width, channels, 3, 3), bias=True, stride=(1, 1), pad=(1, 1))
        x = net.batch_norm(x, f"batchnorm{index}_fwd", width) if index else x
        x = net.pool(net.relu(x, f"relu{index}_fwd"), f"pool{index}_fwd", 2, 2)
        channels = width
    x = net.dense(x, "dense0_fwd", (32, 32 * 16 * 16), flatten=True)
    return net.dense(net.relu(x, "dense0_relu_fwd"), "dense1_fwd", (CLASSES, 32))


def resnet_v1(net: MxnetModel, x: Entry) -> Entry:
    """Batch norm after each convolution; a basic and a bottleneck block with downsampling."""
    x = _conv_bn(net, x, "conv0", 16, 3, 7, 2)
    x = net.pool(net.relu(x, "relu0_fwd"), "pool0_fwd", 3, 2, 1)
    y = net.relu(_conv_bn(net, x, "stage1_conv0", 16, 16, 3), "stage1_relu0_fwd")
    y = _conv_bn(net, y, "stage1_conv1", 16, 16, 3)
    x = net.relu(net.op("elemwise_add", "stage1_plus0", y, x), "stage1_activation0")
    y = net.relu(_conv_bn(net, x, "stage2_conv0", 8, 16, 1, 2), "stage2_relu0_fwd")
    y = net.relu(_conv_bn(net, y, "stage2_conv1", 8, 8, 3), "stage2_relu1_fwd")
    y = _conv_bn(net, y, "stage2_conv2", 32, 8, 1)
    shortcut = _conv_bn(net, x, "stage2_conv3", 32, 16, 1, 2)
    x = net.relu(net.op("elemwise_add", "stage2_plus0", y, shortcut), "stage2_activation0")
    return _classified(net, x, 32)


def resnet_v2(net: MxnetModel, x: Entry) -> Entry:
    """Batch norm before each convolution, the first one on the image itself."""
    x = net.batch_norm(x, "batchnorm0_fwd", 3, fix_gamma=True)
    x = net.conv(x, "conv0_fwd", (16, 3, 7, 7), stride=(2, 2), pad=(3, 3))
    x = net.relu(net.batch_norm(x, "batchnorm1_fwd", 16), "relu0_fwd")
    x = net.pool(x, "pool0_fwd", 3, 2, 1)
    channels = 16
    for index, (width, stride) in enumerate(((16, 1), (32, 2))):
        name = f"stage{index + 1}"
        y = net.relu(net.batch_norm(x, f"{name}_batchnorm0_fwd", channels), f"{name}_activation0")
        shortcut = x
        if stride > 1:
            shape = (width, channels, 1, 1)
            shortcut = net.conv(y, f"{name}_conv2_fwd", shape, stride=(stride, stride))
        y = net.conv(
            y, f"{name}_conv0_fwd", (width, channels, 3, 3), stride=(stride, stride), pad=(1, 1)
        )
        y = net.relu(net.batch_norm(y, f"{name}_batchnorm1_fwd", width), f"{name}_activation1")
        y = net.conv(y, f"{name}_conv1_fwd", (width, width, 3, 3), stride=(1, 1), pad=(1, 1))
        x = net.op("elemwise_add", f"{name}_plus0", y, shortcut)
        channels = width
    x = net.relu(net.batch_norm(x, "batchnorm2_fwd", channels), "relu1_fwd")
    return _classified(net, x, channels)


def densenet(net: MxnetModel, x: Entry) -> Entry:
    """Two dense layers that concatenate, and a transition that halves."""
    x = net.relu(_conv_bn(net, x, "conv0", 16, 3, 7, 2), "relu0_fwd")
    x, channels = net.pool(x, "pool0_fwd", 3, 2, 1), 16
    for index in range(2):
        name = f"stage1_{index}"
        y = net.relu(net.batch_norm(x, f"{name}_batchnorm0_fwd", channels), f"{name}_relu0_fwd")
        y = net.conv(y, f"{name}_conv0_fwd", (32, channels, 1, 1))
        y = net.relu(net.batch_norm(y, f"{name}_batchnorm1_fwd", 32), f"{name}_relu1_fwd")
        y = net.conv(y, f"{name}_conv1_fwd", (8, 32, 3, 3), pad=(1, 1))
        x = net.op("Concat", f"{name}_concat0", x, y, dim=1, num_args=2)
        channels += 8
    x = net.relu(net.batch_norm(x, "batchnorm1_fwd", channels), "relu1_fwd")
    x = net.conv(x, "conv1_fwd", (16, channels, 1, 1))
    x = net.pool(x, "pool1_fwd", 2, 2, kind="avg")
    x = net.relu(net.batch_norm(x, "batchnorm2_fwd", 16), "relu2_fwd")
    x = net.pool(x, "pool2_fwd", 4, 4, kind="avg")
    return net.dense(net.op("Flatten", "flatten0_flatten0", x), "dense0_fwd", (CLASSES, 16 * 4))


def inception(net: MxnetModel, x: Entry) -> Entry:
    """Branches of 1x1, 5x5, 1x7 then 7x1 and an average pool, side by side."""
    x = net.relu(_conv_bn(net, x, "conv0", 16, 3, 3, 2, eps=1e-3), "relu0_fwd")
    a = net.relu(_conv_bn(net, x, "a0", 8, 16, 1, eps=1e-3), "a0_relu_fwd")
    b = net.relu(_conv_bn(net, x, "b0", 8, 16, 1, eps=1e-3), "b0_relu_fwd")
    b = net.relu(_conv_bn(net, b, "b1", 8, 8, 5, eps=1e-3), "b1_relu_fwd")
    c = net.relu(_conv_bn(net, x, "c0", 8, 16, (1, 7), eps=1e-3), "c0_relu_fwd")
    c = net.relu(_conv_bn(net, c, "c1", 8, 8, (7, 1), eps=1e-3), "c1_relu_fwd")
    d = net.pool(x, "d_pool_fwd", 3, 1, 1, kind="avg")
    d = net.relu(_conv_bn(net, d, "d0", 8, 16, 1, eps=1e-3), "d0_relu_fwd")
    x = net.op("Concat", "mixed_concat0", a, b, c, d, dim=1, num_args=4)
    e = net.pool(x, "e_pool_fwd", 3, 2)
    f = net.relu(_conv_bn(net, x, "f0", 8, 32, 3, 2, pad=(0, 0), eps=1e-3), "f0_relu_fwd")
    x = net.op("Concat", "reduced_concat0", e, f, dim=1, num_args=2)
    return _classified(net, net.op("Dropout", "dropout0_fwd", x, p=0.5), 40)


def mobilenet_v1(net: MxnetModel, x: Entry) -> Entry:
    """Depthwise and 1x1 convolutions."""
    x, channels = net.relu(_conv_bn(net, x, "conv0", 8, 3, 3, 2), "relu0_fwd"), 8
    for index, (width, stride) in enumerate(((16, 1), (32, 2))):
        x = _conv_bn(net, x, f"dw{index}", channels, 1, 3, stride, num_group=channels)
        x = net.relu(x, f"dw{index}_relu_fwd")
        x = net.relu(_conv_bn(net, x, f"pw{index}", width, channels, 1), f"pw{index}_relu_fwd")
        channels = width
    return _classified(net, x, channels)


def mobilenet_v2(net: MxnetModel, x: Entry) -> Entry:
    """Linear bottlenecks; ReLU6 is a clip; the classifier is a convolution."""
    x, channels = _relu6(net, _conv_bn(net, x, "conv0", 8, 3, 3, 2), "relu60"), 8
    for index, (width, stride) in enumerate(((16, 2), (16, 1))):
        name, hidden = f"linearbottleneck{index}", 4 * channels
        y = _relu6(net, _conv_bn(net, x, f"{name}_conv0", hidden, channels, 1), f"{name}_relu60")
        y = _conv_bn(net, y, f"{name}_conv1", hidden, 1, 3, stride, num_group=hidden)
        y = _relu6(net, y, f"{name}_relu61")
        y = _conv_bn(net, y, f"{name}_conv2", width, hidden, 1)
        same = stride == 1 and width == channels
        x = net.op("elemwise_add", f"{name}_elemwise_add0", y, x) if same else y
        channels = width
    x = net.pool(x, "pool0_fwd", 1, 1, kind="avg", global_pool=True)
    x = net.conv(x, "pred_conv0_fwd", (CLASSES, channels, 1, 1))
    return net.op("Flatten", "pred_flatten0_flatten0", x)


def squeezenet(net: MxnetModel, x: Entry) -> Entry:
    """Fire modules; pools that round up; the average of class maps."""
    x = net.conv(x, "conv0_fwd", (16, 3, 3, 3), bias=True, stride=(2, 2), pad=(0, 0))
    x = net.pool(net.relu(x, "relu0_fwd"), "pool0_fwd", 3, 2, pooling_convention="full")
    x = net.relu(net.conv(x, "fire_conv0_fwd", (8, 16, 1, 1), bias=True), "fire_relu0_fwd")
    a = net.relu(net.conv(x, "fire_conv1_fwd", (16, 8, 1, 1), bias=True), "fire_relu1_fwd")
    b = net.conv(x, "fire_conv2_fwd", (16, 8, 3, 3), bias=True, pad=(1, 1))
    x = net.op("Concat", "fire_concat0", a, net.relu(b, "fire_relu2_fwd"), dim=1, num_args=2)
    x = net.conv(x, "conv1_fwd", (CLASSES, 32, 1, 1), bias=True)
    x = net.pool(net.relu(x, "relu1_fwd"), "pool1_fwd", 7, 7, kind="avg")
    return net.op("Flatten", "flatten0_flatten0", x)


def _conv_bn(net, x, name, width, channels, kernel, stride=1, *, pad=None, eps=1e-5, **attrs):
    kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
    pad = tuple(k // 2 for k in kernel) if pad is None else pad
    shape = (width, channels, *kernel)
    x = net.conv(x, f"{name}_fwd", shape, stride=(stride, stride), pad=pad, **attrs)
    return net.batch_norm(x, f"{name}_batchnorm_fwd", width, eps=eps)


def _relu6(net: MxnetModel, x: Entry, name: str) -> Entry:
    return net.op("clip", name, x, a_min="0.0", a_max="6.0")


def _classified(net: MxnetModel, x: Entry, channels: int) -> Entry:
    x = net.pool(x, "pool_last_fwd", 1, 1, kind="avg", global_pool=True)
    return net.dense(net.op("Flatten", "flatten_last", x), "dense_last_fwd", (CLASSES, channels))


Builder = Callable[[MxnetModel, Entry], Entry]
NETWORKS: dict[str, tuple[Builder, int]] = {
    "alexnet": (alexnet, 63),
    "densenet": (densenet, 64),
    "inception": (inception, 31),
    "mobilenet_v1": (mobilenet_v1, 33),
    "mobilenet_v2": (mobilenet_v2, 33),
    "resnet_v1": (resnet_v1, 47),
    "resnet_v2": (resnet_v2, 47),
    "squeezenet": (squeezenet, 32),
    "vgg": (vgg, 64),
}
"""Family -> what builds it, and the height and width of its image."""


def build(family: str) -> tuple[MxnetModel, Entry, tuple[int, int, int, int]]:
    """Return a network, its result, and the shape of its input ``data``."""
    builder, size = NETWORKS[family]
    net = MxnetModel()
    return net, builder(net, net.variable("data")), (1, 3, size, size)
