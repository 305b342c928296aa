"""The loop in which a kernel spends its time, found in its machine code.

It is the shortest loop that holds at least half of the kernel's products. A kernel whose loops
are all unrolled is one pass over its whole code.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

PRODUCTS = ("IDP", "IMMA", "IGMMA")
_INSTRUCTION = re.compile(
    r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)([^;\n]*)", re.M
)
_TARGET = re.compile(r"0x([0-9a-f]+)")


@dataclass(frozen=True)
class MainLoop:
    """Instructions of the loop, by their names without modifiers."""

    opcodes: Counter[str]

    @property
    def instructions(self) -> int:
        """Return how many there are, those left out that only fill space."""
        return self.opcodes.total() - self.opcodes["NOP"]

    @cached_property
    def products(self) -> int:
        """Return those that multiply bytes: dp4a and matrix instructions."""
        return sum(self.opcodes[name] for name in PRODUCTS)

    @property
    def share(self) -> float:
        """Return the part of the instructions that multiplies."""
        return self.products / self.instructions if self.instructions else 0.0


def main_loop(text: str) -> MainLoop:
    """Return the main loop of a kernel, of what the disassembler prints of it."""
    code = [
        (int(address, 16), opcode, _backward(opcode, int(address, 16), rest))
        for address, opcode, rest in _INSTRUCTION.findall(text)
    ]
    whole = MainLoop(Counter(opcode for _, opcode, _ in code))
    loops = [
        MainLoop(Counter(opcode for at, opcode, _ in code if start <= at <= end))
        for end, _, start in code
        if start is not None
    ]
    heavy = [loop for loop in loops if loop.products and 2 * loop.products >= whole.products]
    return min(heavy, key=lambda loop: loop.instructions, default=whole)


def _backward(opcode: str, address: int, rest: str) -> int | None:
    """Return where a branch goes back to; None for others, and for the end that waits forever."""
    target = _TARGET.search(rest) if opcode == "BRA" else None
    return int(target[1], 16) if target and int(target[1], 16) < address else None
