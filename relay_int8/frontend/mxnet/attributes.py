"""Attributes of MXNet operators: texts such as ``(3, 3)``, ``True``, ``1e-05``, ``None``."""

from __future__ import annotations

import math
from collections.abc import Mapping

FLAGS = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}
LARGEST = 2**31 - 1


class Attributes:
    """The attributes of one node.

    Every method takes a name and what holds where the attribute is missing or ``None``; without
    that, a missing attribute is an error.

    Parameters
    ----------
    texts
        Name -> text, as the file has it.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {name: text for name, text in texts.items() if text != "None"}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def renamed(self, names: Mapping[str, str], defaults: Mapping[str, str]) -> Attributes:
        """Return the attributes under other names, over defaults."""
        texts = {names.get(name, name): text for name, text in self._texts.items()}
        return Attributes({**defaults, **texts})

    def text(self, name: str, default: str | None = None) -> str:
        """Return an attribute as it is."""
        text = self._texts.get(name, default)
        if text is None:
            raise ValueError(f"it has no {name}")
        return text

    def flag(self, name: str, default: bool) -> bool:
        """Return a truth value."""
        word = self.text(name, str(default))
        if word not in FLAGS:
            raise ValueError(f"its {name} is {word!r}, neither True nor False")
        return FLAGS[word]

    def real(self, name: str, default: float | None = None) -> float:
        """Return a number; it is finite."""
        text = self.text(name, None if default is None else repr(default))
        try:
            number = float(FLAGS.get(text, text))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"its {name} is {text!r}, not a number")
        return number

    def reals(self, name: str) -> tuple[float, ...]:
        """Return a tuple of numbers; a single one is a tuple too, as is nothing."""
        inside = self.text(name, "").strip("()[] ")
        parts = [part.strip() for part in inside.split(",") if part.strip()]
        return tuple(Attributes({name: part}).real(name) for part in parts)

    def integer(self, name: str, default: int | None = None, *, least: int = -LARGEST) -> int:
        """Return an integer of at least ``least``."""
        text = self.text(name, None if default is None else str(default))
        number = _integer(name, text)
        if number is None or number < least:
            raise ValueError(f"its {name} is {text!r}, not an integer of {least} or more")
        return number

    def integers(self, name: str) -> tuple[int | None, ...]:
        """Return a tuple, its None included; a single number is a tuple too, as is nothing."""
        inside = self.text(name, "").strip("()[] ")
        parts = [part.strip() for part in inside.split(",")]
        if parts and not parts[-1]:
            parts.pop()
        return tuple(_integer(name, part) for part in parts)

    def sizes(self, name: str, default: tuple[int, ...], *, least: int) -> tuple[int, ...]:
        """Return as many integers as ``default`` has, which an empty tuple stands for."""
        integers = self.integers(name)
        if not integers:
            return default
        if len(integers) != len(default):
            raise ValueError(f"its {name} is {self.text(name)}, not {len(default)} numbers")
        sizes = [value for value in integers if value is not None and value >= least]
        if len(sizes) != len(integers):
            raise ValueError(
                f"its {name} is {self.text(name)}; every number must be {least} or more"
            )
        return tuple(sizes)


def _integer(name: str, text: str) -> int | None:
    """Return an integer; Python 2 wrote long ones with an L."""
    if text == "None":
        return None
    digits = text.removesuffix("L")
    if not digits.removeprefix("-").isdecimal() or len(digits) > 11 or abs(int(digits)) > LARGEST:
        raise ValueError(f"its {name} has {text[:40]!r} where an integer is expected")
    return int(digits)
