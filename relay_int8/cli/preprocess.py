"""``--preprocess``: the name of a common preparation of pictures, or a file that spells one out."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import MappingProxyType

from relay_int8 import Preprocessing, finite_json
from relay_int8.errors import ConfigError
from relay_int8.messages import unreadable

PREPARATIONS = MappingProxyType(
    {
        "imagenet": Preprocessing(
            resize=256,
            crop=(224, 224),
            scale=1 / 255,
            mean=(0.485, 0.456, 0.406),
            deviation=(0.229, 0.224, 0.225),
        ),
        "imagenet-signed": Preprocessing(resize=256, crop=(224, 224), scale=1 / 127.5, mean=(1.0,)),
        "unit": Preprocessing(scale=1 / 255),
        "raw": Preprocessing(),
    }
)
"""imagenet: as torchvision's; imagenet-signed: to -1..1, as TensorFlow's; unit: to 0..1."""


def named_preprocessing(name: str | None) -> Preprocessing | None:
    """Return the preparation called ``name``, or read it from that file; None stays None.

    Raises
    ------
    ConfigError
        If there is no such name or file, or the file is no preparation.
    """
    if name is None or name in PREPARATIONS:
        return None if name is None else PREPARATIONS[name]
    path = Path(name)
    if path.suffix not in (".json", ".toml"):
        known = ", ".join(PREPARATIONS)
        raise ConfigError(f"preprocessing {name!r} is none of {known}, and no .json or .toml file")
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = finite_json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {unreadable(error)}") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path}: a table of settings is expected, a {type(values).__name__} found"
        )
    try:
        return Preprocessing.from_dict(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
