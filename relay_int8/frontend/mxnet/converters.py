"""All MXNet operators that can be imported, and why some others cannot."""

from __future__ import annotations

from relay_int8.frontend.mxnet.activations import NONLINEAR
from relay_int8.frontend.mxnet.arithmetic import ARITHMETIC
from relay_int8.frontend.mxnet.attention import ATTENTION
from relay_int8.frontend.mxnet.creation import CREATION
from relay_int8.frontend.mxnet.deformable import DEFORMABLE
from relay_int8.frontend.mxnet.functions import FUNCTIONS
from relay_int8.frontend.mxnet.images import IMAGES
from relay_int8.frontend.mxnet.indices import INDICES
from relay_int8.frontend.mxnet.layers import LAYERS
from relay_int8.frontend.mxnet.logic import LOGIC
from relay_int8.frontend.mxnet.matrices import MATRICES
from relay_int8.frontend.mxnet.movement import MOVES
from relay_int8.frontend.mxnet.numpy_names import NETWORKS, numpy_operators
from relay_int8.frontend.mxnet.recurrent import RECURRENT
from relay_int8.frontend.mxnet.regions import REGIONS
from relay_int8.frontend.mxnet.reshapes import RESHAPES
from relay_int8.frontend.mxnet.sampling import SAMPLING
from relay_int8.frontend.mxnet.slices import SLICES
from relay_int8.frontend.mxnet.step import Converter
from relay_int8.frontend.mxnet.suppression import SUPPRESSION
from relay_int8.frontend.mxnet.symbol import Entry, SymbolNode

OPERATORS: dict[str, Converter] = {
    **ARITHMETIC,
    **ATTENTION,
    **CREATION,
    **DEFORMABLE,
    **FUNCTIONS,
    **IMAGES,
    **INDICES,
    **LAYERS,
    **LOGIC,
    **MATRICES,
    **MOVES,
    **NONLINEAR,
    **RECURRENT,
    **REGIONS,
    **RESHAPES,
    **SAMPLING,
    **SLICES,
    **SUPPRESSION,
}
CONVERTERS: dict[str, Converter] = {**OPERATORS, **numpy_operators(OPERATORS)}

REFUSED = {
    "Custom": "Python code of the model's author",
    "_contrib_DeformablePSROIPooling": "position-sensitive pooling of regions",
    "_contrib_MultiProposal": "region proposals: cut the model there, and make boxes an input",
    "_contrib_PSROIPooling": "position-sensitive pooling of regions",
    "_contrib_Proposal": "region proposals: cut the model there, and make boxes an input",
}
"""Operator -> what stands in the way."""

WEIGHTED_LAYERS = frozenset(
    (
        "BatchNorm",
        "BatchNorm_v1",
        "Convolution",
        "Convolution_v1",
        "CuDNNBatchNorm",
        "Deconvolution",
        "Embedding",
        "FullyConnected",
        "GroupNorm",
        "InstanceNorm",
        "LayerNorm",
        "LeakyReLU",
        "_contrib_DeformableConvolution",
        "_contrib_ModulatedDeformableConvolution",
        "_contrib_SyncBatchNorm",
    )
)
WEIGHTED = WEIGHTED_LAYERS | {f"_npx_{n}" for n, op in NETWORKS.items() if op in WEIGHTED_LAYERS}
"""Operators whose later operands are weights."""

LABELLED = (
    "LinearRegressionOutput",
    "LogisticRegressionOutput",
    "MAERegressionOutput",
    "SVMOutput",
    "Softmax",
    "SoftmaxOutput",
)


def data_inputs(node: SymbolNode) -> tuple[Entry, ...]:
    """Return the inputs that inference reads: no labels."""
    return node.inputs[:1] if node.op in LABELLED else node.inputs
