"""What would a fused attention kernel keep and compute, told without running one?

An operator with shapes and a FLOP count but no kernel, so it runs on fake tensors only. As flash
attention does, it keeps q, k, v, the output and the float32 log-sum-exp of each row; no S x S matrix
exists, grouped key heads are not repeated, and a sliding window leaves out the products that it masks.
The scores that a backward kernel computes again are not counted.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, register_fake
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "chimera_fused"
"""The kernel's name among the attention functions; one with "flash" in it `transformers` would try to
import.
"""

_LIBRARY = Library("chimera", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("fused(Tensor q, Tensor k, Tensor v, int keys) -> (Tensor, Tensor)")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "fused_backward(Tensor q, Tensor k, Tensor v, int keys, Tensor out, Tensor rows, Tensor gradient)"
    " -> (Tensor, Tensor, Tensor)"
)


def attend(_module: Any, *tensors: Any, **options: Any) -> tuple[Tensor, None]:
    """Attention as `transformers` asks for it: module, q, k, v [B, heads, S, d] and a mask to [B, S,
    heads, d].
    """
    query, key, value = tensors[:3]
    length = key.shape[2]
    keys = min(length, int(options.get("sliding_window") or length))
    out: Tensor = _Fused.apply(query, key, value, keys)  # type: ignore[no-untyped-call]
    return out.transpose(1, 2).contiguous(), None


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tensors, ctx.keys = inputs
        out, rows = torch.ops.chimera.fused(*tensors, ctx.keys)
        ctx.save_for_backward(*tensors, out, rows)
        return out  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        q, k, v, out, rows = ctx.saved_tensors
        found = torch.ops.chimera.fused_backward(q, k, v, ctx.keys, out, rows, gradients[0])
        return (*found, None)


def _shapes(q: Tensor, _k: Tensor, v: Tensor, _keys: int) -> tuple[Tensor, Tensor]:
    out = torch.empty_like(q) if q.shape[-1] == v.shape[-1] else q.new_empty(*q.shape[:-1], v.shape[-1])
    return out, q.new_empty(q.shape[:-1], dtype=torch.float32)


def _gradient_shapes(*inputs: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor) for tensor in inputs[:3])


def _forward_flops(*shapes: Any, **_: Any) -> int:
    """q·kᵀ and p·v: 2·B·heads·S·keys·(d + d_v), from the shapes of the inputs."""
    q, _k, v, keys = shapes[:4]
    return int(2 * math.prod(q[:-1]) * keys * (q[-1] + v[-1]))


def _backward_flops(*shapes: Any, **_: Any) -> int:
    """Two products for each one of the forward, without the scores computed again."""
    return 2 * _forward_flops(*shapes)


register_fake("chimera::fused", _shapes, lib=_LIBRARY)
register_fake("chimera::fused_backward", _gradient_shapes, lib=_LIBRARY)
ALL_ATTENTION_FUNCTIONS.register(NAME, attend)

FLOP_FORMULAS = {
    torch.ops.chimera.fused: _forward_flops,
    torch.ops.chimera.fused_backward: _backward_flops,
}
"""What FlopCounterMode adds for the operator."""
