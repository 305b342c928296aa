"""Libraries for Jetsons are those of an Arm computer; without its linker nothing begins."""

import shutil

import pytest

from relay_int8.errors import ArtifactError
from relay_int8.remote.address import Address, Endpoint
from relay_int8.tuning import remote_worker
from relay_int8.tuning.batch import Batch
from relay_int8.tuning.remote_measurer import RemoteMeasurer
from schedules.spec import Conv2d, to_json
from schedules.targets import named_target, target_config
from schedules.task import Task
from tests.nvidia import needs_compiler

SM_87 = target_config(named_target("sm_87"))
SPEC = Conv2d(
    batch=1, in_channels=8, out_channels=8, height=6, width=6, kernel=(1, 1), x="uint8", y="uint8"
)
TASK = Task(template="conv2d_dp4a", spec=to_json(SPEC), layouts=("NCHW4c", "NCHW4c"))
AARCH64 = 183  # e_machine of an ELF file


@needs_compiler
@pytest.mark.skipif(not shutil.which("aarch64-linux-gnu-g++"), reason="needs the cross compiler")
def test_candidates_for_a_jetson_are_linked_for_its_processor(tmp_path):
    library = tmp_path / "library.so"
    remote_worker._compile(Batch(task=TASK, target=SM_87, candidates=(None,)), library, None)
    assert int.from_bytes(library.read_bytes()[18:20], "little") == AARCH64


@pytest.mark.fast
def test_without_the_cross_compiler_nothing_is_tuned(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    rack_of_one = Endpoint(address=Address("127.0.0.1", 9090))
    with pytest.raises(ArtifactError, match=r"aarch64-linux-gnu-g\+\+ not found: .* install it"):
        RemoteMeasurer(SM_87, rack_of_one)
