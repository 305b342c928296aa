"""Which candidate wins: one that was right, and clearly faster while it took turns with the default."""

import pytest

from relay_int8.tuning.batch import Measured
from relay_int8.tuning.trial_log import Trial
from relay_int8.tuning.winner import compared, winner

ONE, TWO = (1,), (2,)
pytestmark = pytest.mark.fast


def trial(choices, *seconds, verdict="ok", final=False):
    measured = Measured(verdict=verdict, seconds=seconds if verdict == "ok" else ())
    return Trial(task="k", choices=choices, measured=measured, final=final)


def final(choices, *seconds, **how):
    return trial(choices, *seconds, final=True, **how)


MEASURED = [trial(None, 10.0), trial(ONE, 8.0), trial(TWO, 9.0)]


def test_without_a_comparison_the_default_loses_to_much_faster_ones_only():
    assert winner(MEASURED).choices == ONE
    assert winner([trial(None, 10.0), trial(ONE, 9.6)]).choices is None
    assert winner([trial(None, 10.0), trial(ONE, 9.4)]).choices == ONE


def test_what_was_lucky_alone_does_not_win_against_the_default_in_turns():
    trials = [*MEASURED, final(None, 10.0, 11.0, 12.0), final(ONE, 9.95, 10.9, 11.9)]
    assert winner(trials).choices is None


def test_a_comparison_counts_rounds_not_moments():
    """The machine was slow in the last round: for both."""
    trials = [*MEASURED, final(None, 10.0, 10.0, 30.0), final(ONE, 9.0, 9.0, 27.0)]
    found = winner(trials)
    assert (found.choices, found.default_s) == (ONE, 10.0)
    assert found.seconds == pytest.approx(9.0)


def test_the_best_in_turns_wins_whatever_was_measured_before():
    trials = [*MEASURED, final(None, 10.0), final(ONE, 9.5), final(TWO, 9.0)]
    assert compared(trials) == pytest.approx({ONE: 0.95, TWO: 0.9})
    assert winner(trials).choices == TWO


def test_each_comparison_has_its_own_default():
    trials = [*MEASURED, final(None, 10.0), final(ONE, 9.5), final(None, 20.0), final(TWO, 18.0)]
    assert compared(trials) == pytest.approx({ONE: 0.95, TWO: 0.9})


@pytest.mark.parametrize("verdict", ["wrong", "lost", "failed"])
def test_what_fails_in_the_comparison_is_out(verdict):
    trials = [*MEASURED, final(None, 10.0), final(ONE, verdict=verdict), final(TWO, 9.0)]
    assert winner(trials).choices == TWO


def test_a_comparison_that_was_lost_makes_nobody_win():
    lost = [final(choices, verdict="lost") for choices in (None, ONE, TWO)]
    found = winner([*MEASURED, *lost])
    assert (found.choices, found.default_s) == (None, 10.0)


def test_a_wrong_default_has_no_time():
    found = winner([trial(None, verdict="wrong"), trial(ONE, 1.0)])
    assert (found.choices, found.default_s) == (None, float("inf"))
