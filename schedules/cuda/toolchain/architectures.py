"""Which architectures a library for GPUs holds code of, by what a user says."""

from __future__ import annotations

from collections.abc import Sequence

from schedules.cuda.device.devices import ARCHITECTURES, COMMON, NEWEST
from schedules.cuda.device.gpus import capability
from schedules.cuda.toolchain.nvrtc import Nvrtc
from schedules.template import ScheduleError


def choose_architectures(text: str, present: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the architectures that ``text`` means, the oldest first.

    Parameters
    ----------
    text
        "native", for those of ``present``; "all", for one of each generation that is sold; or
        names with commas between, as in "sm_80,sm_90".
    present
        Architectures of this computer's GPUs.

    Raises
    ------
    ScheduleError
        If an architecture is not known, there is no GPU to be native to, or the compiler is not
        installed.
    """
    known = _known()
    if text == "all":
        return tuple(name for name in known if name in (*COMMON, *NEWEST))
    if text == "native":
        return _sorted([_nearest(name, known) for name in present])
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ScheduleError(
                f"architecture {name!r} is not known; choose native, all, or some of "
                f"{', '.join(known)} with commas between"
            )
    return _sorted(names)


def _known() -> list[str]:
    """Return what there are kernels for and the installed compiler makes code of."""
    compiled = Nvrtc().architectures
    return [name for name in ARCHITECTURES if name in compiled]


def _nearest(present: str, known: Sequence[str]) -> str:
    """Return the newest architecture whose code or PTX runs on the one that is there."""
    fitting = [name for name in known if capability(name) <= capability(present)]
    if not fitting:
        raise ScheduleError(
            f"the GPU here is {present}, which has no dp4a; the oldest that has is {known[0]}"
        )
    return fitting[-1]


def _sorted(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        raise ScheduleError("there is no GPU here to build for; name architectures, or say all")
    return tuple(sorted(set(names), key=capability))
