"""The instruction of a layer: by architecture and shape, without repacks in between."""

import pytest

from relay_int8.build import kernel_calls
from schedules.catalog import select
from schedules.spec import Conv2d
from tests.cuda.run_template import SM_61, SM_80
from tests.quantized_networks import QuantizedNetwork
from tests.small_networks import NETWORKS, any_params


def convolution(channels: int, size: int, groups: int = 1) -> Conv2d:
    """Return a 3x3 convolution that keeps channels and size."""
    return Conv2d(
        batch=1,
        in_channels=channels,
        height=size,
        width=size,
        out_channels=channels,
        kernel=(3, 3),
        padding=(1, 1, 1, 1),
        groups=groups,
        x="uint8",
        y="uint8",
    )


WIDE, DEPTHWISE = convolution(256, 14), convolution(96, 112, groups=96)
GROUPED = convolution(128, 56, groups=32)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("spec", "target", "template"),
    [
        (WIDE, SM_61, "conv2d_dp4a"),
        (WIDE, SM_80, "conv2d_mma"),
        (DEPTHWISE, SM_80, "conv2d_dp4a"),
        (GROUPED, SM_80, "conv2d_dp4a"),
    ],
)
def test_by_architecture_and_shape(spec, target, template: str):
    assert select(spec, target).name == template


def test_both_in_one_region_need_no_repack_that_one_does_not():
    network = QuantizedNetwork.make(NETWORKS["depthwise"](), any_params)
    both, dp4a = (kernel_calls(network.mod, target) for target in (SM_80, SM_61))
    assert {"conv2d_dp4a", "conv2d_mma"} <= {call.template for call in both}
    repacks = [[call.tensor for call in calls if call.is_repack] for calls in (both, dp4a)]
    assert repacks[0] == repacks[1]
