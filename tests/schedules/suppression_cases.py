"""Non-maximum suppression, as tests of all targets run it."""

import numpy as np

from schedules.spec import Suppression

CASES = {
    "one": Suppression(batch=1, boxes=1, max_output=1),
    "plain": Suppression(batch=1, boxes=60, max_output=20),
    "all": Suppression(batch=2, boxes=37, max_output=37),
    "more_than_there_are": Suppression(batch=1, boxes=5, classes=2, max_output=16),
    "classes": Suppression(batch=2, boxes=70, classes=9, max_output=50),
    "limits": Suppression(batch=2, boxes=70, classes=9, max_output=90, max_per_class=3, top_k=8),
    "labels": Suppression(batch=3, boxes=90, labelled=True, max_output=90, top_k=50),
    "touching": Suppression(batch=1, boxes=64, labelled=True, max_output=64, inclusive=True),
    "all_listed": Suppression(
        batch=2, boxes=40, labelled=True, max_output=40, top_k=20, inclusive=True, lists_all=True
    ),
    "some_listed": Suppression(
        batch=1, boxes=40, classes=3, max_output=30, max_per_class=4, lists_all=True
    ),
    "highest": Suppression(batch=2, boxes=70, compares=False, max_output=20),
    "highest_of_classes": Suppression(
        batch=1, boxes=37, classes=3, compares=False, max_output=40, max_per_class=9
    ),
    "more_than_threads": Suppression(batch=1, boxes=271, classes=3, max_output=12),
}


def arrays_of(spec: Suppression, seed: int = 1) -> dict[str, np.ndarray]:
    """Return boxes on a coarse grid, whose overlaps are often equal, some without area; ties."""
    rng = np.random.default_rng(seed)
    batch = spec.batch if isinstance(spec.batch, int) else 3  # an open batch of any size
    low = rng.integers(0, 6, (batch, spec.boxes, 2))
    boxes = np.concatenate([low, low + rng.integers(0, 5, low.shape)], -1).astype(np.float32) / 8
    scores = rng.integers(0, 40, (batch, spec.classes, spec.boxes)).astype(np.float32) / 40
    scores[scores > 0.9] = np.nan
    labels = rng.integers(0, 3, (batch, spec.boxes)).astype(np.float32)
    bounds = {"least": np.array([0.25], np.float32), "overlap": np.array([0.5], np.float32)}
    arrays = {"boxes": boxes, "scores": scores, "labels": labels}
    return {name: (arrays | bounds)[name] for name in (*spec.tensors, *spec.params)}
