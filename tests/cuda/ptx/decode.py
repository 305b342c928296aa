"""An instruction as a function of the machine, decoded once for a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tests.cuda.ptx import warps
from tests.cuda.ptx.arithmetic import operation
from tests.cuda.ptx.errors import UnknownPtxError, refuse
from tests.cuda.ptx.machine import AT_BARRIER, EXITED, Copy, Machine, Step
from tests.cuda.ptx.text import Instruction, Kernel, split_operands
from tests.cuda.ptx.types import DTYPES, immediate, read_as, widened

Reader = Callable[[Machine], Any]
SHARED_WINDOW, LOCAL_WINDOW = 1 << 48, 1 << 49
"""Where shared and local memory lie among generic addresses."""
_ADDRESS = re.compile(r"\[\s*([%\w$.]+?)\s*(?:\+\s*(-?\d+))?\s*\]")
_VECTOR = re.compile(r"v([248])")
CACHE_HINTS = {"nc", "volatile", "ca", "cg", "cs", "lu", "cv", "weak"}


class Decoder:
    """The instructions of one kernel; shared and local variables have the given addresses."""

    def __init__(self, kernel: Kernel, addresses: dict[str, int]) -> None:
        self._kernel, self._addresses = kernel, addresses

    def program(self) -> list[list[tuple[Instruction, Step]]]:
        """Return the steps of each block."""
        return [[(item, self.step(item)) for item in block] for block in self._kernel.blocks]

    def step(self, instruction: Instruction) -> Step:
        """Return what an instruction does.

        Raises
        ------
        UnknownPtxError
            If it is not known here.
        """
        try:
            return self.STEPS.get(instruction.name, Decoder._compute)(self, instruction)
        except UnknownPtxError as error:
            raise UnknownPtxError(
                f"{self._kernel.name}, line {instruction.line}, {instruction.text!r}: {error}"
            ) from error

    # Operands

    def _dtype(self, register: str) -> np.dtype:
        kinds = self._kernel.registers
        kind = kinds.get(register) or kinds.get(register.rstrip("0123456789"))
        if kind is None:
            raise UnknownPtxError(f"{register} is not declared")
        return DTYPES[kind]

    def _reader(self, text: str, dtype: str) -> Reader:
        """Return what gives an operand as ``dtype``: a register, a constant, an address."""
        if text in self._addresses:
            value = DTYPES[dtype].type(self._addresses[text])
            return lambda machine: value
        constant = immediate(text, dtype)
        if constant is not None:
            return lambda machine: constant
        if text.startswith("%") and ("." in text or text == "%laneid"):
            return lambda machine: read_as(machine.special[text], dtype)
        register = self._dtype(text)
        return lambda machine: read_as(machine.register(text, register), dtype)

    def _guard(self, instruction: Instruction) -> Callable[[Machine], np.ndarray | None]:
        if instruction.guard is None:
            return lambda machine: None
        read = self._reader(instruction.guard, "pred")
        if instruction.negated:
            return lambda machine: ~read(machine)
        return read

    def _address(self, text: str) -> Reader:
        """Return what gives an address in brackets, of every lane, as uint64."""
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise UnknownPtxError(f"{text} is no address")
        name, offset = found[1], int(found[2] or 0)
        dtype = "u64"
        if name not in self._addresses and name.startswith("%"):
            dtype = f"u{8 * self._dtype(name).itemsize}"
        read, shift = self._reader(name, dtype), np.uint64(offset % (1 << 64))

        def addressed(machine: Machine) -> np.ndarray:
            base = np.asarray(read(machine)).astype(np.uint64)
            return np.broadcast_to(base + shift, (machine.count,))

        return addressed

    def _names(self, text: str) -> list[str]:
        """Return the registers of an operand that may be a vector."""
        return split_operands(text[1:-1]) if text.startswith("{") else [text]

    # Arithmetic

    def _compute(self, instruction: Instruction) -> Step:
        found = operation(instruction.name, instruction.modifiers)
        to, *sources = instruction.operands
        readers = [
            self._reader(text, dtype) for text, dtype in zip(sources, found.sources, strict=True)
        ]
        guard, dtype = self._guard(instruction), self._dtype(to)
        result = DTYPES[found.result]

        def step(machine: Machine) -> None:
            value = np.asarray(found.compute(*(read(machine) for read in readers)))
            machine.write(to, widened(value.astype(result, copy=False), dtype), guard(machine))

        return step

    def _mov(self, instruction: Instruction) -> Step:
        to, source = instruction.operands
        if to.startswith("{"):
            return self._unpack(instruction)
        if source.startswith("{"):
            return self._pack(instruction)
        return self._compute(instruction)

    def _pack(self, instruction: Instruction) -> Step:
        to, source = instruction.operands
        names, width = self._names(source), int(instruction.modifiers[-1][1:])
        part = width // len(names)
        readers = [self._reader(name, f"b{part}") for name in names]
        guard, dtype, whole = self._guard(instruction), self._dtype(to), np.dtype(f"u{width // 8}")

        def step(machine: Machine) -> None:
            value = whole.type(0)
            for place, read in enumerate(readers):
                value = value | (read(machine).astype(whole) << whole.type(place * part))
            machine.write(to, widened(value, dtype), guard(machine))

        return step

    def _unpack(self, instruction: Instruction) -> Step:
        to, source = instruction.operands
        names, width = self._names(to), int(instruction.modifiers[-1][1:])
        part, read = width // len(names), self._reader(source, f"b{width}")
        guard = self._guard(instruction)
        dtypes = [self._dtype(name) for name in names]

        def step(machine: Machine) -> None:
            value = read(machine)
            for place, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
                bits = (value >> value.dtype.type(place * part)).astype(f"u{part // 8}")
                machine.write(name, widened(bits, dtype), guard(machine))

        return step

    def _cvta(self, instruction: Instruction) -> Step:
        to, source = instruction.operands
        *direction, space, dtype = instruction.modifiers
        window = {"global": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}[space]
        shift = np.uint64((-window if direction == ["to"] else window) % (1 << 64))
        read, guard = self._reader(source, dtype), self._guard(instruction)
        return lambda machine: machine.write(to, read(machine) + shift, guard(machine))

    # Memory

    def _ld(self, instruction: Instruction) -> Step:
        to, address = instruction.operands
        space, count, dtype = self._access(instruction)
        names = self._names(to)
        if space == "param":
            return self._load_parameter(instruction, dtype)
        read, guard, size = self._address(address), self._guard(instruction), DTYPES[dtype].itemsize
        dtypes = [self._dtype(name) for name in names]

        def step(machine: Machine) -> None:
            lanes = machine.executing(guard(machine))
            if not len(lanes):
                return
            words = _Access(machine, space, read(machine), lanes).load(size, count)
            for place, (name, register) in enumerate(zip(names, dtypes, strict=True)):
                word = np.ascontiguousarray(words[:, place]).view(DTYPES[dtype])
                machine.write_lanes(name, widened(word, register), lanes)

        return step

    def _load_parameter(self, instruction: Instruction, dtype: str) -> Step:
        to, address = instruction.operands
        name = address.strip("[] ")
        if name not in dict(self._kernel.parameters):
            raise UnknownPtxError(f"there is no parameter {name}")
        guard, register = self._guard(instruction), self._dtype(to)

        def step(machine: Machine) -> None:
            value = immediate(str(machine.parameters[name]), dtype)
            machine.write(to, widened(np.asarray(value), register), guard(machine))

        return step

    def _st(self, instruction: Instruction) -> Step:
        address, source = instruction.operands
        space, _, dtype = self._access(instruction)
        bits = f"b{8 * DTYPES[dtype].itemsize}"
        readers = [self._reader(name, _stored(name, dtype, bits)) for name in self._names(source)]
        read, guard = self._address(address), self._guard(instruction)
        word = DTYPES[bits]

        def step(machine: Machine) -> None:
            lanes = machine.executing(guard(machine))
            if not len(lanes):
                return
            columns = [
                np.broadcast_to(value(machine).view(word), (machine.count,)) for value in readers
            ]
            values = np.stack([column[lanes] for column in columns], axis=1)
            _Access(machine, space, read(machine), lanes).store(values)

        return step

    def _access(self, instruction: Instruction) -> tuple[str, int, str]:
        """Return state space, words and type of a load or store; caches are left out."""
        *rest, dtype = instruction.modifiers
        count, space = 1, "generic"
        for item in rest:
            vector = _VECTOR.fullmatch(item)
            if vector:
                count = int(vector[1])
            elif item in ("global", "shared", "local", "param"):
                space = item
            elif item not in CACHE_HINTS and not item.startswith(("L1::", "L2::")):
                raise UnknownPtxError(f"no meaning of .{item} is known")
        return space, count, dtype

    def _cp(self, instruction: Instruction) -> Step:
        """Return a step of asynchronous copies: begin one, commit them, wait."""
        kind = instruction.modifiers
        guard = self._guard(instruction)
        if kind == ("async", "commit_group"):
            return lambda machine: _commit(machine, guard(machine))
        if kind == ("async", "wait_group"):
            pending = int(instruction.operands[0])
            return lambda machine: machine.wait_for_copies(
                machine.executing(guard(machine)), pending
            )
        if kind == ("async", "cg", "shared", "global") and instruction.operands[2:] == ("16",):
            return self._begin_copy(instruction)
        raise UnknownPtxError(f"no meaning of cp.{'.'.join(kind)} is known")

    def _begin_copy(self, instruction: Instruction) -> Step:
        to, source = map(self._address, instruction.operands[:2])
        guard = self._guard(instruction)

        def step(machine: Machine) -> None:
            lanes = machine.executing(guard(machine))
            if not len(lanes):
                return
            copy = Copy(lanes, to(machine)[lanes], source(machine)[lanes], machine.groups[lanes])
            machine.memory.check(lanes, copy.source, 4, 4)
            machine.shared.begin_copy(lanes, copy.to, 16)
            machine.copies.append(copy)

        return step

    # Control

    def _bra(self, instruction: Instruction) -> Step:
        target, guard = self._kernel.labels[instruction.operands[0]], self._guard(instruction)

        def step(machine: Machine) -> None:
            taken = guard(machine)
            machine.position[machine.active if taken is None else machine.active & taken] = target

        return step

    def _ret(self, instruction: Instruction) -> Step:
        guard = self._guard(instruction)

        def step(machine: Machine) -> None:
            done = guard(machine)
            machine.position[machine.active if done is None else machine.active & done] = EXITED

        return step

    def _bar(self, instruction: Instruction) -> Step:
        if instruction.modifiers == ("warp", "sync"):
            return lambda machine: warps.whole_warps(machine.executing(None))
        if (
            instruction.modifiers != ("sync",)
            or instruction.operands != ("0",)
            or instruction.guard
        ):
            raise UnknownPtxError("barriers are bar.sync 0, for all")

        def step(machine: Machine) -> None:
            machine.position[machine.active] += AT_BARRIER

        return step

    # Warps

    def _mma(self, instruction: Instruction) -> Step:
        sync, aligned, shape, *layouts, result, a_type, b_type, c_type = instruction.modifiers
        if (sync, aligned, layouts, result, c_type) != (
            "sync", "aligned", ["row", "col"], "s32", "s32",
        ):  # fmt: skip
            raise UnknownPtxError("no meaning of this mma is known")
        kinds = {"u8": "u32", "s8": "s32"}
        to, *sources = (self._names(text) for text in instruction.operands)
        types = (kinds[a_type], kinds[b_type], "s32")
        readers = [
            [self._reader(name, dtype) for name in names]
            for names, dtype in zip(sources, types, strict=True)
        ]

        def step(machine: Machine) -> None:
            lanes = machine.executing(None)
            warps.whole_warps(lanes)
            a, b, c = (
                [read(machine)[lanes].reshape(-1, warps.WARP) for read in group]
                for group in readers
            )
            results = warps.multiply_matrices(shape, a, b, c)
            for name, value in zip(to, results, strict=True):
                machine.write_lanes(name, value.reshape(-1).view(np.uint32), lanes)

        return step

    def _ldmatrix(self, instruction: Instruction) -> Step:
        if instruction.modifiers != ("sync", "aligned", "m8n8", "x4", "shared", "b16"):
            raise UnknownPtxError("no meaning of this ldmatrix is known")
        names, read = self._names(instruction.operands[0]), self._address(instruction.operands[1])

        def step(machine: Machine) -> None:
            lanes = machine.executing(None)
            warps.whole_warps(lanes)
            rows = _Access(machine, "shared", read(machine), lanes).load(4, 4)
            for name, value in zip(names, warps.matrices(rows), strict=True):
                machine.write_lanes(name, value, lanes)

        return step

    def _shfl(self, instruction: Instruction) -> Step:
        sync, mode, dtype = instruction.modifiers
        if (sync, dtype) != ("sync", "b32") or instruction.guard:
            raise UnknownPtxError("no meaning of this shfl is known")
        to, source, *others = instruction.operands
        names = to.split("|")
        read = self._reader(source, "b32")
        operand, clamp, members = (
            self._reader(text, dtype)
            for text, dtype in zip(others, ("s32", "s32", "u32"), strict=True)
        )
        dtypes = [self._dtype(name) for name in names]

        def step(machine: Machine) -> None:
            lanes = machine.executing(None)
            _refuse_absent(machine, lanes, _of_lanes(members(machine), lanes))
            value = np.broadcast_to(read(machine), (machine.count,))
            found, is_inside, origin = warps.shuffle(
                mode,
                value,
                _of_lanes(operand(machine), lanes).astype(np.int64),
                _of_lanes(clamp(machine), lanes).astype(np.int64),
                lanes,
            )
            refuse(~machine.active[origin], lanes, "shuffles with a lane that does not take part")
            for name, register, result in zip(names, dtypes, (found, is_inside), strict=False):
                machine.write_lanes(name, widened(result, register), lanes)

        return step

    def _activemask(self, instruction: Instruction) -> Step:
        (to,) = instruction.operands

        def step(machine: Machine) -> None:
            machine.write(to, warps.mask_of(machine.active), None)

        return step

    STEPS: ClassVar[dict[str, Callable[[Decoder, Instruction], Step]]] = {
        "mov": _mov,
        "cvta": _cvta,
        "ld": _ld,
        "st": _st,
        "cp": _cp,
        "bra": _bra,
        "ret": _ret,
        "exit": _ret,
        "bar": _bar,
        "mma": _mma,
        "ldmatrix": _ldmatrix,
        "shfl": _shfl,
        "activemask": _activemask,
    }
    """What is no arithmetic."""


def _stored(name: str, dtype: str, bits: str) -> str:
    """Return the type that a stored operand is read as: a constant's own, of registers the bits."""
    return bits if name.startswith("%") else dtype


