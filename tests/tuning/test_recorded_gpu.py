"""A log is used for the GPU that it was measured on, by name and number of multiprocessors."""

import dataclasses
import re

import pytest

from relay_int8.machine.gpu import Gpu, Gpus
from relay_int8.tuning.batch import Measured
from relay_int8.tuning.log_folders import device_folder
from relay_int8.tuning.records import Records
from relay_int8.tuning.trial_log import Log, Trial
from schedules.space import version
from schedules.spec import Conv2d, to_json
from schedules.targets import named_target, target_config
from schedules.task import Task
from tests.tuning.fake_device import manifest

pytestmark = pytest.mark.fast
SM_89 = named_target("sm_89")
L4 = Gpu(name="NVIDIA L4", architecture="sm_89", memory_bytes=1 << 34, multiprocessors=58)
RTX = Gpu(name="RTX 4090", architecture="sm_89", memory_bytes=1 << 34, multiprocessors=128)
LESS = dataclasses.replace(RTX, multiprocessors=114)
P40 = Gpu(name="Tesla P40", architecture="sm_61", memory_bytes=1 << 34, multiprocessors=30)
SPEC = Conv2d(
    batch=1, in_channels=8, out_channels=8, height=6, width=6, kernel=(1, 1), x="uint8", y="uint8"
)
TASK = Task(template="conv2d_dp4a", spec=to_json(SPEC), layouts=("NCHW4c", "NCHW4c"))


def write_log(folder, gpu):
    """Write the log of one kernel, measured on a GPU."""
    kernels = {TASK.key: version(TASK.kernel(SM_89))}
    of = dataclasses.replace(
        manifest([TASK]),
        device=gpu.name,
        multiprocessors=gpu.multiprocessors,
        target=target_config(SM_89),
        kernels=kernels,
    )
    log = Log(folder / device_folder(gpu.name, gpu.multiprocessors) / "net", of)
    log.append(Trial(task=TASK.key, choices=None, measured=Measured(verdict="ok", seconds=(1e-5,))))
    log.close()


def records(folder, *gpus, shipped=None):
    return Records(folder, SM_89, shipped, find_gpus=lambda: Gpus(devices=gpus, driver="13.0"))


@pytest.mark.parametrize(
    ("recorded", "present", "used", "reason"),
    [
        ([L4], [L4], 1, ""),
        ([L4], [RTX, L4], 1, ""),
        (
            [L4],
            [RTX],
            0,
            "on NVIDIA L4 with 58 multiprocessors, this computer has RTX 4090 with 128",
        ),
        ([LESS], [RTX], 0, "recorded on RTX 4090 with 114 multiprocessors, this computer has RTX"),
        ([L4, RTX], [RTX], 1, "recorded on NVIDIA L4"),
        ([L4], [], 1, ""),
        ([L4], [P40], 1, ""),  # it cannot run the code: built for another computer
        ([L4, RTX], [], 0, "there are logs of NVIDIA L4 with 58 .*; name the folder of one GPU"),
    ],
)
def test_whose_logs_are_used(tmp_path, recorded, present, used, reason):
    for gpu in recorded:
        write_log(tmp_path, gpu)
    found = records(tmp_path, *present)
    assert len(found) == used
    if not reason:
        assert not found.refused
        return

    assert all(re.search("recorded on", text) for text in found.refused.values())
    assert any(re.search(reason, text) for text in found.refused.values())


def test_shipped_logs_are_of_a_gpu_that_is_here(tmp_path):
    write_log(tmp_path, L4)
    assert len(records(None, L4, shipped=tmp_path)) == 1
    for present in ((), (RTX,)):
        found = records(None, *present, shipped=tmp_path)
        assert not len(found) and not found.refused


def test_gpus_of_one_name_have_folders_of_their_own():
    assert device_folder("RTX 4090", 128) == "rtx-4090-128-sm"
    assert device_folder("AMD EPYC", mcpu="znver5") == "amd-epyc-znver5"
