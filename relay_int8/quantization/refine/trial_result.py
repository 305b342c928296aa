"""The result of a configuration on held-out images: decibels, and the user's metric if any.

A metric decides before decibels do. An answer that lowers it is not better, however many decibels
it gains; a fall of less than ``TIE`` of what the other answer has lost to FP32 is none. One that
raises it on each half of the images is better, however many decibels it loses:
of two answers that are as good, one is ahead on both halves in at most a quarter of cases, and in
fewer where a metric of few images has steps. Rises above FP32 are none, since rounding improves a
network by luck alone. Any other gain of the metric may be chance, and decibels decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relay_int8.numerics.judgement import Judgement
from relay_int8.quantization.metric import ROUNDING, mean_score

TIE = 0.1
"""Of a loss. Metrics that are no shares of images, as mean-iou, are never quite equal, and a fall
of a hundredth of the loss would outweigh a decibel (decision 81)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialResult:
    """The judgement of an answer on one half of the images, or on both.

    Parameters
    ----------
    judgement
        By decibels, on all of these images.
    scores
        What the metric says of each half; none without a metric.
    float_scores
        What it says of FP32.
    images
        How many each half has.
    """

    judgement: Judgement
    scores: tuple[float, ...] = ()
    float_scores: tuple[float, ...] = ()
    images: tuple[int, ...] = ()

    @classmethod
    def joined(cls, parts: Sequence[TrialResult]) -> TrialResult:
        """Return the result on the images of several ones, in their order."""
        return cls(
            judgement=Judgement.joined([part.judgement for part in parts]),
            scores=tuple(score for part in parts for score in part.scores),
            float_scores=tuple(score for part in parts for score in part.float_scores),
            images=tuple(count for part in parts for count in part.images),
        )

    @property
    def ratio_db(self) -> float:
        """Signal-to-noise ratio of the least exact output over all images."""
        return self.judgement.ratio_db

    @property
    def score(self) -> float | None:
        """What the metric says of all images, None without one."""
        return mean_score(self.scores, self.images) if self.scores else None

    def beats(self, other: TrialResult, by_db: float) -> bool:
        """Return whether this one is better, by its metric or by more than ``by_db``."""
        if self.scores:
            if self._falls_from(other):
                return False
            if len(self.scores) > 1 and self._rises_from(other):
                return True
        return self.judgement.beats(other.judgement, by_db)

    def _falls_from(self, other: TrialResult) -> bool:
        """Say whether the metric is lower over all images, by more than a tie."""
        mine, its, floats = (
            mean_score(scores, self.images)
            for scores in (self.scores, other.scores, self.float_scores)
        )
        return its - mine > max(TIE * (floats - its), ROUNDING)

    def _rises_from(self, other: TrialResult) -> bool:
        """Say whether the metric is higher on each half, what is above FP32 left out."""
        gains = zip(self.scores, self.float_scores, other.scores, strict=True)
        return all(min(mine, most) > its + ROUNDING for mine, most, its in gains)
