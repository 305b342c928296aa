"""Runs under PyTorch: programs of what transformers and recurrent networks consist of.

Each returns several results, one for every way to use an operator, so that few programs hold them
all: ``tests/frontend/torch_programs.zip`` keeps them.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.parity.torch_functions import functions
from benchmarks.parity.torch_operators import Wrapped

Results = list[torch.Tensor]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> Results:
    """Attention with every kind of mask; a row that excludes everything gives zeros."""
    attend = F.scaled_dot_product_attention
    known = torch.arange(5)[:, None] >= torch.arange(7) - 1
    empty = known & (torch.arange(5)[:, None] != 2)
    added = torch.where(bias > 0, bias, float("-inf"))
    return [
        attend(q, k, v),
        attend(q, k, v, scale=0.3),
        attend(q, k, v, is_causal=True),
        attend(q, k, v, attn_mask=known),
        attend(q, k, v, attn_mask=torch.ones(5, 7, dtype=torch.bool)),
        attend(q, k, v, attn_mask=empty),
        attend(q, k, v, attn_mask=bias > 0.5),
        attend(q, k, v, attn_mask=bias),
        attend(q, k, v, attn_mask=added),
        attend(q, k, v, attn_mask=torch.zeros(5, 7).masked_fill(~empty, float("-inf"))),
        attend(q, k[:, :2], v[:, :2], enable_gqa=True),
    ]


def logic(a: torch.Tensor, b: torch.Tensor) -> Results:
    """Comparisons and choices, by values of the input and by constants."""
    big, positive = a > b, a > 0
    endless = a.masked_fill(big, float("inf"))
    masks = [
        big & positive,
        big | ~positive,
        big ^ positive,
        torch.logical_and(a.relu(), positive),
        torch.logical_or(big, positive),
        torch.logical_not(a.relu()),
        torch.logical_xor(big, positive),
        a >= 0.25,
        a < b,
        a <= b.round(),
        a.round() == 1,
        a.round() != b.round(),
        (a.relu() == 0).any(1, keepdim=True),
        big.all(-1),
        big.any(),
        torch.isinf(endless),
        torch.isnan(a.log()),
    ]
    return [mask.float() for mask in masks] + [
        torch.where(big, a, b),
        torch.where(big, a, 1.5),
        torch.where(torch.arange(12) >= 4, a, b[:, :1]),
        a.masked_fill(big, -3.0),
        a.masked_fill(torch.ones(12, 12).triu(1)[:4].bool(), float("-1e4")),
        a.clone().masked_fill_(positive, 2),
        (a * 3).long().masked_fill(big, 7).float(),
    ]


def places(a: torch.Tensor, ids: torch.Tensor, weight: torch.Tensor) -> Results:
    """Read and write at places, constant ones and those of an input."""
    rows = torch.tensor([[2, 0], [1, -1]])
    put = a.clone()
    put[:, rows] = weight[:2, :5].unsqueeze(0)
    put[0, 1] = 4.0
    put[1, :, 1:4] += 1
    return [
        F.embedding(ids, weight),
        F.embedding(torch.arange(3) + 1, weight),
        F.embedding(ids, weight, padding_idx=0),
        a[:, rows],
        a[:, :, torch.tensor([4, 0, 2])],
        a[rows[:, 0] - 1, :, torch.tensor([1, -1])],
        a[torch.tensor([1, 0]), torch.tensor([-1, 1])],
        a[:, torch.tensor([True, False, True])],
        a[:, ids[0, :2] % 3 - 3],
        a[ids[0, :2] % 2, ids[1, :2] % 3],
        a.index_select(1, torch.tensor([2, 2])),
        a.index_select(2, ids[1]),
        a.gather(1, rows.abs()[None].expand(2, 2, 2)),
        a.gather(2, (ids % 5)[:, None].expand(2, 3, 4)),
        a.roll((1, -2), (1, 2)),
        a.roll(4),
        a.roll(3, 1),
        put,
        torch.slice_scatter(a, a[:, :, :2] * 2, 2, 1, 5, 2),
        torch.select_scatter(a, a[0] * 3, 0, -1),
    ]


def created(a: torch.Tensor) -> Results:
    """Constants of every kind, and masks that are filled part by part."""
    mask = a.new_zeros((6, 6))
    for count, rows in enumerate((slice(0, -4), slice(-4, -2), slice(-2, None))):
        mask[rows, 1:] = count
        mask[:, rows].add_(10 * count)
    apart = mask.view(2, 3, 6).unsqueeze(1) - mask.view(2, 3, 6).unsqueeze(2)
    steps = torch.arange(6)
    angles = torch.outer(steps.float(), 1.0 / 100 ** (torch.arange(0, 6, 2).float() / 6))
    return [
        a + steps,
        a + torch.arange(1, 4, 0.5),
        a * torch.arange(5, -1, -1) / 2,
        a + torch.full((4, 1), 2) + torch.full((6,), 0.5),
        a * torch.ones_like(a) - torch.zeros_like(a) + torch.full_like(a, 3),
        a + a.new_full((6,), 2.0) + a.new_ones(6) + torch.ones(4, 6),
        a @ mask,
        apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0) + a[0],
        a[:, :3] * angles.sin()[:4] + a[:, 3:] * angles.cos()[:4],
        a + torch.ones(6, 6).tril()[:4].cumsum(0),
        a + (steps // 4) + steps % 4 + torch.remainder(-steps, 4) + torch.fmod(-steps, 4),
        a * (steps > 2).sum() + steps.float().sum() / steps.numel(),
        a + torch.div(-steps, 4, rounding_mode="floor") + steps / 4,
        torch.div(a * 5, 2, rounding_mode="trunc") + (a * 5) // 2,
    ]


def views(a: torch.Tensor) -> Results:
    """Change parts in place, and read that through the whole and through other parts."""
    whole = a * 1
    left, right = whole[:, :3], whole.transpose(0, 1)
    left.add_(1).mul_(2)
    rows = whole.view(2, 2, 6)
    rows[:, 1, ::2].relu_()
    first = whole.select(1, 0)
    right[4].zero_()
    parts = whole.split(2, 1)
    parts[2].copy_(parts[0] - 5)
    kept = whole.clone()
    whole.unsqueeze(0).fill_(7.0)
    return [left * 1, rows + 0, right + 0, first + 1, parts[2] * 2, kept, whole + 0]


def norms(a: torch.Tensor) -> Results:
    """Return products, norms and statistics that models write out."""
    return [
        torch.baddbmm(a, a, a.transpose(1, 2) @ a, beta=0.5, alpha=2.0),
        torch.einsum("bij, bkj -> bik", a, a),
        torch.linalg.vector_norm(a, dim=(1, 2), keepdim=True),
        a.norm(dim=1),
        2.0**a,
        a.as_strided((2, 2, 10), (20, 10, 1)),
        a.var(2),
        a.std((0, 1), keepdim=True, correction=0),
        *torch.var_mean(a, 1),
        *a.max(1),
        *a.min(2, keepdim=True),
        a.max() - a.min() + torch.max(a, a.flip(0)),
        a.prod(1),
        a.sign() + (3 * a).trunc(),
        a.abs().log1p() + a.expm1() + (a.abs() + 1).log2(),
        a.tan().atan(),
        a.clamp(a.mean(), a.amax()),
        a.diff() + a.diff(n=2, dim=1, prepend=a[:, :2])[:, :, :4],
        a[:1].expand_as(a) + a.view(-1).view_as(a) + a.reshape(-1).reshape_as(a),
        ((a > 0) * (a < 1)).float(),
    ]


def axes(a: torch.Tensor) -> Results:
    """Return moved axes, repeated elements, and norms without weights."""
    return [
        a.swapaxes(0, -1),
        a.swapdims(1, 2),
        a.movedim(0, -1),
        a.movedim((2, 0), (0, 1)),
        a.moveaxis(-1, 0),
        a.repeat_interleave(3, dim=1),
        a[:, :1].broadcast_to(2, 4, 6),
        F.glu(a),
        F.glu(a, 1),
        F.rms_norm(a, (6,)),
        F.rms_norm(a, (4, 6), eps=1e-3),
        F.instance_norm(a),
        *torch.meshgrid(a[0, 0], a[1, :, 2], a[0, :2, 0], indexing="xy"),
        *torch.meshgrid(a[0, 0], torch.arange(3.0), indexing="ij"),
        F.unfold(a[None], 2, stride=2),
        F.fold(a.reshape(1, 8, 6), (4, 6), 2, stride=2),
    ]


class Recurrent(nn.Module):  # type: ignore[misc]
    """A recurrent layer, its last states returned too; with states given, where there are any."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layer = kind(5, 4, **options)

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> Any:
        """Run over sequences."""
        if not states:
            return self.layer(x)
        return self.layer(x, states if len(states) > 1 else states[0])


