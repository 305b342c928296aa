"""PTX text as kernels: parameters, variables, and instructions in basic blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{")
_VARIABLE = re.compile(
    r"\.(shared|local|global|const)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)"
    r"(?:\[(\d*)\])?\s*(=[^;]*)?;"
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+([%\w$]+)(?:<\d+>)?\s*$")
_LABEL = re.compile(r"\s*([$\w]+):")
_INSTRUCTION = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([a-z][\w:.]*)\s*(.*)", re.S)
_ENDS = ("bra", "ret", "exit", "bar", "barrier")


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``name`` of its opcode, what follows it by dots, and operands."""

    line: int
    text: str
    guard: str | None
    negated: bool
    name: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]

    @property
    def ends_block(self) -> bool:
        """Whether lanes may part after it."""
        return self.name in _ENDS and self.modifiers[:1] != ("warp",)


@dataclass(frozen=True)
class Variable:
    """An array of a state space; ``count`` is None where a launch says it."""

    space: str
    alignment: int
    dtype: str
    name: str
    count: int | None
    is_initialized: bool


@dataclass
class Kernel:
    """One entry; ``labels`` are numbers of blocks, which end with what may part lanes."""

    name: str
    parameters: tuple[tuple[str, str], ...]  # name, type
    most_threads: int | None
    registers: dict[str, str] = field(default_factory=dict)  # type by what the name begins with
    variables: dict[str, Variable] = field(default_factory=dict)
    blocks: list[list[Instruction]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All of them in order."""
        for block in self.blocks:
            yield from block


def parse(text: str) -> dict[str, Kernel]:
    """Return the kernels of a PTX module by name."""
    text = re.sub(r"//[^\n]*", "", text)
    shared = {found[4]: _variable(found) for found in _VARIABLE.finditer(text)}
    kernels = {}
    for entry in _ENTRY.finditer(text):
        threads = re.search(r"\.maxntid\s+([\d, ]+)", entry[3])
        kernel = Kernel(
            name=entry[1],
            parameters=tuple(map(_parameter, filter(str.strip, entry[2].split(",")))),
            most_threads=_product(threads[1]) if threads else None,
        )
        end = _closing_brace(text, entry.end())
        body = text[entry.end() : end]
        kernel.variables = {
            name: variable for name, variable in shared.items() if _names(body, name)
        }
        _fill(kernel, body, text.count("\n", 0, entry.end()) + 1)
        kernels[kernel.name] = kernel
    return kernels


def _names(body: str, name: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", body) is not None


def _product(text: str) -> int:
    result = 1
    for size in text.split(","):
        result *= int(size)
    return result


def _variable(found: re.Match[str]) -> Variable:
    count = int(found[5]) if found[5] else (None if found[5] == "" else 1)
    return Variable(found[1], int(found[2] or 1), found[3], found[4], count, bool(found[6]))


def _parameter(text: str) -> tuple[str, str]:
    words = text.split()
    dtype = next(word[1:] for word in words if re.fullmatch(r"\.[usbf]\d+", word))
    return words[-1], dtype


def _closing_brace(text: str, start: int) -> int:
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.start()
    raise ValueError("a kernel without its end")


def _fill(kernel: Kernel, body: str, line: int) -> None:
    """Read the statements of a kernel; a label or what may part lanes begins another block."""
    kernel.blocks.append([])
    position = 0
    while body[position:].strip():
        label = _LABEL.match(body, position)
        if label:
            if kernel.blocks[-1]:
                kernel.blocks.append([])
            kernel.labels[label[1]] = len(kernel.blocks) - 1
            position = label.end()
            continue
        end = body.index(";", position)
        statement = body[position:end]
        leading = len(statement) - len(statement.lstrip())
        _add(kernel, statement.strip(), line + body.count("\n", 0, position + leading))
        position = end + 1


def _add(kernel: Kernel, statement: str, line: int) -> None:
    registers = _REGISTERS.match(statement)
    if registers:
        kernel.registers[registers[2]] = registers[1]
        return
    if statement.startswith("."):  # variables, which are read from the whole text; .loc and others
        return
    found = _INSTRUCTION.fullmatch(statement)
    if found is None:
        raise ValueError(f"line {line}: {statement!r} is no instruction")
    name, *modifiers = re.split(r"(?<!:)\.", found[3])
    instruction = Instruction(
        line,
        " ".join(statement.split()),
        found[2],
        found[1] == "!",
        name,
        tuple(modifiers),
        tuple(split_operands(found[4])),
    )
    kernel.blocks[-1].append(instruction)
    if instruction.ends_block:
        kernel.blocks.append([])


def split_operands(text: str) -> list[str]:
    """Return what commas separate, those within braces and brackets left alone."""
    parts = re.split(r",(?![^{\[]*[}\]])", text)
    return [part.strip() for part in parts if part.strip()]
