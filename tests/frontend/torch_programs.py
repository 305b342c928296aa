"""Programs that PyTorch 2.13 and 2.15 exported.

They are of ``benchmarks.parity.torch_exporter``, --networks --size 16 and --transformers.
"""

import io
import zipfile
from pathlib import Path

import numpy as np

PROGRAMS = Path(__file__).with_name("torch_programs.zip")


def program(folder: Path, name: str) -> tuple[Path, np.ndarray, np.ndarray]:
    """Return a .pt2 file, an input, and what PyTorch computed from it."""
    with zipfile.ZipFile(PROGRAMS) as found:
        file = Path(found.extract(f"{name}.pt2", folder))
        arrays = np.load(io.BytesIO(found.read(f"{name}.npz")))
        x = next(array for key, array in arrays.items() if key != "output0")
        return file, x, arrays["output0"]


def program_results(
    folder: Path, name: str
) -> tuple[Path, dict[str, np.ndarray], list[np.ndarray]]:
    """Return a .pt2 file, its inputs by name, and all that PyTorch computed from them."""
    with zipfile.ZipFile(PROGRAMS) as found:
        file = Path(found.extract(f"{name}.pt2", folder))
        arrays = dict(np.load(io.BytesIO(found.read(f"{name}.npz"))))
    count = sum(key.startswith("output") for key in arrays)
    return file, arrays, [arrays[f"output{place}"] for place in range(count)]
