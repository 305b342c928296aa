"""Searches replayed on a table: they see its times, and are counted to the first good one."""

import pytest

from benchmarks.tuning import GOALS, LAYERS, poorest, report, task_of, trials_needed
from relay_int8.tuning.batch import Measured
from relay_int8.tuning.trial_log import Trial
from schedules import space
from tests.tuning.fake_device import VNNI, seconds

TASK = task_of("conv4", VNNI)


def table(times):
    """Return a trial of each schedule of the space; None is a schedule that is wrong."""
    found = []
    for choices, time_s in times.items():
        measured = (
            Measured(verdict="ok", seconds=(time_s,)) if time_s else Measured(verdict="wrong")
        )
        found.append(Trial(task=TASK.key, choices=choices, measured=measured))
    return found


@pytest.fixture(scope="module")
def times():
    return {choices: seconds(choices) for choices in space.points(TASK.kernel(VNNI))}


def test_every_layer_has_a_space():
    for name in LAYERS:
        size = space.size(task_of(name, VNNI).kernel(VNNI))
        assert size is None or size > 64, name  # None: too many to count


def test_the_poor_start_is_the_slowest_right_one(times):
    slowest = max(times, key=times.get)
    assert poorest(table(times)).choices == slowest
    assert poorest(table(times | {slowest: None})).choices != slowest


@pytest.mark.parametrize("search", ["random", "xgb"])
def test_a_search_is_counted_to_its_first_good_trial(times, search):
    if search == "xgb":
        pytest.importorskip("xgboost")
    needed = trials_needed(table(times), TASK, VNNI, search, 3, GOALS[0])
    good = sum(time_s <= min(times.values()) / GOALS[0] for time_s in times.values())
    assert 1 <= needed <= len(times) - good
    assert needed == trials_needed(table(times), TASK, VNNI, search, 3, GOALS[0])


def test_one_good_schedule_is_found_by_trying_all_others_at_most(times):
    only = next(iter(times))
    flat = {choices: 1.0 for choices in times} | {only: 0.1}
    flat[max(times, key=times.get)] = 2.0
    assert 1 <= trials_needed(table(flat), TASK, VNNI, "random", 1, GOALS[0]) <= len(times) - 1


def test_what_is_not_in_the_table_costs_nothing(times):
    few = dict(list(times.items())[::20])
    assert trials_needed(table(few), TASK, VNNI, "random", 1, GOALS[0]) <= len(few)


def test_report_says_the_space_the_start_and_the_counts(times):
    pytest.importorskip("xgboost")
    default = Trial(task=TASK.key, choices=None, measured=Measured(verdict="ok", seconds=(3e-4,)))
    text = report("conv4", [default, *table(times)], TASK, VNNI, 1)
    assert f"{len(times)} schedules" in text
    assert f"best {min(times.values()) * 1e6:.1f} us, default 300.0 us" in text
    assert "xgb" in text and "random" in text
