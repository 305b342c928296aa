"""How good a network's outputs are: against labels, and against the FP32 network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relay_int8 import finite_json
from relay_int8.errors import ConfigError, RecordError
from relay_int8.field_types import filled, require_types
from relay_int8.graph.batch import stacked
from relay_int8.messages import other_model, unreadable
from relay_int8.numerics.interval import wilson
from relay_int8.numerics.snr import snr_db
from relay_int8.report.label_check import tell_of_labels

if TYPE_CHECKING:
    from relay_int8.runtime.module import Module

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured on ``samples`` images; None where labels or a reference were not given.

    Parameters
    ----------
    top1, reference_top1
        Fraction of images whose largest output is the label.
    agreement
        Fraction of images on which network and reference have the same largest output.
    snr_db
        Power of the reference's output over that of the difference.
    digest
        sha256 of the quantized model; "" in older files.
    """

    samples: int
    top1: float | None = None
    reference_top1: float | None = None
    agreement: float | None = None
    snr_db: float | None = None
    digest: str = ""

    def to_json(self) -> str:
        """Return the measurements as JSON, for the report; an infinite ratio is "inf"."""
        return finite_json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """Return what :meth:`to_json` wrote; a RecordError if the text is none of that."""
        try:
            fields = finite_json.loads(text)
            if not isinstance(fields, dict) or "snr_db" not in fields:
                raise ValueError("it has no snr_db")
            ratio = fields["snr_db"]
            evaluation = filled(cls, fields | {"snr_db": None if ratio is None else float(ratio)})
            require_types(evaluation)
            evaluation.require_shares()
            return evaluation
        except finite_json.MISREAD as error:
            raise RecordError(
                f"not an evaluation of relay-int8: {error}; relay-int8 evaluate --report writes one"
            ) from error

    def require_shares(self) -> None:
        """Refuse numbers that no images give; a ValueError says which."""
        for share in (self.top1, self.reference_top1, self.agreement):
            if self.samples < 1 or (share is not None and not 0 <= share <= 1):
                raise ValueError(f"{share} of {self.samples} images, a fraction of some expected")

    def interval(self, share: float) -> tuple[float, float]:
        """Return the 95 % confidence interval of one of its fractions."""
        return wilson(share, self.samples)


def read_evaluation(path: Path | str, digest: str = "") -> Evaluation:
    """Return the evaluation in a file.

    Raises
    ------
    RecordError
        If it cannot be read or is none, or of another quantized model than ``digest``, where both
        are known.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(
            f"{path}: cannot be read as an evaluation: {unreadable(error)}"
        ) from error
    try:
        evaluation = Evaluation.from_json(text)
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
    other = other_model(evaluation.digest, digest)
    if other:
        raise RecordError(f"{path}: {other}; evaluate the artifact that the report is of")
    return evaluation


def evaluate(
    module: Module,
    images: Iterable[Mapping[str, Array]],
    *,
    labels: Array | None = None,
    reference: Run | None = None,
    output: str | None = None,
) -> Evaluation:
    """Run ``module``, and ``reference`` beside it, on every image.

    Parameters
    ----------
    module
        A loaded artifact.
    images
        Input name -> array of batch 1, as a :class:`relay_int8.calibration.Dataset` gives them.
    labels
        Integers, one for each image.
    reference
        The FP32 network, run on the artifact's own batches.
    output
        The output that is looked at; the first one if not given.

    Raises
    ------
    ConfigError
        If there is no such output, labels and images differ in number, or a label is none of the
        output's classes.

    Examples
    --------
    >>> result = relay_int8.evaluate(
    ...     network,
    ...     [{"image": image[None]} for image in images.test[:100]],
    ...     labels=images.labels[:100],
    ...     reference=relay_int8.float_network(model),
    ... )
    >>> result.top1, result.agreement
    (0.99, 0.99)
    """
    if isinstance(module, str | Path):
        raise ConfigError(
            f"{module}: a path found, a network expected: relay_int8.load({module!r})"
        )
    names = [info.name for info in module.manifest.outputs]
    output = names[0] if output is None else output
    if output not in names:
        raise ConfigError(f"no output is called {output!r}; there are {', '.join(names)}")
    outputs, wanted = [], []
    for batch, count in _batches(images, _batch_of(module)):
        outputs.append(module.run(batch)[output][:count])
        if reference is not None:
            wanted.append(_output_of(reference(batch), output)[:count])
    scores = np.concatenate(outputs).reshape(sum(map(len, outputs)), -1)
    if labels is not None:
        labels = np.asarray(labels)
        require_labels(labels, *scores.shape)
        tell_of_labels(scores.argmax(axis=1), labels, scores.shape[1])
    result = _compare(
        scores, np.concatenate(wanted).reshape(scores.shape) if wanted else None, labels
    )
    return replace(result, digest=module.manifest.model_digest)


def require_labels(labels: Array, images: int, classes: int) -> None:
    """Raise a ConfigError if labels are not one for each image, or none of the classes."""
    if labels.shape != (images,) or labels.dtype.kind not in "iu":
        raise ConfigError(
            f"{images} images, but labels of shape {labels.shape} and type {labels.dtype}; give "
            "one integer for each image"
        )
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        raise ConfigError(
            f"label {wrong[0]} found, but the output has {classes} values: 0 to {classes - 1} "
            "expected; shift labels that count a background class, or name another output"
        )


def _output_of(outputs: Mapping[str, Array], name: str) -> Array:
    if name not in outputs:
        raise ConfigError(
            f"the FP32 network has no output {name!r}, it has {', '.join(outputs)}; give the model "
            "that the artifact was made from"
        )
    return outputs[name]


def _batch_of(module: Module) -> int:
    """Return how many images a run takes; a scalar beside them says nothing of it."""
    return next((info.shape[0] for info in module.manifest.inputs if info.shape), 1)


def _batches(
    images: Iterable[Mapping[str, Array]], size: int
) -> Iterator[tuple[dict[str, Array], int]]:
    """Yield stacks of ``size`` images (one where the batch is open) and how many are no filler."""
    stack: list[Mapping[str, Array]] = []
    for image in images:
        if not isinstance(image, Mapping):
            raise ConfigError(
                f"images: {type(image).__name__} found, dictionaries of input name and array "
                "of one image expected; relay_int8.open_data(images, module.manifest.inputs) "
                "makes them"
            )
        stack.append(image)
        if len(stack) == max(size, 1):
            yield stacked(stack), len(stack)
            stack = []
    if stack:
        yield stacked(stack + [stack[-1]] * (size - len(stack))), len(stack)


def _compare(scores: Array, wanted: Array | None, labels: Array | None) -> Evaluation:
    chosen = scores.argmax(axis=1)
    reference = None if wanted is None else wanted.argmax(axis=1)
    return Evaluation(
        samples=len(scores),
        top1=_share(chosen, labels),
        reference_top1=_share(reference, labels),
        agreement=_share(chosen, reference),
        snr_db=None if wanted is None else snr_db(wanted, scores),
    )


def _share(left: Array | None, right: Array | None) -> float | None:
    """Return the fraction of equal elements, None where one side is missing."""
    return None if left is None or right is None else float(np.mean(left == right))
