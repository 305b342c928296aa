"""The zoo's transformers, cut to a block of each kind and narrow, quantized, with the oracle's tensors."""

from benchmarks import zoo
from benchmarks.subject import Subject
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from tests.quantized_networks import QuantizedNetwork

DISTINCT = ("vit_s_16", "swin_t", "convnext_t", "segformer_b0", "mobilevit_s", "bert_base")
"""Those that have kernels of all kinds: of the others', only patches of 32 pixels are not among them."""

SIZES = {
    "vit_b_32": 96,
    "swin_t": 56,
    "mobilevit_s": 32,
    "segformer_b0": 32,
    "bert_base": 16,
    "distilbert": 16,
    "distilbert_3": 16,
}
"""Heights and widths of images or numbers of tokens; of the others 64."""


def small_size(name: str) -> int:
    """Return the size of image, or the number of tokens, that the cut network takes."""
    return SIZES.get(name, 64)


def cut_transformer(name: str) -> QuantizedNetwork:
    """Return a quantized network and what the oracle computes of one input."""
    size = small_size(name)
    mod = normalize()(import_onnx(zoo.build(name, image_size=size, depth="cut", classes=10)))
    inputs = Subject(network=name, image_size=size, depth="cut").inputs(1)
    return QuantizedNetwork.make(mod, preset="int8-asymmetric", inputs=inputs)