class Encoder(nn.Module):  # type: ignore[misc]
    """A layer of torch's encoder over embedded tokens, behind a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(20, 8), nn.Embedding(7, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.classes = nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Classify sentences."""
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        x = torch.cat([self.token.expand(len(ids), -1, -1), x], 1)
        return self.classes(self.layers(x)[:, 0])


class Rotary(nn.Module):  # type: ignore[misc]
    """Positions as angles, computed in graphs of their own: no gradients, one type."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = nn.Buffer(torch.tensor([1.0, 0.1, 0.01]))
        kernel = nn.Conv1d(6, 6, 3, padding=1, groups=2)
        self.layer = nn.utils.parametrizations.weight_norm(kernel, dim=2)

    def forward(self, x: torch.Tensor) -> Results:
        """Turn pairs of channels, and convolve along positions with normed weights."""
        with torch.no_grad():
            places = torch.arange(x.shape[1], device=x.device)[None, :, None]
            with torch.autocast("cpu", enabled=False):
                angles = places.float() * self.frequencies
                cosines, sines = angles.cos(), angles.sin()
        a, b = x.chunk(2, -1)
        turned = torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1)
        return [turned, self.layer(turned.transpose(1, 2)), turned.reshape(-1, 6)]


def _states(count: int, runs: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(runs, 3, 4) for _ in range(count))


def programs() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Return name -> module and inputs."""
    heads, rows, x = (2, 4, 5, 6), (2, 4, 7, 6), torch.randn(3, 2, 5)
    ids = torch.randint(0, 5, (2, 4))
    turned = {"bidirectional": True, "num_layers": 2}
    return {
        "attention": (
            Wrapped(attention),
            tuple(torch.randn(dims) for dims in (heads, rows, rows, (2, 1, 5, 7))),
        ),
        "logic": (Wrapped(logic), (torch.randn(4, 12), torch.randn(4, 12))),
        "places": (Wrapped(places), (torch.randn(2, 3, 5), ids, torch.randn(6, 5))),
        "created": (Wrapped(created), (torch.randn(4, 6),)),
        "views": (Wrapped(views), (torch.randn(4, 6),)),
        "norms": (Wrapped(norms), (torch.randn(2, 4, 5),)),
        "axes": (Wrapped(axes), (torch.randn(2, 4, 6),)),
        **{name: (Wrapped(f), inputs) for name, (f, inputs) in functions().items()},
        "rotary": (Rotary(), (torch.randn(2, 5, 6),)),
        "encoder": (Encoder(), (torch.randint(0, 20, (2, 6)),)),
        "gru": (Recurrent(nn.GRU, batch_first=True, **turned), (x,)),
        "gru_given": (Recurrent(nn.GRU, bias=False), (x.transpose(0, 1).clone(), *_states(1, 1))),
        "lstm": (Recurrent(nn.LSTM, bidirectional=True), (x,)),
        "lstm_given": (Recurrent(nn.LSTM, batch_first=True, num_layers=2), (x, *_states(2, 2))),
        "lstm_projected": (Recurrent(nn.LSTM, proj_size=2), (x,)),
        "rnn": (Recurrent(nn.RNN, nonlinearity="relu", bidirectional=True), (x,)),
        "rnn_tanh": (Recurrent(nn.RNN), (x,)),
    }
