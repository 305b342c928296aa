"""The loop in which a kernel spends its time, found in its machine code.

It is the shortest loop, in no other, that runs at least half of the kernel's products. What loops
inside it hold counts as often as they turn: the number that their counter is compared with. A
kernel whose loops are all unrolled is one pass over its whole code.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

PRODUCTS = ("IDP.4A", "IMMA", "IGMMA")
_INSTRUCTION = re.compile(
    r"/\*([0-9a-f]{4,})\*/\s+(?:@!?(U?P\w+)\s+)?([A-Z][A-Z0-9_.]*)([^;\n]*)", re.M
)
_TARGET = re.compile(r"0x([0-9a-f]+)")
_COMPARED = re.compile(r"\s*(\w+), \w+, (\w+), 0x([0-9a-f]+)")
_COUNTED = re.compile(r"\s*(\w+), (\w+), 0x([0-9a-f]+)")


@dataclass(frozen=True)
class MainLoop:
    """Instructions of one turn of the loop, by their names without modifiers."""

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


@dataclass(frozen=True)
class _Instruction:
    """One instruction; ``predicate`` is the register on which it depends, or empty."""

    address: int
    predicate: str
    opcode: str
    operands: str

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return name_of(self.opcode)


@dataclass(frozen=True)
class _Loop:
    """A loop's first and last address, and how often it turns."""

    start: int
    end: int
    turns: int

    def has(self, address: int) -> bool:
        """Whether the instruction at ``address`` is in it."""
        return self.start <= address <= self.end

    def is_in(self, other: _Loop) -> bool:
        """Whether it is a loop inside ``other``."""
        return self != other and other.start <= self.start and self.end <= other.end


def name_of(opcode: str) -> str:
    """Return an opcode without modifiers; IDP.4A keeps its own, as IDP.2A computes addresses."""
    return "IDP.4A" if opcode.startswith("IDP.4A") else opcode.partition(".")[0]


def main_loop(text: str) -> MainLoop:
    """Return the main loop of a kernel, of what the disassembler prints of it."""
    code = [
        _Instruction(int(address, 16), predicate, opcode, operands)
        for address, predicate, opcode, operands in _INSTRUCTION.findall(text)
    ]
    loops = _loops(code)
    whole = _one_pass(code, loops)
    heavy = []
    for loop in loops:
        if not any(map(loop.is_in, loops)):
            body = [one for one in code if loop.has(one.address)]
            turn = _one_pass(body, [inner for inner in loops if inner.is_in(loop)])
            if turn.products and 2 * loop.turns * turn.products >= whole.products:
                heavy.append(turn)
    return min(heavy, key=lambda turn: turn.instructions, default=whole)


def _one_pass(code: Sequence[_Instruction], loops: Sequence[_Loop]) -> MainLoop:
    """Return the instructions of one pass over ``code``, those in loops as often as they turn."""
    opcodes: Counter[str] = Counter()
    for one in code:
        opcodes[one.name] += math.prod(loop.turns for loop in loops if loop.has(one.address))
    return MainLoop(opcodes)


def _loops(code: Sequence[_Instruction]) -> list[_Loop]:
    """Return the loops: a branch that goes back, but not to itself, as the end of a kernel does."""
    loops = []
    for end, branch in enumerate(code):
        target = _TARGET.search(branch.operands) if branch.name == "BRA" else None
        if target and int(target[1], 16) < branch.address:
            body = [one for one in code[:end] if one.address >= int(target[1], 16)]
            loops.append(_Loop(int(target[1], 16), branch.address, _turns(body, branch.predicate)))
    return loops


def _turns(body: Sequence[_Instruction], predicate: str) -> int:
    """Return the number that a loop's counter is compared with, in steps; 1 if it is not seen."""
    for one in reversed(body):
        compared = _COMPARED.match(one.operands) if one.name in ("ISETP", "UISETP") else None
        if compared and compared[1] == predicate:
            return max(1, int(compared[3], 16) // _step(body, compared[2]))
    return 1


def _step(body: Sequence[_Instruction], register: str) -> int:
    """Return what a loop adds to its counter; 1 if it is not seen."""
    for one in body:
        counted = _COUNTED.match(one.operands) if one.name in ("IADD3", "UIADD3") else None
        if counted and counted[1] == counted[2] == register:
            return int(counted[3], 16)
    return 1
