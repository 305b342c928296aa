"""The first stage: a model file becomes an imported network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvm import IRModule

from relay_int8.argument_types import checked
from relay_int8.compiler.pipeline import normalize
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.frontend.model import import_model, model_bytes
from relay_int8.frontend.options import ImportOptions
from relay_int8.graph import dataflow
from relay_int8.graph.interface import inputs_of, open_inputs, outputs_of


@dataclass(frozen=True, kw_only=True)
class Model:
    """An imported network, not yet changed.

    Parameters
    ----------
    module
        A Relax module as the frontends give it: ``main``, one dataflow block.
    name
        What reports call it, usually the name of its file.
    file_bytes
        Size of the file and its weights; 0 if it comes from none.
    """

    module: IRModule
    name: str = "model"
    file_bytes: int = 0

    def __repr__(self) -> str:
        """Return its name, what it takes and gives; ``module.show()`` prints the whole.

        Examples
        --------
        >>> from relay_int8 import ImportOptions, demo, load_model
        >>> load_model(demo.MODEL, ImportOptions(batch=1))
        <Model digits_resnet.onnx: image float32 1 x 1 x 8 x 8 -> logits float32 1 x 10>
        """
        takes, gives = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        return f"<Model {self.name}: {takes} -> {gives}>"

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and type of each input."""
        return inputs_of(self.module)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and type of each output."""
        return outputs_of(self.module)

    @property
    def is_quantized(self) -> bool:
        """Whether another tool quantized it; then it keeps its scales."""
        return dataflow.is_quantized(self.module)


@checked
def load_model(source: str | Path, options: ImportOptions | None = None) -> Model:
    """Return the network of a model file (ONNX, MXNet, PyTorch, TFLite, by the ending of its name).

    Parameters
    ----------
    source
        The file; weights that lie beside it are found.
    options
        What the file leaves open: batch, shapes of inputs, file of the weights.

    Raises
    ------
    ConfigError
        An option says what files of this format say themselves.
    FrontendError
        The file cannot be read.
    UnsupportedOpError
        Operators that cannot be imported; all of them are listed.

    Examples
    --------
    >>> relay_int8.load_model("digits.onnx", relay_int8.ImportOptions(batch=1))
    <Model digits.onnx: image float32 1 x 1 x 8 x 8 -> logits float32 1 x 10>
    """
    options = options or ImportOptions()
    module = import_model(source, options)
    return Model(
        module=module, name=Path(source).name, file_bytes=model_bytes(source, options.params)
    )


def data_inputs(mod: IRModule) -> tuple[TensorInfo, ...]:
    """Return the inputs of an imported module as its data is checked against."""
    if all(dataflow.shape(param)[:1] == (1,) for param in mod["main"].params):
        return open_inputs(mod)
    return open_inputs(normalize()(mod))
