"""Which of two answers is better, by a metric first."""

import numpy as np
import pytest

from relay_int8.numerics.judgement import Judgement
from relay_int8.quantization.refine.trial_result import TrialResult

pytestmark = pytest.mark.fast
HALVES = (8, 8)
FP32 = (0.75, 0.75)


def result(ratio_db, scores=()):
    noise = np.full((4, 1), 10 ** (-ratio_db / 10))
    return TrialResult(
        judgement=Judgement(signal=np.ones((4, 1)), noise=noise),
        scores=scores,
        float_scores=FP32[: len(scores)],
        images=HALVES[: len(scores)],
    )


@pytest.mark.parametrize(
    ("mine", "its", "expected"),
    [
        # Without a metric: decibels.
        ((21, ()), (20, ()), True),
        ((20, ()), (21, ()), False),
        # The metric falls: no decibels make up for it.
        ((30, (0.5, 0.5)), (20, (0.5, 0.625)), False),
        ((30, (0.75, 0.25)), (20, (0.5, 0.625)), False),
        # It rises on both halves: no decibels are asked for.
        ((10, (0.625, 0.75)), (20, (0.5, 0.625)), True),
        # It stays, or rises on one half alone: decibels.
        ((21, (0.5, 0.5)), (20, (0.5, 0.5)), True),
        ((19, (0.5, 0.5)), (20, (0.5, 0.5)), False),
        ((19, (0.75, 0.5)), (20, (0.5, 0.5)), False),
        ((21, (0.75, 0.5)), (20, (0.5, 0.5)), True),
        ((21, (0.75, 0.375)), (20, (0.5, 0.5)), True),
        ((19, (0.75, 0.375)), (20, (0.5, 0.5)), False),
        # A fall of less than a tenth of what the other has lost to FP32 is a tie: decibels.
        ((21, (0.49, 0.49)), (20, (0.5, 0.5)), True),
        ((19, (0.49, 0.49)), (20, (0.5, 0.5)), False),
        ((21, (0.47, 0.47)), (20, (0.5, 0.5)), False),
        ((21, (0.749, 0.75)), (20, (0.75, 0.75)), False),
        # Above FP32 there is nothing to gain, but something to lose.
        ((19, (0.875, 0.875)), (20, (0.75, 0.5)), False),
        ((19, (0.875, 0.875)), (20, (0.625, 0.5)), True),
        ((21, (0.875, 0.875)), (20, (0.75, 0.75)), True),
        ((30, (0.75, 0.75)), (20, (0.875, 0.75)), False),
        # What rounding makes of equal means is no fall.
        ((21, (0.1 + 0.2, 0.3)), (20, (0.3, 0.1 + 0.2)), True),
        # On one half a rise may be chance: no more than decibels decide.
        ((10, (0.75,)), (20, (0.5,)), False),
        ((30, (0.25,)), (20, (0.5,)), False),
    ],
)
def test_beats(mine, its, expected):
    assert result(*mine).beats(result(*its), 0.1) is expected


def test_halves_of_unequal_sizes():
    joined = TrialResult.joined(
        [
            TrialResult(
                judgement=result(20).judgement, scores=(0.5,), float_scores=(0.6,), images=(3,)
            ),
            TrialResult(
                judgement=result(20).judgement, scores=(1.0,), float_scores=(0.9,), images=(1,)
            ),
        ]
    )
    assert joined.float_scores == (0.6, 0.9)
    assert joined.score == 0.625 and joined.scores == (0.5, 1.0)
    assert joined.ratio_db == pytest.approx(20) and len(joined.judgement.signal) == 8
    assert TrialResult.joined([result(20)]).score is None
