"""The tuner: trials are spent once, go where they pay, survive, and nothing wrong wins."""

import statistics
from collections import Counter

import pytest
from tvm.s_tir.meta_schedule.database import JSONDatabase

from relay_int8.errors import ConfigError
from relay_int8.tuning.cost_model import CostModel
from relay_int8.tuning.search import Search
from relay_int8.tuning.trial_log import Log, Trial, read_trials
from relay_int8.tuning.tuner import Tuner
from relay_int8.tuning.winner import by_task, winner
from schedules import space
from tests.tuning.fake_device import (
    VNNI,
    FakeDevice,
    conv_task,
    database_lines,
    manifest,
    seconds,
)

TASK = conv_task()


@pytest.fixture
def tuned(tmp_path):
    """Return a function that tunes into one folder, with the trials that it measured."""

    def run(
        trials, *, tasks=(TASK,), device=None, folder="log", resume=False, time_s=None, **options
    ):
        device = device or FakeDevice()
        log = Log(tmp_path / folder, manifest(tasks), resume=resume)
        options = {"search": "random"} | options
        limit = {} if time_s is None else {"seconds": time_s}
        Tuner(tasks, VNNI, device, log, **options).run(trials, **limit)
        log.close()
        return read_trials(log.folder), device

    return run


def candidates(trials):
    return [trial.choices for trial in trials if trial.choices is not None]


@pytest.mark.parametrize("search", ["xgb", "random", "grid"])
def test_no_candidate_is_measured_twice_but_finalists(tuned, search):
    if search == "xgb":
        pytest.importorskip("xgboost")
    trials, _ = tuned(40, search=search)
    counts = Counter(candidates(trials))
    assert len(counts) == 40
    assert sorted(counts.values())[-4:] == [1, 2, 2, 2]
    assert len([trial for trial in trials if trial.choices is None]) == 2


def test_the_same_seed_measures_the_same(tuned):
    pytest.importorskip("xgboost")
    one, _ = tuned(40, search="xgb", seed=3, folder="one")
    two, _ = tuned(40, search="xgb", seed=3, folder="two")
    other, _ = tuned(40, search="xgb", seed=4, folder="other")
    assert one == two != other


def test_without_time_only_defaults_are_measured_and_the_rest_later(tuned):
    trials, _ = tuned(20, time_s=0)
    assert [trial.choices for trial in trials] == [None]
    trials, _ = tuned(20, resume=True)
    assert len(set(candidates(trials))) == 20


def test_a_space_is_searched_to_its_end(tuned):
    trials, _ = tuned(10_000, search="grid")
    found = set(candidates(trials))
    assert found == set(space.points(TASK.kernel(VNNI)))
    assert winner(trials).seconds == min(map(seconds, found))


def test_wrong_candidates_are_recorded_and_never_chosen(tuned):
    points = sorted(space.points(TASK.kernel(VNNI)), key=seconds)
    trials, _ = tuned(10_000, search="grid", device=FakeDevice(wrong=points[:5]))
    wrong = {trial.choices for trial in trials if trial.measured.verdict == "wrong"}
    assert wrong == set(points[:5])
    assert winner(trials).choices == points[5]


def test_a_kernel_whose_default_is_wrong_is_not_tuned(tuned):
    trials, _ = tuned(20, device=FakeDevice(wrong=[None]))
    assert [trial.choices for trial in trials] == [None]


@pytest.mark.parametrize("done", [1, 16, 23])
def test_a_resumed_run_measures_what_was_missing(tuned, done):
    tuned(done)
    trials, device = tuned(50, resume=True)
    missing = {choices for _, choices in device.measured if choices is not None}
    assert len(set(candidates(trials))) == 50
    assert len(missing - set(candidates(trials[: done + 1]))) == 50 - done


def test_what_a_resumed_run_finds_can_win(tuned):
    first, _ = tuned(5)
    trials, _ = tuned(10_000, resume=True)
    best = min(map(seconds, space.points(TASK.kernel(VNNI))))
    assert winner(trials).seconds == best < winner(first).seconds


def test_a_finished_run_resumed_measures_nothing(tuned):
    before, _ = tuned(30)
    after, device = tuned(30, resume=True)
    assert after == before
    assert device.measured == []


def test_trials_go_where_the_time_is(tuned):
    heavy, light = conv_task(256, occurrences=9), conv_task(128)
    trials, _ = tuned(96, tasks=(light, heavy))
    counts = {key: len(found) for key, found in by_task(trials).items()}
    assert counts[heavy.key] > 2 * counts[light.key] > 0


def test_metaschedule_reads_the_database(tuned, tmp_path):
    trials, _ = tuned(20)
    folder = tmp_path / "log"
    assert database_lines(folder) == len(trials)
    database = JSONDatabase(work_dir=str(folder))
    records = database.get_all_tuning_records()
    best = min(float(seconds) for record in records for seconds in record.run_secs)
    assert best == min(trial.measured.best_s for trial in trials)


