"""What a page of the documentation asks its reader to do, in order."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = "    relay-int8 "
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """``kind`` is "command", or the language of a fenced block; ``text`` is what stands there."""

    kind: str
    text: str
    line: int

    @property
    def words(self) -> list[str]:
        """Arguments of a command, without ``relay-int8``."""
        return shlex.split(self.text, comments=True)[1:]


def steps(path: Path) -> list[Step]:
    """Return commands (those of several lines joined) and fenced blocks."""
    text = path.read_text(encoding="utf-8")
    found = [
        Step(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
    ]
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(COMMAND):
            end = number
            while lines[end].endswith("\\"):
                end += 1
            words = " ".join(part.strip(" \\") for part in lines[number : end + 1])
            found.append(Step("command", words, number + 1))
    return sorted(found, key=lambda step: step.line)
