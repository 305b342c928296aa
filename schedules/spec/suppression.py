"""Non-maximum suppression of boxes: which candidates of a detector are kept, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedules.spec.operator_spec import OperatorSpec, Shape, Size


@dataclass(frozen=True, kw_only=True)
class Suppression(OperatorSpec):
    """The candidates that greedy suppression keeps of each image, in falling order of scores.

    boxes float32 (batch, boxes, 4): two opposite corners, the lower coordinates first. scores
    float32 (batch, classes, boxes): each score is a candidate, number ``class * boxes + box``. With
    ``labelled`` a box has a label too: float32 (batch, boxes), of ``classes`` 1. y int32 (batch,
    max_output): numbers of candidates, -1 behind the last one.

    Candidates with ``score > least`` are looked at from the highest score on, of equal ones from
    the lowest number on. One is kept unless a kept one of the same class and label overlaps it by
    more than ``overlap`` (with ``inclusive`` also by exactly that). Of each class only the first
    ``top_k`` may be kept, and at most ``max_per_class`` are; 0 for all. With ``lists_all`` y has
    those that are not kept too, each in its place, as ``-2 - number``.

    Without ``compares`` there are no boxes and no overlap: nothing suppresses, and the first
    candidates are kept. So the highest scores are found, or of a mask of zeros and ones the places.

    Candidate a and a kept b overlap by ``i / fma(w_a, h_a, fma(w_b, h_b, -i))``, a float32
    quotient, with extents ``w = max(x_1 - x_0, 0)``, and h alike; i is the product of the extents
    that they have in common. Boxes without an area do not overlap (0 / 0 is above no number).

    Params: least, overlap float32 (1,).

    Raises
    ------
    ValueError
        Labels or listed candidates, and nothing that suppresses.
    """

    kind: ClassVar[str] = "suppression"
    batch: Size
    boxes: int
    classes: int = 1
    labelled: bool = False
    max_output: int
    max_per_class: int = 0
    top_k: int = 0
    compares: bool = True
    inclusive: bool = False
    lists_all: bool = False

    def __post_init__(self) -> None:
        if not self.compares and (self.labelled or self.lists_all):
            raise ValueError("labels and suppressed candidates are of boxes that are compared")

    @property
    def candidates(self) -> int:
        """Number of scores of an image."""
        return self.classes * self.boxes

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        boxes = ("boxes",) if self.compares else ()
        return (*boxes, "scores", *(("labels",) if self.labelled else ()))

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("least", "overlap") if self.compares else ("least",)

    @property
    def zero_points(self) -> tuple[str, ...]:
        """Return none: nothing is quantized."""
        return ()

    def shape(self, name: str) -> Shape:
        """Logical shape of an activation, or of y."""
        sizes = {
            "boxes": (self.boxes, 4),
            "scores": (self.classes, self.boxes),
            "labels": (self.boxes,),
            "y": (self.max_output,),
        }
        return (self.batch, *sizes[name])

    def dtype(self, name: str) -> str:
        """Element type of an activation, or of y."""
        return "int32" if name == "y" else "float32"
