"""Networks of this project on a device, as their artifacts hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from benchmarks.gpu.device import Device, Kind, open_device
from benchmarks.gpu.turns import GpuTurn, take_turn
from relay_int8.errors import ArtifactError
from relay_int8.machine import kernel_clock
from relay_int8.machine.kernel_clock import kernel_seconds
from relay_int8.runtime import tvm_runtime
from relay_int8.runtime.artifact import extracted
from relay_int8.runtime.instrument import BUILTIN, instrumented
from relay_int8.runtime.module import refusal


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One kernel in the order of execution, and its seconds by itself."""

    function: str
    seconds: float


class Network:
    """A network of an artifact, loaded; ``captured`` makes one CUDA graph of all its launches."""

    def __init__(
        self, artifact: Path, images: np.ndarray, kind: Kind, *, captured: bool = False
    ) -> None:
        self.device: Device = open_device(kind)
        self._memory = tvm_runtime.RuntimeDevice(kind)
        with extracted(artifact) as contents:
            reason = refusal(contents.manifest)
            if reason:
                raise ArtifactError(f"{artifact}: {reason}")
            library = tvm_runtime.load_library(contents.library, self._memory)
        self._vm = tvm_runtime.start(library, self._memory, weights=contents.weights)
        self._images = self._memory.put(images)
        self._result: Any = None
        self._enqueue()  # what is compiled, captured and allocated at first, is by then
        self.device.synchronize()
        self._run: Callable[[], object] = (
            kernel_clock.captured(self.device, kind, self._enqueue) if captured else self._enqueue
        )

    def outputs(self) -> np.ndarray:
        """Run once and return the first output."""
        self._run()
        self.device.synchronize()
        result = self._result
        return self._memory.get(result if isinstance(result, tvm_ffi.Tensor) else result[0])

    def turn(self, seconds: float) -> GpuTurn:
        """Run for ``seconds`` or a little longer."""
        return take_turn(self.device, self._run, seconds)

    def launches(self) -> list[Launch]:
        """Return each kernel of a run, timed by itself as the tuner does."""
        calls: list[tuple[Any, str, tuple[Any, ...]]] = []

        def _note(function: Any, name: str, arguments: tuple[Any, ...]) -> None:
            calls.append((function, name, arguments))

        self._watch(_note)
        return [
            Launch(function=name, seconds=self._alone(function, arguments))
            for function, name, arguments in calls
        ]

    def watch(self, see: Callable[[int, str, np.ndarray], None]) -> None:
        """Run once, and show what each kernel wrote: its place in the order, its name, its y."""
        place = 0

        def _note(_function: Any, name: str, arguments: tuple[Any, ...]) -> None:
            nonlocal place
            self.device.synchronize()
            see(place, name, self._memory.get(arguments[-1]))
            place += 1

        self._watch(_note)

    def _watch(self, note: Callable[[Any, str, tuple[Any, ...]], None]) -> None:
        """Run once, and call ``note`` after each kernel was enqueued."""

        def _instrument(
            function: Any, name: str, before: bool, _result: Any, *arguments: Any
        ) -> None:
            if not before and not name.startswith(BUILTIN):
                note(function, name, arguments)

        with instrumented(self._vm, _instrument):
            self._enqueue()
        self.device.synchronize()

    def _alone(self, function: Any, arguments: tuple[Any, ...]) -> float:
        return kernel_seconds(self.device, self.device.kind, lambda: function(*arguments))[0]

    def _enqueue(self) -> None:
        self._result = self._vm["main"](self._images)


def load(file: Path, images: np.ndarray, kind: Kind) -> Network:
    """Return a network that is launched kernel by kernel."""
    return Network(file, images, kind)


def load_captured(file: Path, images: np.ndarray, kind: Kind) -> Network:
    """Return a network that is launched as one CUDA graph."""
    return Network(file, images, kind, captured=True)
