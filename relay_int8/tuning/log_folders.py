"""Where tuning logs lie: ``tuning_logs/<device>/<network>``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tvm.target import Target

from relay_int8.tuning.trial_log import MANIFEST
from schedules.targets import target_config

LOGS = "tuning_logs"


def shipped_logs() -> Path | None:
    """Return the folder of the logs that come with the project, None if there is none.

    It lies in the installed package, or at the root of the repository.
    """
    package = Path(__file__).parents[1]
    folders = (package / LOGS, package.parent / LOGS)
    return next((folder for folder in folders if any(logs(folder))), None)


def logs(folder: Path) -> Iterator[Path]:
    """Yield the folders of the logs in ``folder``, itself or below, in order of their names."""
    for path in sorted(folder.rglob(MANIFEST)):
        yield path.parent


def slug(name: str) -> str:
    """Return ``name`` as part of a path: lower case letters, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def log_folder(
    folder: Path, target: Target, device: str, network: str, multiprocessors: int = 0
) -> Path:
    """Return where in ``folder`` the log of a network that was tuned on a device lies."""
    mcpu = str(target_config(target).get("mcpu", ""))
    return folder / device_folder(device, multiprocessors, mcpu) / slug(network)


def device_folder(name: str, multiprocessors: int = 0, mcpu: str = "") -> str:
    """Return the folder of a device's logs.

    GPUs of one name may differ in multiprocessors, and processors in what they are: virtual ones of
    several generations are all called "AMD EPYC". ``mcpu`` is a CPU's, as the target has it.
    """
    return slug(f"{name} {multiprocessors} sm" if multiprocessors else f"{name} {mcpu}")
