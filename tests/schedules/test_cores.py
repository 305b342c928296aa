"""Cores that a process may use, in made-up control groups."""

import os

import pytest

from schedules.cores import usable_cores
from schedules.targets import named_target

pytestmark = pytest.mark.fast


@pytest.fixture
def eight(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("", {}, 8),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2),  # 2.5 cores: the third would be stopped
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "1600000 100000\n"}, 8),
        # The strictest of a group and those above it counts.
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
        (
            "3:cpu,cpuacct:/docker/x\n0::/y\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            4,
        ),
        (
            "3:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            8,
        ),
        ("0::/\n", {"cpu.max": "nonsense"}, 8),
    ],
)
def test_the_least_of_affinity_and_quotas(tmp_path, membership, files, cores):
    (tmp_path / "self").write_text(membership)
    for name, text in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(text)
    assert usable_cores(tmp_path / "self", tmp_path / "fs") == cores


def test_native_counts_them(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert int(named_target("native").attrs["num-cores"]) == 1
