"""The page of a log: every kernel and number is in it, and nothing is fetched from elsewhere."""

import json
import re
import shutil

import pytest

from relay_int8.errors import RecordError
from relay_int8.report.tuning_page import (
    COLOURS,
    rank_correlation,
    round_correlations,
    write_tuning_page,
)
from relay_int8.tuning.log_summary import log_summary
from relay_int8.tuning.trial_log import Log, read_manifest, read_trials
from relay_int8.tuning.tuner import Tuner
from relay_int8.tuning.winner import by_task, winner
from tests.pages import Reader, drawn
from tests.tuning.fake_device import VNNI, FakeDevice, conv_task, manifest

TASKS = (conv_task(64, occurrences=3), conv_task(128))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    pytest.importorskip("xgboost")
    log = Log(tmp_path_factory.mktemp("page") / "log", manifest(TASKS))
    Tuner(TASKS, VNNI, FakeDevice(), log, search="xgb").run(96)
    log.close()
    return log.folder


@pytest.fixture(scope="module")
def path(log):
    pytest.importorskip("plotly")
    path = log.parent / "page.html"
    write_tuning_page(log, path)
    return path


@pytest.fixture(scope="module")
def page(path):
    return Reader(path.read_text())


def test_no_two_lines_have_one_colour(path):
    assert len(set(COLOURS)) == len(COLOURS)
    found = re.findall(r'"line":\{"color":"(#\w{6})","shape":"hv"\}', path.read_text())
    assert len(found) == len(set(found)) == len(TASKS)


def test_nothing_is_fetched(page):
    page.require_whole()
    assert "@import" not in page.text


def test_every_kernel_is_there_with_its_numbers(page, log):
    ((header, *rows),) = page.tables
    assert len(rows) == len(TASKS)
    by_key, shares = by_task(read_trials(log)), []
    for task in TASKS:
        won = winner(by_key[task.key])
        row = next(dict(zip(header, row, strict=True)) for row in rows if row[0] == task.title)
        assert row["calls"] == str(task.occurrences)
        assert row["trials"] == str(len(by_key[task.key]))
        assert row["default us"] == f"{won.default_s * 1e6:.1f}"
        assert row["tuned us"] == f"{won.seconds * 1e6:.1f}"
        assert row["configuration"] == str(list(won.choices))
        macs = (
            9 * task.operator.in_channels**2 * 14**2
            - (4 * 14 * 3 - 4) * task.operator.in_channels**2
        )
        assert row["of peak"] == f"{macs / won.seconds / 2e12:.0%}"
        shares.append(float(row["of the time"].rstrip("%")))
    assert sum(shares) == pytest.approx(100, abs=0.1)


def test_totals_are_there(page, log):
    found = log_summary(read_manifest(log), read_trials(log))
    assert f"{found['untuned_us']:.1f} us by default, {found['tuned_us']:.1f} us tuned" in page.text
    assert f"{found['trials']}, 0 of them wrong; seed 1" in page.text


def test_the_model_is_judged_by_what_it_said_before(page, log):
    trials = read_trials(log)
    told = [trial for trial in trials if trial.predicted is not None]
    assert 0 < len(told) < len(trials)
    assert f"Over all {len(told)} the rank correlation" in page.text
    assert all(-1 <= value <= 1 for value in round_correlations(trials))


def test_a_model_that_chose_next_to_nothing_is_not_judged(log, tmp_path):
    few = shutil.copytree(log, tmp_path / "few")
    for path in few.glob("*.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        told = [line for line in lines if json.loads(line).get("predicted") is not None]
        path.write_text("".join(line for line in lines if line not in told[3:]))
    write_tuning_page(few, tmp_path / "few.html")
    text = Reader((tmp_path / "few.html").read_text()).text
    assert "The cost model chose 3 trials, too few to judge it by." in text


def test_figures_hold_every_trial(path):
    text = path.read_text()
    assert len(re.findall(r'class="plotly-graph-div"', text)) == 3
    for task in TASKS:
        assert f"{task.title}, {task.template}" in text


@pytest.mark.fast
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 2, 3], [10, 20, 90], 1),
        ([1, 2, 3], [3, 2, 1], -1),
        ([1, 2, 3, 4], [1, 1, 1, 1], 0),
        ([1, 2, 2, 3], [1, 3, 3, 4], 1),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),  # 1 - 6 * 4 / (5 * 24)
    ],
)
def test_rank_correlation(a, b, expected):
    assert rank_correlation(a, b) == pytest.approx(expected)


def test_a_folder_without_log_is_an_error(tmp_path):
    with pytest.raises(RecordError, match="it is no tuning log"):
        write_tuning_page(tmp_path, tmp_path / "page.html")


def test_a_browser_draws_it(path):
    assert drawn(path).text.count("main-svg") >= 3
