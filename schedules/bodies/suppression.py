"""Parts of non-maximum suppression: the order of candidates, and how much two boxes overlap.

The definition is that of ``schedules.spec.suppression``; kernels differ in how they find the next
candidate.

Exact:  the only float product that feeds a sum is an operand of fma.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate, declare_arguments, flat
from schedules.bodies.vectors import fma
from schedules.spec import Suppression

LARGEST = 2**31 - 1


def refuses(spec: Suppression) -> str | None:
    """Say why no kernel computes ``spec``, or None."""
    if spec.candidates * 4 > LARGEST:
        return f"it has {spec.candidates} candidates; the most are {LARGEST // 4}"
    return None


def limits(spec: Suppression) -> dict[str, int]:
    """Return what is counted of each class, and how far: only what has a limit."""
    known = {"looked_at": spec.top_k, "taken": spec.max_per_class}
    return {name: limit for name, limit in known.items() if limit}


def declare(spec: Suppression) -> dict[str, Any]:
    """Declare the arguments of the kernel that is being built, in order."""
    return declare_arguments(
        {
            **{name: (spec.shape(name), "float32") for name in spec.tensors},
            **{name: ((1,), "float32") for name in spec.params},
            "y": (spec.shape("y"), "int32"),
        }
    )


class Scalar:
    """A variable of the kernel that is being built: memory of one element."""

    def __init__(self, name: str, dtype: str, scope: str) -> None:
        self._buffer = allocate(name, (1,), dtype, scope)

    @property
    def value(self) -> Expr:
        """Return what it holds; each use reads it anew."""
        return self._buffer[T.int64(0)]

    def set(self, value: Expr) -> None:
        """Emit the assignment."""
        T.buffer_store(self._buffer, value, [T.int64(0)])

    def increment(self) -> None:
        """Emit that it grows by one."""
        self.set(self.value + 1)


class Candidates:
    """The candidates of one image, by number, int32.

    Parameters
    ----------
    spec
        What is computed.
    buffers
        The kernel's arguments.
    image
        Number of the image, int64.
    """

    def __init__(self, spec: Suppression, buffers: dict[str, Any], image: Expr) -> None:
        self.spec = spec
        self._image = image
        self._scores = flat(buffers["scores"])
        self._boxes = flat(buffers["boxes"]) if spec.compares else None
        self._labels = flat(buffers["labels"]) if spec.labelled else None
        self._overlap = buffers["overlap"][T.int64(0)] if spec.compares else None
        self.least = buffers["least"][T.int64(0)]

    def score(self, number: Expr) -> Expr:
        """Return the score of a candidate."""
        return self._scores[self._image * self.spec.candidates + number.astype("int64")]

    def row(self, number: Expr) -> Expr:
        """Return the class of a candidate."""
        return tirx.truncdiv(number, tirx.const(self.spec.boxes, "int32"))

    def precedes(self, a: Expr, b: Expr) -> Expr:
        """Say whether candidate ``a`` is looked at before ``b``."""
        return precedes(self.score(a), a, self.score(b), b)

    def suppresses(self, kept: Expr, number: Expr) -> Expr:
        """Say whether a kept candidate suppresses another one."""
        spec = self.spec
        shared = self._overlap_of(self._box(number), self._box(kept))
        overlaps = shared >= self._overlap if spec.inclusive else shared > self._overlap
        alike = []
        if spec.classes > 1:
            alike.append(self.row(kept).equal(self.row(number)))
        if self._labels is not None:
            alike.append(self._label(kept).equal(self._label(number)))
        return tirx.all(*alike, overlaps)

    def _box(self, number: Expr) -> Expr:
        """Return the number of a candidate's box among those of all images, int64."""
        box = number if self.spec.classes == 1 else tirx.truncmod(number, self._count)
        return self._image * self.spec.boxes + box.astype("int64")

    @property
    def _count(self) -> Expr:
        return tirx.const(self.spec.boxes, "int32")

    def _label(self, number: Expr) -> Expr:
        assert self._labels is not None
        return self._labels[self._box(number)]

    def _overlap_of(self, a: Expr, b: Expr) -> Expr:
        """Return intersection over union of two boxes."""
        zero = tirx.const(0, "float32")
        a_low, a_high = self._corners(a)
        b_low, b_high = self._corners(b)
        of_a = [tirx.max(high - low, zero) for low, high in zip(a_low, a_high, strict=True)]
        of_b = [tirx.max(high - low, zero) for low, high in zip(b_low, b_high, strict=True)]
        common = [
            tirx.max(
                tirx.min(a_high[axis], b_high[axis]) - tirx.max(a_low[axis], b_low[axis]), zero
            )
            for axis in (0, 1)
        ]
        shared = common[0] * common[1]
        union = fma(of_a[0], of_a[1], fma(of_b[0], of_b[1], zero - shared))
        return shared / union

    def _corners(self, box: Expr) -> tuple[list[Expr], list[Expr]]:
        """Return the low and the high coordinates of a box."""
        assert self._boxes is not None
        places = [self._boxes[box * 4 + place] for place in range(4)]
        return places[:2], places[2:]


def precedes(score: Expr, number: Expr, other_score: Expr, other: Expr) -> Expr:
    """Say whether a candidate is looked at before another one: a higher score, a lower number."""
    return tirx.any(score > other_score, tirx.all(score.equal(other_score), number < other))
