"""Run alone: import damaged PyTorch programs (see ``mutations.survive``).

::

    python -m tests.frontend.mutate_torch FOLDER archive|program COUNT
"""

import io
import json
import random
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from relay_int8.frontend.torch import import_torch
from relay_int8.frontend.torch.converters import CONVERTERS
from tests.frontend.mutate_mxnet import absurd_number
from tests.frontend.mutations import Mutation, absurd_at, flipped, repeated, survive, truncated
from tests.frontend.torch_programs import program

PROGRAM = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
VALUES: tuple[Any, ...] = (None, True, -1, 2**40, 1e308, "", "x", [], {}, [[]], {"as_int": 7})


def absurd_length(rng: random.Random, data: bytes) -> bytes:
    """Put an extreme number into the archive's directory, which is at its end."""
    return absurd_at(rng, data, len(data) - rng.randrange(8, 4096), rng.choice((2, 4, 8)))


def other_operator(rng: random.Random, found: Any) -> None:
    """Let a node be any other operator."""
    node = rng.choice(found["graph_module"]["graph"]["nodes"])
    name = rng.choice((*sorted(CONVERTERS), "aten.nothing"))
    node["target"] = f"torch.ops.{name}{rng.choice(('', '_'))}.default"


def other_operand(rng: random.Random, found: Any) -> None:
    """Let a node read something else."""
    graph = found["graph_module"]["graph"]
    node = rng.choice(graph["nodes"])
    if node["inputs"]:
        name = rng.choice([*graph["tensor_values"], "nothing"])
        rng.choice(node["inputs"])["arg"] = {"as_tensor": {"name": name}}


def other_value(rng: random.Random, found: Any) -> None:
    """Replace any place of the text."""
    holder, key = rng.choice(list(_places(found)))
    holder[key] = rng.choice(VALUES)


def removed(rng: random.Random, found: Any) -> None:
    """Remove any place of the text."""
    holder, key = rng.choice(list(_places(found)))
    del holder[key]


def _places(found: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(found) if isinstance(found, dict) else range(len(found))
    for key in keys:
        yield found, key
        if isinstance(found[key], dict | list):
            yield from _places(found[key])


def inside(entry: str, change: Callable[[random.Random, Any], None]) -> Mutation:
    """Change the text of an entry and write the archive again, with right checksums."""

    def changed(rng: random.Random, data: bytes) -> bytes:
        found = json.loads(data)
        change(rng, found)
        return json.dumps(found).encode()

    return _rewritten(entry, changed)


def _rewritten(entry: str, change: Mutation) -> Mutation:
    def mutation(rng: random.Random, data: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as found:
            entries = {name: found.read(name) for name in found.namelist()}
        key = next(name for name in entries if name.endswith(entry))
        entries[key] = change(rng, entries[key])
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
        return written.getvalue()

    mutation.__name__ = f"{change.__name__} of {entry}"
    return mutation


MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "archive": (truncated, flipped, flipped, absurd_length, repeated),
    "program": (
        inside(PROGRAM, other_operator),
        inside(PROGRAM, other_operand),
        inside(PROGRAM, other_value),
        inside(PROGRAM, removed),
        inside(WEIGHTS, other_value),
        inside(WEIGHTS, removed),
        _rewritten(PROGRAM, absurd_number),
        _rewritten(WEIGHTS, absurd_number),
    ),
}


def main(folder: Path, kind: str, count: int) -> None:
    path, _, _ = program(folder, "mixed_u8")
    survive(path, lambda: import_torch(path, batch=2), MUTATIONS[kind], count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
