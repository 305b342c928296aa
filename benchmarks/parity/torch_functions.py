"""Runs under PyTorch: programs of operators that sort, write at places, resize, pool and choose.

Each returns several results, as those of ``benchmarks.parity.torch_transformers`` do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

Results = list[torch.Tensor]


def ordered(a: torch.Tensor, b: torch.Tensor) -> Results:
    """Order elements, and find the first of an order."""
    return [
        *a.topk(3),
        *a.topk(2, dim=1, largest=False),
        *a.sort(dim=1, descending=True),
        a.argsort(),
        a.argmin(1),
        a.argmax(),
        torch.argmin(a, keepdim=True),
        a.logsumexp(-1),
        a.logsumexp((0, 2), keepdim=True),
        a.cumprod(2),
        F.cosine_similarity(a, b, dim=1),
        F.cosine_similarity(a, b[:1], dim=-1),
        a.norm(p=1, dim=-1),
        a.norm(p=float("inf"), dim=(1, 2), keepdim=True),
        torch.linalg.vector_norm(a),
        F.one_hot(a.argmax(-1), 6) + 0,
        a + torch.linspace(-1, 1, 5),
        a @ torch.eye(5, 4) + torch.eye(4)[1],
    ]


def scattered(a: torch.Tensor, b: torch.Tensor, ids: torch.Tensor) -> Results:
    """Write and add at places that an input gives."""
    put, added, masked = a.clone(), a.clone(), a.clone()
    put[:, ids[0, :2] % 3] = a[:, 1:] * 2
    added.index_put_((ids[0] % 2, ids[1] % 3), b[0, 0][:, None], accumulate=True)
    masked[a > 0.5] = -2.0
    apart = a.clone()
    apart[ids[0, :2] % 2, :, ids[1, :2] % 5] = 7.0
    wide = (ids % 5)[:, None].expand(2, 3, 4)
    return [
        put,
        added,
        masked,
        apart,
        a.scatter(2, (ids % 5)[:, None], b),
        a.scatter(2, wide[:, :, :1], 3.0),
        a.scatter_add(2, wide, b),
        a.scatter_reduce(2, wide[:, :, :2], b, "amax"),
        a.index_add(1, ids[0, :2] % 3, a[:, 1:], alpha=2),
        a.index_copy(2, torch.tensor([3, 0]), b[:, :, :2]),
        a.index_fill(1, ids[0, :1] % 3, 0.5),
        a.unfold(2, 3, 2),
        a.diagonal(1, 1, 2),
        torch.take_along_dim(a, wide, 2),
    ]


ADAPTED = ((9, 12), (4, 3), (7, 5))
"""Sizes to which 6 x 8 pixels are pooled by windows that overlap, or repeat pixels."""


def resized(a: torch.Tensor, video: torch.Tensor, grid: torch.Tensor) -> Results:
    """Resize, sample, cut and pool images and videos."""
    size, block = (7, 9), {"kernel_size": (3, 2), "padding": (1, 0), "dilation": (1, 2)}
    return [
        F.interpolate(a, size, mode="bicubic"),
        F.interpolate(a, size, mode="bicubic", align_corners=True),
        F.interpolate(a, size, mode="nearest-exact"),
        F.interpolate(a, scale_factor=2, mode="nearest-exact"),
        F.interpolate(a, scale_factor=0.5, mode="bilinear"),
        F.interpolate(a, scale_factor=0.5),
        F.interpolate(video, scale_factor=2),
        F.interpolate(video, (3, 5, 8), mode="trilinear"),
        F.interpolate(video, (3, 5, 8), mode="trilinear", align_corners=True),
        *(
            F.grid_sample(a, grid, mode, padding, align_corners=corners)
            for mode, padding, corners in (
                ("bilinear", "zeros", False),
                ("bilinear", "border", True),
                ("nearest", "zeros", False),
                ("bicubic", "reflection", False),
            )
        ),
        F.unfold(a, stride=2, **block),
        F.unfold(a, 3),
        F.max_pool3d(video, (1, 3, 2), stride=(1, 2, 2), padding=(0, 1, 0)),
        F.avg_pool3d(video, (2, 2, 2), ceil_mode=True),
        F.adaptive_avg_pool3d(video, (1, 2, 3)),
        F.adaptive_max_pool3d(video, (1, 2, 3)),
        F.adaptive_max_pool2d(a, (3, 2)),
        *(F.adaptive_avg_pool2d(a, extents) for extents in ADAPTED),
        *(F.adaptive_max_pool2d(a, extents) for extents in ADAPTED),
    ]


def synonyms(a: torch.Tensor, b: torch.Tensor) -> Results:
    """Operators by their second names, joins, and activations that are seldom used."""
    nan = (a - 3).log()
    return [
        torch.clip(a, -0.5, 0.5) + torch.negative(a) + torch.multiply(a, b) - torch.absolute(b),
        torch.subtract(a, b, alpha=2) + torch.true_divide(a, b.abs() + 1) + torch.divide(a, 3),
        torch.where(torch.greater(a, b), a, b) + torch.less_equal(a, b) * torch.not_equal(a, 0),
        torch.hstack([a, b]),
        torch.hstack([a[0], b[0, :2]]),
        torch.vstack([a[0], b[0]]),
        torch.column_stack([a[:, 0], b]),
        torch.concatenate([a, b], -1),
        torch.tile(a, (2,)),
        torch.tile(a, (2, 1, 2)),
        *torch.broadcast_tensors(a[:, :1], b[0]),
        torch.addcmul(a, b, b, value=0.3) + torch.addcdiv(a, a, b.abs() + 1),
        torch.lerp(a, b, 0.25) + torch.lerp(a, b, b.sigmoid()),
        nan.nan_to_num() + nan.nan_to_num(0.5, 2.0, -1.0),
        torch.isfinite(nan).float(),
        a.atan2(b) + a.tanh().asin() + a.tanh().acos() + a.sinh() + a.cosh() + a.asinh(),
        a.tanh().atanh() + (a.abs() + 2).acosh() + a.frac() + a.exp2() + (a.abs() + 1).log10(),
        F.logsigmoid(a) + F.celu(a, 0.7) + F.hardshrink(a) + F.softshrink(a, 0.3),
        F.threshold(a, 0.1, -2.0) + torch.logit(a.sigmoid()) + torch.logit(a, eps=0.1),
        torch.mv(a, b[0]) + torch.dot(a[0], b[0]),
        *torch.tensor_split(a, 2),
        *torch.tensor_split(b, (1, 3), dim=1),
        torch.cat([torch.tensor([]), a[0]]),
        F.linear(a, b[0]) + a.T[:3, 0] + a.mT[:3, 1],
        a + torch.arange(1, 6).sqrt() + (a > 0).long().exp(),
    ]


def bags(ids: torch.Tensor, table: torch.Tensor, shares: torch.Tensor) -> Results:
    """Add up rows of a table, as many for each bag or not."""
    offsets = torch.tensor([0, 2, 5])
    return [
        F.embedding_bag(ids, table),
        F.embedding_bag(ids, table, mode="sum"),
        F.embedding_bag(ids, table, mode="max"),
        F.embedding_bag(ids, table, mode="sum", per_sample_weights=shares),
        F.embedding_bag(ids.flatten(), table, offsets),
        F.embedding_bag(ids.flatten(), table, torch.tensor([0, 3, 8]), include_last_offset=True),
    ]


def functions() -> dict[str, tuple[Callable[..., Results], tuple[torch.Tensor, ...]]]:
    """Return name -> function and inputs."""
    a, b, ids = torch.randn(2, 3, 5), torch.randn(2, 3, 5), torch.randint(0, 6, (2, 4))
    grid = torch.rand(2, 3, 4, 2) * 2.6 - 1.3
    return {
        "ordered": (ordered, (a, b)),
        "scattered": (scattered, (a, b[:, :, :4].clone(), ids)),
        "resized": (resized, (torch.randn(2, 3, 6, 8), torch.randn(1, 2, 2, 4, 6), grid)),
        "synonyms": (synonyms, (a[0], b[0])),
        "bags": (bags, (ids, torch.randn(6, 5), torch.rand(2, 4))),
    }
