"""Spaces of GPUs: looked at when a kernel's turn comes, and no trial goes to what cannot run."""

import contextlib

import pytest

from relay_int8.tuning import metaschedule_database, search
from relay_int8.tuning.cost_model import CostModel
from relay_int8.tuning.metaschedule_database import Database
from relay_int8.tuning.search import Search
from relay_int8.tuning.trial_log import Log, Trial
from relay_int8.tuning.tuner import Tuner
from schedules import space
from schedules.spec import Conv2d, to_json
from schedules.targets import named_target
from schedules.task import Task
from schedules.template import ScheduleError
from tests.tuning.fake_device import VNNI, FakeDevice, conv_task, database_lines, manifest

SM_90 = named_target("sm_90")
SPEC = Conv2d(
    batch=1, in_channels=64, out_channels=64, height=28, width=28, kernel=(3, 3),
    padding=(1, 1, 1, 1), x="uint8", y="uint8",
)  # fmt: skip
DP4A = Task(template="conv2d_dp4a", spec=to_json(SPEC), layouts=("NCHW4c", "NCHW4c"))
MMA = Task(template="conv2d_mma", spec=to_json(SPEC), layouts=("NCHW32c", "NCHW32c"))


def test_nothing_is_listed_before_the_first_trial(tmp_path, monkeypatch):
    class FirstTrialError(Exception):
        pass

    class Device(FakeDevice):
        def defaults(self, tasks):
            raise FirstTrialError

    monkeypatch.setattr(search, "points", lambda _: pytest.fail("a space is listed"))
    monkeypatch.setattr(search, "first", lambda _: pytest.fail("a space is looked at"))
    log = Log(tmp_path, manifest([DP4A, MMA]))
    with contextlib.closing(log), pytest.raises(FirstTrialError):
        Tuner([DP4A, MMA], SM_90, Device(), log, search="random").run(1)


def test_a_large_space_is_never_listed(monkeypatch):
    monkeypatch.setattr(search, "points", lambda _: pytest.fail("a space is listed"))
    searched = Search(DP4A.kernel(SM_90), DP4A, "random", None, 1)
    assert len(searched.propose([], 2)) == 2
    assert searched.points is None


def measured(points):
    """Return trials that say that the first point is the fastest, the next the second, ..."""
    results = FakeDevice().measure(conv_task(), [None] * len(points))
    return [
        Trial(task=DP4A.key, choices=choices, measured=result)
        for choices, result in zip(points, results, strict=True)
    ]


def test_every_proposal_can_run():
    """Six by chance, then three by a model."""
    pytest.importorskip("xgboost")
    model, kernel = CostModel(1), DP4A.kernel(SM_90)
    searched = Search(kernel, DP4A, "xgb", model, 1)
    first = searched.propose([], 6)
    model.learn(DP4A, measured(first))
    assert model.predict(DP4A, first) is not None
    second = searched.propose(measured(first), 3)
    assert len({*first, *second}) == 9
    for choices in (*first, *second):
        space.point(kernel, choices)


def test_a_kernel_of_which_no_point_can_run_is_left(monkeypatch):
    def _refused(kernel, choices):
        raise ScheduleError("too large")

    monkeypatch.setattr(search, "point", _refused)
    monkeypatch.setattr(search, "DRAWS", 2)
    assert Search(DP4A.kernel(SM_90), DP4A, "random", None, 1).propose([], 3) == []


@pytest.mark.parametrize(("task", "target"), [(conv_task(), VNNI), (conv_task(64, 28), VNNI)])
def test_the_estimate_of_a_size_is_near(task, target):
    kernel = task.kernel(target)
    exact = len(list(space.points(kernel)))
    assert exact / 2 <= space.estimated_size(kernel) <= exact * 2


def test_the_database_gets_only_what_it_lacks(tmp_path, monkeypatch):
    task = conv_task()
    choices = list(space.points(task.kernel(VNNI)))[:4]
    trials = [
        Trial(task=task.key, choices=each, measured=result)
        for each, result in zip(choices, FakeDevice().measure(task, choices), strict=True)
    ]
    Database(tmp_path, {task.key: task}, VNNI, trials[:3])
    path = tmp_path / "database_tuning_record.json"
    before = path.read_text()
    path.write_text(before[:-20])  # killed while it wrote the third
    made = []
    point = metaschedule_database.point
    monkeypatch.setattr(
        metaschedule_database, "point", lambda *given: made.append(given) or point(*given)
    )
    Database(tmp_path, {task.key: task}, VNNI, trials)
    assert len(made) == 2  # the third again, and the fourth
    assert database_lines(tmp_path) == 4
    assert path.read_text().startswith(before)