def test_the_database_follows_the_trials(tuned, tmp_path):
    tuned(20)
    path = tmp_path / "log" / "database_tuning_record.json"
    path.write_text(path.read_text()[:-30])
    trials, _ = tuned(24, resume=True)
    assert database_lines(tmp_path / "log") == len(trials)
    JSONDatabase(work_dir=str(tmp_path / "log"))


def trials_needed(search, seed, model=None, most=400):
    """Return how many candidates it takes to 95 % of the best speed, 8 at a time."""
    searched = Search(TASK.kernel(VNNI), TASK, search, model, seed)
    goal_s = min(map(seconds, searched.points)) / 0.95
    device, trials = FakeDevice(), []
    while len(trials) < most:
        proposed = searched.propose(trials, 8)
        for choices, measured in zip(proposed, device.measure(TASK, proposed), strict=True):
            trials.append(Trial(task=TASK.key, choices=choices, measured=measured))
            if measured.best_s <= goal_s:
                return len(trials)
        if model:
            model.learn(TASK, trials)
    return most


def test_the_model_needs_fewer_trials_than_chance():
    """Median of five seeds."""
    pytest.importorskip("xgboost")
    seeds = range(1, 6)
    by_model = statistics.median(trials_needed("xgb", seed, CostModel(seed)) for seed in seeds)
    by_chance = statistics.median(trials_needed("random", seed) for seed in seeds)
    assert by_model <= 64
    assert by_model < by_chance


def test_what_another_network_taught_shortens_the_search():
    pytest.importorskip("xgboost")
    teacher = conv_task(128)
    points = Search(teacher.kernel(VNNI), teacher, "random", None, 1).propose([], 100)
    measured = FakeDevice().measure(teacher, points)
    lesson = [
        Trial(task=teacher.key, choices=choices, measured=result)
        for choices, result in zip(points, measured, strict=True)
    ]
    warm = CostModel(1)
    warm.learn(teacher, lesson)
    assert trials_needed("xgb", 1, warm) <= min(16, trials_needed("xgb", 1, CostModel(1)))


def test_kernels_with_other_kinds_of_choices_have_a_model_of_their_own():
    pytest.importorskip("xgboost")
    model = CostModel(1)
    numbers = [((4, 2), (7, 1), size) for size in range(1, 9)]
    tiles = [((4, 2), (7, 1), (size, 1)) for size in range(1, 9)]
    for task, points in ((TASK, numbers), (conv_task(128), tiles)):
        measured = FakeDevice().measure(task, numbers)
        trials = [
            Trial(task=task.key, choices=choices, measured=result)
            for choices, result in zip(points, measured, strict=True)
        ]
        model.learn(task, trials)
    for task, points in ((TASK, numbers), (conv_task(128), tiles)):
        shares = model.predict(task, points)
        assert shares is not None and shares.shape == (8,)


def test_an_unknown_search_is_refused():
    with pytest.raises(ConfigError, match="search 'luck' is unknown; choose one of xgb, random"):
        Search(TASK.kernel(VNNI), TASK, "luck", None, 1)


def test_winners_of_similar_kernels_are_tried_first():
    pytest.importorskip("xgboost")
    search = Search(TASK.kernel(VNNI), TASK, "xgb", CostModel(1), 1)
    one, two = search.points[17], search.points[40]
    assert search.propose([], 4, [one, two])[:2] == [one, two]
    measured = FakeDevice().measure(TASK, [one])[0]
    seen = [Trial(task=TASK.key, choices=one, measured=measured)]
    assert search.propose(seen, 4, [one, two])[0] == two
    assert one not in search.propose(seen, 100, [one, two])


def test_choices_of_another_shape_become_the_nearest_there_are():
    pytest.importorskip("xgboost")
    search = Search(TASK.kernel(VNNI), TASK, "xgb", CostModel(1), 1)
    (first,) = search.propose([], 1, [((9, 5), (9, 5), 3)])
    assert first in search.points
    assert first == ((4, 4), (2, 7), 3)


def test_a_tuner_tries_what_won_elsewhere(tuned, tmp_path):
    pytest.importorskip("xgboost")
    other = conv_task(128)
    best = min(space.points(TASK.kernel(VNNI)), key=seconds)
    points = list(space.points(other.kernel(VNNI)))
    measured = FakeDevice().measure(other, points)
    taught = [
        Trial(task=other.key, choices=choices, measured=each)
        for choices, each in zip(points, measured, strict=True)
    ]
    trials, _ = tuned(4, search="xgb", warm=[(other, taught)])
    assert seconds(candidates(trials)[0]) <= 1.1 * seconds(best)
