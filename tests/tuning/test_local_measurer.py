"""Measuring: traps of every kind cost one trial each, and no result of theirs counts."""

import dataclasses

import pytest

from relay_int8.tuning.batch import Timing
from relay_int8.tuning.local_measurer import LocalMeasurer
from schedules.spec import to_json
from schedules.targets import native_target, target_config
from tests.tuning import planted

TIMING = Timing(repeats=2, repeat_ms=1)
VERDICTS = {
    planted.RIGHT: "ok",
    planted.HANG: "lost",
    planted.WRONG: "wrong",
    planted.CRASH: "lost",
    planted.REFUSED: "refused",
    planted.BROKEN: "failed",
    planted.OVERRUN: "lost",
    planted.ALSO_RIGHT: "ok",
}


@pytest.fixture(scope="module")
def measured():
    candidates = [None, *((choice,) for choice in VERDICTS)]
    measurer = LocalMeasurer(
        target_config(native_target()),
        timing=TIMING,
        workers=1,
        start_s=60,
        compile_s=1.5,
        run_s=10,
        catalog="tests.tuning.planted",
    )
    with measurer:
        measurer.measure(planted.TASK, [None])  # starts the process
        return dict(zip([None, *VERDICTS], measurer.measure(planted.TASK, candidates), strict=True))


def test_every_trap_costs_one_trial(measured):
    assert measured[None].verdict == "ok"
    assert {choice: measured[choice].verdict for choice in VERDICTS} == VERDICTS


def test_reasons_say_what_happened(measured):
    assert "outputs are wrong, the first at (0, " in measured[planted.WRONG].reason
    assert measured[planted.CRASH].reason == "compiling crashed (exit code 3)"
    assert measured[planted.HANG].reason.startswith("compiling took longer than")
    assert measured[planted.REFUSED].reason == "no such tiles"
    assert "LLVM does not like it" in measured[planted.BROKEN].reason
    assert measured[planted.OVERRUN].reason.startswith("running crashed (exit code -")


def test_only_right_candidates_have_times(measured):
    for choice, verdict in VERDICTS.items():
        result = measured[choice]
        assert (len(result.seconds) == TIMING.repeats) == (verdict == "ok")
        assert (result.best_s < 1) == (verdict == "ok")


def test_defaults_of_several_tasks_are_measured():
    small = dataclasses.replace(planted.SPEC, dims=(1, 16))
    tasks = [planted.TASK, dataclasses.replace(planted.TASK, spec=to_json(small)), planted.TASK]
    config = target_config(native_target())
    with LocalMeasurer(
        config, timing=TIMING, workers=2, start_s=60, catalog="tests.tuning.planted"
    ) as measurer:
        assert [found.verdict for found in measurer.defaults(tasks)] == ["ok"] * 3
