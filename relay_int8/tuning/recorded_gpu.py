"""Which GPU's tuning logs a build may use: GPUs of one architecture differ in what is fast.

An L4 and an RTX 4090 are both sm_89, with 58 and 128 multiprocessors. So logs are those of the GPU
that this computer has; where it has none that runs the code, those of the only GPU they are of.
"""

from __future__ import annotations

from collections.abc import Collection

from tvm.target import Target

from relay_int8.machine.gpu import Gpus
from relay_int8.tuning.trial_log import LogManifest
from schedules.cuda.device.gpus import capability

Model = tuple[str, int]
"""A GPU's name and its number of multiprocessors."""


def model_of(manifest: LogManifest) -> Model:
    """Return the GPU that a log is of."""
    return manifest.device, manifest.multiprocessors


def present_models(target: Target, gpus: Gpus) -> frozenset[Model]:
    """Return the GPUs here that run code for ``target``."""
    least = capability(str(target.attrs["arch"]))
    return frozenset(
        (gpu.name, gpu.multiprocessors)
        for gpu in gpus.devices
        if capability(gpu.architecture) >= least
    )


def other_gpu(model: Model, present: Collection[Model], recorded: Collection[Model]) -> str | None:
    """Say why the log of a GPU is not used, or None.

    Parameters
    ----------
    present
        The GPUs that are here.
    recorded
        All that there are logs of; empty where a log is to be of a GPU that is here.
    """
    if model in present or (not present and set(recorded) == {model}):
        return None
    if present:
        return (
            f"recorded on {_name(model)}, this computer has {_names(present)}; tune there, or, to "
            "build for the other, hide this computer's (CUDA_VISIBLE_DEVICES=)"
        )
    return (
        f"recorded on {_name(model)}, and there are logs of {_names(recorded)} and none of these "
        "GPUs here; name the folder of one GPU"
    )


def _name(model: Model) -> str:
    return f"{model[0]} with {model[1]} multiprocessors"


def _names(models: Collection[Model]) -> str:
    return ", ".join(map(_name, sorted(models)))
