"""The instruction of a layer: by architecture and shape, without repacks in between."""

from collections.abc import Callable
from pathlib import Path

import pytest

from relay_int8.compiler.build import kernel_calls
from relay_int8.compiler.pipeline import lower
from relay_int8.graph.attributes import SPEC, TEMPLATE
from relay_int8.tuning.alternatives import alternatives
from relay_int8.tuning.batch import Measured
from relay_int8.tuning.records import Records
from relay_int8.tuning.tasks import tasks_of
from relay_int8.tuning.trial_log import Log, LogManifest, Trial
from schedules.selection import select
from schedules.space import version
from schedules.spec import Conv2d
from schedules.targets import target_config
from schedules.task import Task
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


@pytest.mark.fast
@pytest.mark.parametrize(
    ("microseconds", "template"),
    [
        ({"conv2d_dp4a": 8.0, "conv2d_mma": 9.0}, "conv2d_dp4a"),
        ({"conv2d_dp4a": 9.0, "conv2d_mma": 8.0}, "conv2d_mma"),
        ({"conv2d_dp4a": 8.9, "conv2d_mma": 9.0}, "conv2d_mma"),  # a gain that may be chance
        ({"conv2d_dp4a": 1.0}, "conv2d_mma"),  # nothing to compare it with
        ({}, "conv2d_mma"),
    ],
)
def test_measured_times_decide_where_all_are_known(microseconds, template: str):
    assert select(WIDE, SM_80, lambda name, _: microseconds.get(name)).name == template


def write_log(folder: Path, tasks: tuple[Task, ...], seconds: Callable[[Task], float]) -> Records:
    """Return the records of a log in which each kernel's default schedule took ``seconds``."""
    manifest = LogManifest(
        device="none",
        network="any",
        network_digest="0",
        target=target_config(SM_80),
        seed=0,
        kernels={task.key: version(task.kernel(SM_80)) for task in tasks},
        occurrences={},
    )
    log = Log(folder, manifest)
    for task in tasks:
        measured = Measured(verdict="ok", seconds=(seconds(task),))
        log.append(Trial(task=task.key, choices=None, measured=measured))
    log.close()
    return Records(folder, SM_80)


@pytest.mark.parametrize("faster", ["dp4a", "mma"])
def test_records_of_both_decide_in_a_network(tmp_path, faster: str):
    network = QuantizedNetwork.make(NETWORKS["residual"](), any_params)
    own = tasks_of(kernel_calls(network.mod, SM_80))
    both = (*own, *alternatives(own, SM_80))
    records = write_log(
        tmp_path, both, lambda task: 1e-6 if task.template.endswith(faster) else 1e-5
    )
    competing = {task.spec for task in alternatives(own, SM_80)}
    with SM_80:
        lowered = lower(SM_80, records)(network.mod)
    chosen = {
        str(func.attrs[SPEC]): str(func.attrs[TEMPLATE])
        for func in lowered.functions.values()
        if func.attrs and TEMPLATE in func.attrs
    }
    assert competing and {chosen[spec].split("_")[-1] for spec in competing} == {faster}
    assert not records.refused


def test_both_in_one_region_need_no_repack_that_one_does_not():
    network = QuantizedNetwork.make(NETWORKS["depthwise"](), any_params)
    both, dp4a = (kernel_calls(network.mod, target) for target in (SM_80, SM_61))
    assert {"conv2d_dp4a", "conv2d_mma"} <= {call.template for call in both}
    repacks = [[call.name for call in calls if call.is_repack] for calls in (both, dp4a)]
    assert repacks[0] == repacks[1]