def _commit(machine: Machine, guard: np.ndarray | None) -> None:
    machine.groups = machine.groups.copy()
    machine.groups[machine.executing(guard)] += 1


def _of_lanes(value: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    return value[lanes] if np.ndim(value) else np.full(len(lanes), value)


def _refuse_absent(machine: Machine, lanes: np.ndarray, members: np.ndarray) -> None:
    """Raise a fault unless all threads that a mask names are here."""
    absent = warps.mask_of(machine.special["exists"] & ~machine.active)[lanes]
    refuse((members & absent) != 0, lanes, warps.PARTED)


class _Access:
    """An access of some lanes to the memory that their addresses are of."""

    def __init__(
        self, machine: Machine, space: str, addresses: np.ndarray, lanes: np.ndarray
    ) -> None:
        addresses = addresses[lanes]
        if space == "generic":
            space, addresses = _resolved(addresses, lanes)
        self._memory = {"global": machine.memory, "shared": machine.shared, "local": machine.local}[
            space
        ]
        self._lanes, self._addresses = lanes, addresses

    def load(self, size: int, count: int) -> np.ndarray:
        return self._memory.load(self._lanes, self._addresses, size, count)

    def store(self, values: np.ndarray) -> None:
        self._memory.store(self._lanes, self._addresses, values)


def _resolved(addresses: np.ndarray, lanes: np.ndarray) -> tuple[str, np.ndarray]:
    """Return the state space of generic addresses, and the addresses in it."""
    window = addresses >> np.uint64(48)
    refuse(
        window != window[0], lanes, "uses a generic address of another memory than its neighbours"
    )
    space = {0: "global", 1: "shared", 2: "local"}[int(window[0])]
    return space, addresses & np.uint64(SHARED_WINDOW - 1)
