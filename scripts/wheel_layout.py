"""The files of the wheel: one package, with ``schedules`` inside it.

In the repository ``relay_int8`` and ``schedules`` stand side by side, as neither is a part of the
other. Installed, a package called ``schedules`` might meet another one of that name, so that the
wheel has it as ``relay_int8.schedules``, and every import says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

INNER, OUTER = "schedules", "relay_int8"
_IMPORT = re.compile(rf"^([ \t]*(?:>>> )?(?:from|import) ){INNER}(?=[. \n])", re.MULTILINE)


def wheel_files(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the path within the wheel, and the text, of each module that differs from ``root``."""
    for path in sorted((root / INNER).rglob("*.py")):
        yield f"{OUTER}/{path.relative_to(root).as_posix()}", moved(path.read_text("utf-8"))
    for path in sorted((root / OUTER).rglob("*.py")):
        text = path.read_text("utf-8")
        if moved(text) != text:
            yield path.relative_to(root).as_posix(), moved(text)


def moved(text: str) -> str:
    """Return the text of a module with its imports of ``schedules`` as the wheel has them.

    Examples
    --------
    >>> moved("from schedules.spec import Spec")
    'from relay_int8.schedules.spec import Spec'
    """
    return _IMPORT.sub(rf"\1{OUTER}.{INNER}", text)
