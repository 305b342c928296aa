"""A manifest's entry of a kernel call, from which profiles and checks are made."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class KernelEntry:
    """One kernel call of a network, a symbolic batch taken as 1.

    Parameters
    ----------
    function
        Name of the compiled function.
    name
        Of this call alone; artifacts of one model have the same name for the same numbers.
    tensor
        What it computes, as the model names it.
    template
        The schedule template; "" for kernels that are TVM's own.
    multiplications
        Products that it sums up, those with padding left out; 0 where it sums none.
    arithmetic
        "int8" or "float32": of what these products are.
    activation_bytes
        Bytes of the activations that it reads and writes, each counted once.
    constant_bytes
        Bytes of the weights and other constants that it reads.
    layout
        How its result lies in memory, a name of ``schedules.layout.LAYOUTS``.
    shape
        The logical shape of its result; empty for kernels of TVM's own, which keep it in memory,
        None where it is open.
    is_exact
        Whether equal inputs give equal bits on every target.
    """

    function: str
    name: str
    tensor: str
    template: str = ""
    multiplications: int = 0
    arithmetic: str = "int8"
    activation_bytes: int = 0
    constant_bytes: int = 0
    layout: str = "row"
    shape: tuple[int, ...] | None = ()
    is_exact: bool = True

    def of_images(self, count: int) -> KernelEntry:
        """Return the entry of a run of ``count`` images, where the batch is symbolic."""
        return replace(
            self,
            multiplications=count * self.multiplications,
            activation_bytes=count * self.activation_bytes,
        )
