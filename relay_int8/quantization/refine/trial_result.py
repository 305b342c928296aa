"""How an answer did on images not seen: decibels, and the user's metric where there is one.

A metric decides before decibels do. An answer that lowers it is not better, however many decibels
it gains. One that raises it on each half of the images is better, however many decibels it loses:
of two answers that are as good, one is ahead on both halves in at most a quarter of cases, and in
fewer where a metric of few images has steps. Any other gain of the metric may be chance, and
decibels decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relay_int8.numerics.judgement import Judgement
from relay_int8.quantization.metric import ROUNDING, mean_score


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialResult:
    """The judgement of an answer on one half of the images, or on both.

    Parameters
    ----------
    judgement
        By decibels, on all of these images.
    scores
        What the metric says of each half; none without a metric.
    images
        How many each half has.
    """

    judgement: Judgement
    scores: tuple[float, ...] = ()
    images: tuple[int, ...] = ()

    @classmethod
    def joined(cls, parts: Sequence[TrialResult]) -> TrialResult:
        """Return the result on the images of several ones, in their order."""
        return cls(
            judgement=Judgement.joined([part.judgement for part in parts]),
            scores=tuple(score for part in parts for score in part.scores),
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
        if self.score is not None and other.score is not None:
            if self.score < other.score - ROUNDING:
                return False
            pairs = list(zip(self.scores, other.scores, strict=True))
            if len(pairs) > 1 and all(mine > its + ROUNDING for mine, its in pairs):
                return True
        return self.judgement.beats(other.judgement, by_db)
