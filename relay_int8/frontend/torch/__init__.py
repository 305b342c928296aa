"""Import a program of ``torch.export`` (.pt2), float or PT2E-quantized; PyTorch is not needed.

What comes out is as the ONNX importer's: ``main`` with one dataflow block, the data inputs as
parameters, the weights as constants. A variable has the name of the module that computes it, as
``layer1.0.conv1``; what a larger module computes itself is called ``layer1.0/add_``, the name of
the node behind that of the module; steps in between ``<variable>/<step>``. Weights of half and
double precision become float32.
"""

from __future__ import annotations

from pathlib import Path

from tvm import IRModule

from relay_int8.argument_types import checked
from relay_int8.frontend.options import (
    NO_SHAPES,
    ImportOptions,
    Shapes,
    refuse_outputs,
    refuse_params,
    refuse_values,
)
from relay_int8.frontend.torch.file import read_archive
from relay_int8.frontend.torch.graph import TorchImporter
from relay_int8.frontend.torch.program import read_program
from relay_int8.frontend.weights import check_finite


def import_file(path: Path, options: ImportOptions) -> IRModule:
    """Import a .pt2 file as ``frontend.model`` wants it."""
    refuse_params(path, options)
    refuse_values(path, options)
    refuse_outputs(path, options)
    return import_torch(path, batch=options.batch, inputs=options.inputs)


@checked
def import_torch(
    source: str | Path, *, batch: int | None = None, inputs: Shapes = NO_SHAPES
) -> IRModule:
    """Return the Relax module of an exported PyTorch program.

    Parameters
    ----------
    source
        A file that ``torch.export.save`` of PyTorch 2.9 or newer wrote.
    batch
        Leading extent of every input; 1, with a notice, where the program leaves it open.
    inputs
        Name -> shape, of inputs that the program leaves open in other dimensions too.

    Raises
    ------
    ConfigError
        ``inputs`` do not go with the program.
    FrontendError
        The file is damaged or of another kind, its shapes stay open, its weights are not finite.
    UnsupportedOpError
        Operators that cannot be imported; all of them are listed with their nodes.
    """
    program = read_program(read_archive(Path(source)))
    return check_finite(TorchImporter(program, batch, inputs).run())
