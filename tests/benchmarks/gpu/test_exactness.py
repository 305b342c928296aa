"""Cases for a GPU without a compiler: what they say of a right kernel, a wrong one, and a process that dies."""

import json
import subprocess

import numpy as np
import pytest

from benchmarks.gpu import exactness
from benchmarks.gpu.kernel_cases import KernelCase, fault, read_index, save_index

pytestmark = pytest.mark.fast
CASE = KernelCase(name="f", arguments=2, layout="NCHW4c", shape=(1, 3, 1, 2), is_exact=True)
X = np.arange(8, dtype="uint8")


def y_of(numbers, lane=0):
    """Return three channels of two pixels as they lie in memory, the fourth lane filled."""
    memory = np.full((1, 1, 1, 2, 4), lane, numbers.dtype)
    memory[..., :3] = numbers.reshape(3, 2).T.reshape(1, 1, 1, 2, 3)
    return memory


@pytest.mark.parametrize(
    ("case", "y", "x", "found"),
    [
        (CASE, y_of(np.arange(6, dtype="int8"), 9), X, ""),
        (CASE, y_of(np.arange(1, 7, dtype="int8")), X, "6 of 6 numbers of y differ"),
        (CASE, y_of(np.arange(6, dtype="int8")), X + 1, "argument 0 was overwritten"),
        (
            CASE, y_of(np.arange(6, dtype="float32"), 1), X,
            "lanes past the last channel are not zero",
        ),
    ],
    ids=["lanes of integers may hold anything", "wrong", "input", "lanes"],
)  # fmt: skip
def test_what_is_wrong_with_a_kernel(case, y, x, found):
    expected = np.arange(6).reshape(1, 3, 1, 2)
    assert fault(case, [X, y * 0], [x, y], expected) == found


def test_products_of_floats_have_a_tolerance():
    case = KernelCase(name="f", arguments=1, layout="row", shape=(2,), is_exact=False)
    y = np.array([1, 2], "float32")
    assert fault(case, [y], [y], y + np.float32(1e-6)) == ""
    assert fault(case, [y], [y], y + np.float32(1e-3)) == "2 of 2 numbers of y differ"


def test_every_case_is_run_whatever_the_others_do(tmp_path, monkeypatch, capsys):
    save_index(tmp_path / "kernels", {"right": [CASE], "dies": [CASE], "hangs": [CASE]})
    assert read_index(tmp_path / "kernels")["dies"] == [CASE]

    def process(command, **options):
        name = command[-1]
        if name == "hangs":
            raise subprocess.TimeoutExpired(command, options["timeout"])
        code, said = {"right": (0, "{}"), "dies": (1, "")}[name]
        return subprocess.CompletedProcess(command, code, said, "Traceback\nan illegal access")

    monkeypatch.setattr(exactness.subprocess, "run", process)
    report = tmp_path / "exact.json"
    assert exactness.main(["--run", str(tmp_path), "--json", str(report), "--limit", "7"]) == 1
    assert json.loads(report.read_text()) == {
        "kernels right": {},
        "kernels dies": {"process": "it ended with 1: an illegal access"},
        "kernels hangs": {"process": "it did not end within 7 s"},
    }
    assert "3 cases, 2 wrong" in capsys.readouterr().out


def test_nothing_to_run_is_no_success(tmp_path):
    assert exactness.main(["--run", str(tmp_path)]) == 1
