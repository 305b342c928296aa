"""Every PyTorch operator that can be imported, by torch's name with its namespace."""

from __future__ import annotations

from relay_int8.frontend.torch.activations import ACTIVATIONS
from relay_int8.frontend.torch.arithmetic import ARITHMETIC
from relay_int8.frontend.torch.attention import ATTENTION
from relay_int8.frontend.torch.bags import BAGS
from relay_int8.frontend.torch.creation import CREATION
from relay_int8.frontend.torch.cumulative import CUMULATIVE
from relay_int8.frontend.torch.deformable import DEFORMABLE
from relay_int8.frontend.torch.diagonals import DIAGONALS
from relay_int8.frontend.torch.experts import EXPERTS
from relay_int8.frontend.torch.extents import EXTENTS
from relay_int8.frontend.torch.gamma import GAMMA
from relay_int8.frontend.torch.images import IMAGES
from relay_int8.frontend.torch.indexing import INDEXING
from relay_int8.frontend.torch.layers import LAYERS
from relay_int8.frontend.torch.logic import LOGIC
from relay_int8.frontend.torch.matrices import MATRICES
from relay_int8.frontend.torch.movement import MOVES
from relay_int8.frontend.torch.norms import NORMS
from relay_int8.frontend.torch.parts import PARTS
from relay_int8.frontend.torch.pooling import POOLING
from relay_int8.frontend.torch.quantized import QUANTIZED
from relay_int8.frontend.torch.recurrent import RECURRENT
from relay_int8.frontend.torch.reductions import REDUCTIONS
from relay_int8.frontend.torch.regions import REGIONS
from relay_int8.frontend.torch.rolls import ROLLS
from relay_int8.frontend.torch.sampling import SAMPLING
from relay_int8.frontend.torch.scattering import SCATTERING
from relay_int8.frontend.torch.sorting import SORTING
from relay_int8.frontend.torch.special import SPECIAL
from relay_int8.frontend.torch.spectra import SPECTRA
from relay_int8.frontend.torch.step import Converter
from relay_int8.frontend.torch.unbatched import batch_optional

OPERATORS = (
    batch_optional(LAYERS | POOLING)
    | NORMS
    | RECURRENT
    | ATTENTION
    | ARITHMETIC
    | ACTIVATIONS
    | REDUCTIONS
    | CUMULATIVE
    | LOGIC
    | CREATION
    | INDEXING
    | DIAGONALS
    | ROLLS
    | BAGS
    | SCATTERING
    | SORTING
    | MATRICES
    | GAMMA
    | SPECIAL
    | MOVES
    | PARTS
    | IMAGES
    | SAMPLING
    | SPECTRA
)
SYNONYMS = {
    "absolute": "abs",
    **{f"arc{name}": f"a{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tan2", "tanh")},
    "clip": "clamp",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "linalg_matmul": "matmul",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "row_stack": "vstack",
    "sgn": "sign",
    **{
        f"special_{name}": name
        for name in (
            *("digamma", "erf", "exp2", "expm1", "log1p", "log_softmax", "logit", "logsumexp"),
            *("round", "sinc", "softmax", "xlogy"),
        )
    },
    "special_expit": "sigmoid",
    "special_gammaln": "lgamma",
    "special_psi": "digamma",
    "subtract": "sub",
    "true_divide": "div",
}
"""Other names of operators -> those that they are read as."""
CONVERTERS: dict[str, Converter] = (
    {f"aten.{name}": converter for name, converter in OPERATORS.items()}
    | {f"aten.{name}": OPERATORS[other] for name, other in SYNONYMS.items()}
    | DEFORMABLE
    | EXPERTS
    | EXTENTS
    | QUANTIZED
    | REGIONS
)
CHECKS = (
    "aten._assert_scalar",
    "aten.sym_constrain_range_for_size",
    "aten.sym_constrain_range",
)
"""What the exporter states about extents; the import finds them itself."""
