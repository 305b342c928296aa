"""Held-out images of a trial: the outputs of FP32 for them, and the scores of other outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from relay_int8.data.dataset import Image
from relay_int8.numerics.judgement import Judgement
from relay_int8.quantization.metric import BoundMetric
from relay_int8.quantization.refine.float_tensors import FloatTensors
from relay_int8.quantization.refine.parallel import in_parallel
from relay_int8.quantization.refine.simulation import Arrays
from relay_int8.quantization.refine.trial_result import TrialResult


class HeldOut:
    """Images that are no part of the half which a network is quantized with.

    Parameters
    ----------
    floats
        Tensors of the float network on the other half.
    others
        Images that are in neither half.
    numbers
        Which images of the data these are, the other half's first.
    metric
        With labels of all of the data, or none; None: outputs are judged by decibels alone.
    """

    def __init__(
        self,
        floats: FloatTensors,
        others: Sequence[Image],
        numbers: Sequence[int],
        metric: BoundMetric | None,
    ) -> None:
        self._tensors = floats
        self._others = others
        self._metric = metric
        self._numbers = numbers

    @cached_property
    def runs(self) -> list[tuple[Arrays, Arrays]]:
        """The images in stacks, and what FP32 gives for them."""
        floats = self._tensors
        seen = [(floats.inputs(i), floats.outputs(i)) for i in range(len(floats))]
        stacks = list(floats.network.images(self._others))
        outputs = in_parallel(floats.network.run, stacks)
        return [*seen, *zip(stacks, outputs, strict=True)]

    @cached_property
    def float_score(self) -> float:
        """What the metric says of FP32; there is one."""
        return self._score([floats for _, floats in self.runs])

    def judgement(self, outputs: list[Arrays]) -> Judgement:
        """Return how near outputs are to FP32, stacked as :attr:`runs` are."""
        return Judgement.of(zip([floats for _, floats in self.runs], outputs, strict=True))

    def result(self, judgement: Judgement, outputs: list[Arrays]) -> TrialResult:
        """Return a judgement with what the metric says of the same outputs, if there is one."""
        if self._metric is None:
            return TrialResult(judgement=judgement)
        return TrialResult(
            judgement=judgement,
            scores=(self._score(outputs),),
            float_scores=(self.float_score,),
            images=(len(self._numbers),),
        )

    def _score(self, outputs: list[Arrays]) -> float:
        assert self._metric is not None
        labels = self._metric.labels
        references: Iterable[Any] = (
            self._single([floats for _, floats in self.runs])
            if labels is None
            else [labels[number] for number in self._numbers]
        )
        return self._metric.score(self._single(outputs), references)

    def _single(self, stacks: Iterable[Arrays]) -> Iterator[Arrays]:
        """Yield the outputs of one image after the other, in the shapes of the network."""
        network = self._tensors.network
        for stack in stacks:
            for number in range(len(stack[network.outputs[0]])):
                yield {
                    name: stack[name][number].reshape(network.shapes[name])
                    for name in network.outputs
                }
