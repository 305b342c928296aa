"""BERT (Devlin et al. 2018) and DistilBERT (Sanh et al. 2019), as Hugging Face writes them.

Both end in the hidden states of the last layer. BERT reads which tokens are padding, DistilBERT
takes none to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.zoo.attention import attention_of_layers, masked, perceptron
from benchmarks.zoo.tokens import TokenNetwork, Tokens

POSITIONS = 512
EPSILON = 1e-12


@dataclass(frozen=True, kw_only=True)
class Bert:
    """An encoder of words.

    Attributes
    ----------
    blocks, heads, width, hidden
        Blocks, heads of each attention, channels of a token and inside of the perceptrons.
    vocabulary
        Number of words.
    padded
        Whether it has an input for the mask, and embeddings of two types of tokens.
    size
        Number of tokens.
    """

    blocks: int
    padded: bool
    heads: int = 12
    width: int = 768
    hidden: int = 3072
    vocabulary: int = 30522
    size: int = 128
    opset: int = 20
    classes: int = 0

    def narrow(self) -> Bert:
        """Return the same with two narrow blocks and few words."""
        return replace(self, width=64, hidden=128, blocks=2, heads=2, vocabulary=100)

    def write(self, net: TokenNetwork, size: int, _classes: int) -> Tokens:
        """Add the network and return its hidden states."""
        words = net.integers("input_ids", size, "indices", self.vocabulary)
        x = self._embedded(net, words, size)
        mask = masked(net, self._allowed(net, size), "mask")
        for block in range(self.blocks):
            x = self._block(net, x, mask, f"encoder.layer.{block}")
        return x

    def _embedded(self, net: TokenNetwork, words: Tokens, size: int) -> Tokens:
        x = self._gather(net, words, "word_embeddings", self.vocabulary)
        places = net.constant("position_ids", np.arange(size)[None])
        if self.padded:
            types = net.constant("token_type_ids", np.zeros((net.batch, POSITIONS), np.int64))
            types = net.operator("GatherElements", (types, self._places(net, places)), "types",
                                 words.shape, axis=1)  # fmt: skip
            x = net.plus(x, self._gather(net, types, "token_type_embeddings", 2), "add_types")
        x = net.plus(x, self._gather(net, places, "position_embeddings", POSITIONS), "add_places")
        return net.layer_norm(x, "embeddings.LayerNorm", epsilon=EPSILON)

    def _places(self, net: TokenNetwork, places: Tokens) -> Tokens:
        if net.batch == 1:
            return places
        size = places.shape[1]
        return net.constant("position_ids.batch", np.tile(np.arange(size), (net.batch, 1)))

    def _gather(self, net: TokenNetwork, indices: Tokens, name: str, count: int) -> Tokens:
        table = net.parameter(f"embeddings.{name}.weight", (count, self.width), 1.0)
        shape = (*indices.shape, self.width)
        return net.operator("Gather", (table, indices), f"embeddings.{name}", shape, axis=0)

    def _allowed(self, net: TokenNetwork, size: int) -> Tokens:
        """Return which token sees which, a boolean of shape (batch, 1, size, size)."""
        if not self.padded:
            return net.constant("allowed", np.ones((net.batch, 1, size, size), np.bool_))
        mask = net.integers("attention_mask", size, "mask", 2)
        shape = (net.batch, 1, 1, size)
        mask = net.operator("Cast", (mask,), "mask.bool", mask.shape, to=9)
        pairs = np.stack(np.meshgrid(np.arange(net.batch), np.arange(size), indexing="ij"), -1)
        which = net.constant("mask.indices", pairs.reshape(*shape, 2))
        mask = net.operator("GatherND", (mask, which), "mask.keys", shape, batch_dims=0)
        queries = net.constant("mask.queries", np.ones((net.batch, 1, size, 1), np.bool_))
        return net.operator("And", (queries, mask), "mask.allowed", (net.batch, 1, size, size))

    def _block(self, net: TokenNetwork, x: Tokens, mask: Tokens, name: str) -> Tokens:
        part = f"{name}.attention"
        y = attention_of_layers(
            net,
            x,
            part,
            self.heads,
            mask=mask,
            projections=f"{part}.self",
            output=f"{part}.output.dense",
        )
        x = net.plus(y, x, f"{part}.add")
        x = net.layer_norm(x, f"{part}.output.LayerNorm", epsilon=EPSILON)
        y = perceptron(net, x, (f"{name}.intermediate.dense", f"{name}.output.dense"), self.hidden)
        x = net.plus(y, x, f"{name}.add")
        return net.layer_norm(x, f"{name}.output.LayerNorm", epsilon=EPSILON)


BERT_BASE = Bert(blocks=12, padded=True)
DISTILBERT = Bert(blocks=6, padded=False)
DISTILBERT_3 = Bert(blocks=3, padded=False)
