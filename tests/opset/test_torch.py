"""Every op that torch has too: the NumPy reference and the compiled op against torch on the CPU.

Torch is another implementation by other people, so what both agree on is unlikely to be a shared
mistake. Where the two differ by intention, `DIFFERENT` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.ir import Shape
from maxlab.opset import OPSET
from tests.compiler.interpret import Array, interpret, load, outputs_of, same
from tests.compiler.test_matrix import CASES, Case, build
from tests.opset.torch_spatial import TORCH as SPATIAL

pytestmark = pytest.mark.oracle

Attrs = Mapping[str, Any]
Torch = Callable[..., Any]  # (torch, attributes, *operands) -> result

NO_TORCH = {
    "mo.allgather": "several devices: see tests/devices",
    "mo.allreduce.sum": "several devices: see tests/devices",
    "mo.call": "runs other ops: see tests/control",
    "mo.cond": "runs other ops: see tests/control",
    "mo.while": "runs other ops: see tests/control",
    "mo.constant": "data",
    "mo.constant.external": "data",
    "mo.output": "ends a graph",
    "mo.buffer.create": "memory: see tests/effects",
    "mo.buffer.load": "memory: see tests/effects",
    "mo.buffer.load_slice": "memory: see tests/effects",
    "mo.buffer.store": "memory: see tests/effects",
    "mo.buffer.store_slice": "memory: see tests/effects",
    "mo.cache.attention": "memory: see tests/nn/kernels",
    "mo.cache.load": "memory: see tests/nn/kernels",
    "mo.cache.add_lora": "memory: see tests/nn/kernels",
    "mo.lora.product": "torch has no adapters of rows: tests/nn/kernels/test_adapters.py",
    "mo.experts.indices": "torch sorts and counts apart: tests/nn/moe/test_kernels.py",
    "mo.experts.matmul": "torch has no groups of rows on a CPU: tests/nn/moe/test_kernels.py",
    "mo.latent.attention": "memory: see tests/nn/kernels",
    "mo.latent.chunk": "memory: see tests/nn/kernels",
    "mo.latent.expand": "memory: see tests/nn/kernels",
    "mo.latent.load": "memory: see tests/nn/kernels",
    "mo.ragged.attention": "torch has no ragged rows: tests/opset/test_reference.py",
    "mo.ragged.sequences": "torch has no ragged rows: tests/opset/test_reference.py",
    "mo.cache.store": "memory: see tests/nn/kernels",
    "mo.chain": "an order: see tests/effects",
    "mo.sample.count": "memory: see tests/nn/kernels/test_sampling.py",
    "mo.sample.penalise": "memory: see tests/nn/kernels/test_sampling.py",
    "mo.sample.scores": "torch has no sampler; transformers has: tests/nn/kernels/test_sampling.py",
    "mo.sample.token": "torch has no sampler; transformers has: tests/nn/kernels/test_sampling.py",
    "mo.sample.uniform": "other numbers; those of NumPy: tests/opset/test_reference.py",
    "mo.print": "prints: see tests/effects",
    "mo.host": "a function of Python: what it computes is up to it",
    "mo.dim": "a size as a tensor: torch sizes are Python numbers",
    "mo.rebind": "names sizes; computes nothing",
    "mo.transfer": "copies between devices",
    "mo.watch": "gives values to a function: see tests/nn/test_hooks.py",
    "mo.matmul_blocks": "blocks of ggml: tests/nn/test_packed_layers.py",
    "mo.matmul_float8": "weights of 8-bit floats: tests/nn/float8/test_products.py",
    "mo.matmul_float8_ragged": "weights of 8-bit floats: tests/nn/float8/test_products.py",
    "mo.matmul_int8": "weights of bytes: tests/opset/test_int8.py",
    "mo.matmul_groups": "weights of GPTQ: tests/nn/test_gptq.py",
    "mo.dequantize": "blocks of ggml: tests/opset/test_gguf.py",
    "mo.qmatmul": "blocks of ggml: tests/opset/test_gguf.py",
    "mo.bind_dim": "names sizes; computes nothing",
    "mo.nonzero.count": "a part of nonzero",
    "mo.repeat.index": "a part of repeat_interleave: tests/opset/test_torch_dynamic.py",
    "mo.range.size": "a size as a tensor: torch sizes are Python numbers",
    "mo.slice.bounds": "a size as a tensor: torch sizes are Python numbers",
    "mo.random": "other numbers; the generator has published ones: tests/graph/test_ops_random.py",
    "mo.custom": "what a user's kernel computes is up to it",
    "mo.custom.inplace": "what a user's kernel computes is up to it",
    "mo.irfft": "NumPy's is exact to the last bits: tests/graph/test_ops_spectral.py",
    "mo.irfft.rows": "a part of irfft",
}


def plain(name: str) -> Torch:
    """The function ``torch.<name>`` of the operands alone."""
    return lambda t, attrs, *xs: getattr(t, name)(*xs)


def along(name: str, **more: Any) -> Torch:
    """The function ``torch.<name>`` along the attribute ``axis``."""
    return lambda t, attrs, x: getattr(t, name)(x, dim=attrs["axis"], **more)


def cumsum(t: Any, attrs: Attrs, x: Any) -> Any:
    """The running sum, whose own element an exclusive one takes out again by shifting."""
    axis = attrs["axis"]
    turned = t.flip(x, [axis]) if attrs["reverse"] else x
    wide = turned.to(t.float32) if turned.dtype in (t.float16, t.bfloat16) else turned
    total = t.cumsum(wide, axis, dtype=wide.dtype)
    if attrs["exclusive"]:
        total = t.roll(total, 1, axis)
        total.select(axis, 0).zero_()
    total = total.to(x.dtype)
    return t.flip(total, [axis]) if attrs["reverse"] else total


def band_part(t: Any, attrs: Attrs, x: Any) -> Any:
    """What a lower and an upper triangle have in common, or all the rest."""
    inside = t.ones(x.shape[-2:], dtype=t.bool)
    if attrs["num_lower"] is not None:
        inside = inside.triu(-attrs["num_lower"])
    if attrs["num_upper"] is not None:
        inside = inside.tril(attrs["num_upper"])
    return t.where(inside != attrs["exclude"], x, t.zeros((), dtype=x.dtype))


def gelu(t: Any, attrs: Attrs, x: Any) -> Any:
    kind = attrs["approximate"]
    if kind == "quick":
        return x * t.sigmoid(1.702 * x)
    return t.nn.functional.gelu(x, approximate=kind)


def total(t: Any, attrs: Attrs, x: Any) -> Any:
    return t.sum(x, dim=attrs["axis"], keepdim=True, dtype=x.dtype)  # torch widens integers


def take(t: Any, attrs: Attrs, x: Any, indices: Any) -> Any:
    axis = attrs["axis"] % x.dim()
    at = t.where(indices < 0, indices + x.shape[axis], indices).long()
    picked = t.index_select(x, axis, at.reshape(-1))
    return picked.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def pad(t: Any, attrs: Attrs, x: Any) -> Any:
    pairs = list(zip(attrs["paddings"][::2], attrs["paddings"][1::2], strict=True))
    last_first = [int(n) for pair in reversed(pairs) for n in pair]
    return t.nn.functional.pad(x, last_first, value=attrs["value"])


def cut(t: Any, attrs: Attrs, x: Any) -> Any:
    for axis, (start, step, size) in enumerate(
        zip(attrs["starts"], attrs["steps"], attrs["shape"], strict=True)
    ):
        places = t.arange(int(size)) * step + int(start)
        x = t.index_select(x, axis, places)
    return x


def widened(t: Any, x: Any) -> Any:
    """``x`` in a type that torch sorts."""
    return x.to(t.int64) if x.dtype in (t.uint16, t.uint32) else x


def best(t: Any, attrs: Attrs, x: Any) -> Any:
    values, indices = t.sort(widened(t, x), dim=-1, descending=True, stable=True)
    k = attrs["k"]
    return values[..., :k].to(x.dtype), indices[..., :k]


def order(t: Any, attrs: Attrs, x: Any) -> Any:
    return t.sort(widened(t, x), descending=not attrs["ascending"], stable=True)[1]


def wrapped(t: Any, indices: Any, size: int) -> Any:
    """``indices`` counted from the front."""
    return t.where(indices < 0, indices + size, indices).long()


def take_nd(t: Any, attrs: Attrs, x: Any, indices: Any) -> Any:
    batch, depth = attrs["batch_dims"], indices.shape[-1]
    shape = indices.shape[:-1]
    if not batch + depth:
        return x.expand(*shape, *x.shape)
    places = []
    for axis in range(batch):
        ones = [1] * len(shape)
        ones[axis] = x.shape[axis]
        places.append(t.arange(x.shape[axis]).reshape(ones).expand(shape))
    places += [wrapped(t, indices[..., d], x.shape[batch + d]) for d in range(depth)]
    return x[tuple(places)]


def put(t: Any, attrs: Attrs, x: Any, updates: Any, indices: Any) -> Any:
    axis = attrs["axis"] % x.dim()
    at, kind = wrapped(t, indices, x.shape[axis]), x.dtype
    if kind in (t.uint16, t.uint32, t.uint64):  # torch does not scatter these; their bits will do
        x, updates = x.to(t.int64), updates.to(t.int64)
    return t.scatter(x, axis, at, updates).to(kind)


def put_nd(t: Any, attrs: Attrs, x: Any, updates: Any, indices: Any) -> Any:
    """One after another: torch does not say which of several updates stays."""
    made, depth = x.clone(), indices.shape[-1]
    rows = indices.reshape(math.prod(indices.shape[:-1]), depth)
    for row, update in zip(rows, updates.reshape(len(rows), *x.shape[depth:]), strict=True):
        made[tuple(int(n) for n in row)] = update
    return made


def norm(t: Any, attrs: Attrs, x: Any, gamma: Any, beta: Any) -> Any:
    return t.nn.functional.layer_norm(x, gamma.shape, gamma, beta, attrs["epsilon"])


def steps(t: Any, attrs: Attrs) -> Any:
    start, step, size = (int(attrs[name]) for name in ("start", "step", "size"))
    return t.arange(size).mul(step).add(start).to(kind_of(t, attrs["dtype"]))


def kind_of(t: Any, dtype: DType) -> Any:
    """The torch dtype."""
    return getattr(t, dtype.name)


TORCH: dict[str, Torch] = {
    **{
        f"mo.{ours}": plain(theirs)
        for ours, theirs in {
            "abs": "abs", "negate": "neg", "floor": "floor", "trunc": "trunc", "round": "round",
            "relu": "relu", "sqrt": "sqrt", "rsqrt": "rsqrt", "exp": "exp", "log": "log",
            "log1p": "log1p", "erf": "erf", "sin": "sin", "cos": "cos", "tanh": "tanh",
            "atanh": "atanh", "acos": "acos", "sigmoid": "sigmoid", "recip": "reciprocal",
            "is_nan": "isnan", "is_inf": "isinf", "logical_not": "logical_not",
            "add": "add", "sub": "sub", "mul": "mul", "div": "div", "mod": "remainder",
            "pow": "pow", "max": "maximum", "min": "minimum", "equal": "eq", "not_equal": "ne",
            "greater": "gt", "greater_equal": "ge", "logical_and": "logical_and",
            "logical_or": "logical_or", "logical_xor": "logical_xor", "where": "where",
            "matmul": "matmul",
        }.items()
    },
    "mo.silu": lambda t, attrs, x: t.nn.functional.silu(x),
    "mo.gelu": gelu,
    "mo.floordiv": lambda t, attrs, x, y: t.div(x, y, rounding_mode="floor"),
    "mo.cast": lambda t, attrs, x: x.to(kind_of(t, attrs["dtype"])),
    "mo.bitcast": lambda t, attrs, x: x.view(kind_of(t, attrs["dtype"])),
    "mo.gather": take,
    "mo.gather_nd": take_nd,
    "mo.scatter": put,
    "mo.scatter_nd": put_nd,
    "mo.top_k": best,
    "mo.argsort": order,
    "mo.nonzero": lambda t, attrs, x, starts, total: t.nonzero(x),
    "mo.masked_scatter": lambda t, attrs, x, mask, new, *counted: x.masked_scatter(mask, new),
    "mo.concat": lambda t, attrs, *xs: t.cat(xs, dim=attrs["axis"]),
    "mo.pad": pad,
    "mo.range": steps,
    "mo.iota": steps,
    "mo.reduce.sum": total,
    "mo.reduce.max": along("amax", keepdim=True),
    "mo.reduce.min": along("amin", keepdim=True),
    "mo.mean": along("mean", keepdim=True),
    "mo.argmax": along("argmax", keepdim=True),
    "mo.argmin": along("argmin", keepdim=True),
    "mo.softmax": along("softmax"),
    "mo.logsoftmax": along("log_softmax"),
    "mo.layer_norm": norm,
    "mo.reshape": lambda t, attrs, x: t.reshape(x, [int(d) for d in attrs["shape"]]),
    "mo.flatten": lambda t, attrs, x: t.flatten(x, attrs["start_dim"], attrs["end_dim"]),
    "mo.squeeze": along("squeeze"),
    "mo.unsqueeze": along("unsqueeze"),
    "mo.permute": lambda t, attrs, x: t.permute(x, attrs["dims"]),
    "mo.transpose": lambda t, attrs, x: t.transpose(x, attrs["axis_1"], attrs["axis_2"]),
    "mo.broadcast_to": lambda t, attrs, x: t.broadcast_to(x, [int(d) for d in attrs["shape"]]),
    "mo.tile": lambda t, attrs, x: t.tile(x, attrs["repeats"]),
    "mo.slice": cut,
    "mo.cumsum": cumsum,
    "mo.band_part": band_part,
    **SPATIAL,
}  # fmt: skip

DIFFERENT = {
    ("mo.acos", "special"): "ours takes what is outside of [-1, 1] as the nearest end, not as NaN",
    ("mo.gelu", "none special"): "torch gives NaN for inf and inf for 3e38, which are themselves",
    ("mo.cast", "special to uint64"): "torch gives 0 for what is too large; ours is that of x86",
    ("mo.mean", "i32"): "torch has no mean of integers; ours divides towards zero",
    ("mo.mean", "u8"): "torch has no mean of integers; ours divides towards zero",
    ("mo.mean", "int"): "torch has no mean of integers; ours divides towards zero",
    ("mo.reduce.sum", "uint64"): "torch has no sum of uint64",
    ("mo.reduce.max", "uint64"): "torch has no amax of uint64",
    ("mo.reduce.min", "uint64"): "torch has no amin of uint64",
    ("mo.argmax", "uint64"): "torch has no argmax of uint64",
    ("mo.argmin", "uint64"): "torch has no argmin of uint64",
    ("mo.cumsum", "uint32"): "torch has no cumsum of uint32",
    ("mo.cumsum", "uint64"): "torch has no cumsum of uint64",
    ("mo.nonzero", "uint32"): "torch has no nonzero of uint32",
    ("mo.nonzero", "uint64"): "torch has no nonzero of uint64",
    ("mo.masked_scatter", "uint32"): "torch has no masked_scatter of uint32",
    ("mo.masked_scatter", "uint64"): "torch has no masked_scatter of uint64",
}
"""Op and sample label (or a part of it) to the reason why torch is not asked."""


def sampled() -> list[Case]:
    """The cases with plain sizes, of the ops that torch has."""
    return [c for c in CASES if not c.symbolic and c.name in TORCH]


def different(case: Case) -> str | None:
    for (name, part), why in DIFFERENT.items():
        if case.name == name and part in case.sample.label:
            return why
    return None


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch as module

    before = module.get_num_threads()
    module.set_num_threads(1)
    yield module
    module.set_num_threads(before)


def given(t: Any, array: Array) -> Any:
    """``array`` as a tensor; torch does not know the bfloat16 of ml_dtypes."""
    if array.dtype == DType.bfloat16.ml_numpy:
        return t.from_numpy(array.view(np.uint16).copy()).view(t.bfloat16)
    return t.from_numpy(array.copy())


def taken(t: Any, tensor: Any) -> Array:
    """``tensor`` as an array."""
    if tensor.dtype is t.bfloat16:
        raw = tensor.contiguous().view(t.uint16).numpy()
        return np.asarray(raw.view(DType.bfloat16.ml_numpy))
    return np.asarray(tensor.numpy())


ROUGH = {"mo.softmax", "mo.logsoftmax", "mo.layer_norm", "mo.mean", "mo.reduce.sum", "mo.matmul"}
ROUGH |= {
    "mo.cumsum",
    "mo.conv",
    "mo.conv.joined",
    "mo.conv.window",
    "mo.conv_transpose",
    "mo.avg_pool2d",
    "mo.fold",
    "mo.resize",
}
"""Torch computes these in float32 and rounds halves once; we round after every step, or sum in
another order."""


def agree(name: str, got: Array, want: Array, arrays: list[Array]) -> None:
    """Assert that ``got`` is what torch says, to some steps of its dtype."""
    if want.dtype.kind in "biu":
        same(got, want)
        return
    eps = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}[want.dtype.itemsize]
    if want.dtype == DType.bfloat16.ml_numpy:
        eps = 2.0**-7
    largest = max((float(np.nanmax(np.abs(finite(a)), initial=1.0)) for a in arrays), default=1.0)
    depth = max((max(a.shape, default=1) for a in arrays), default=1)
    factor = 4 * math.sqrt(depth) if name in ROUGH else 8
    if want.dtype.itemsize == 2 and name not in ROUGH:
        factor = 1
    scale = largest**2 if name in ROUGH else 0.25
    if name == "mo.gelu":
        scale = largest / 4  # left of 0 torch cancels digits, which ours keeps
    with np.errstate(invalid="ignore"):  # inf - inf, of elements that are equal
        same(got, want, rtol=factor * eps, atol=factor * eps * scale)


def finite(array: Array) -> Array:
    """``array`` in float64, with 0 for what is not finite."""
    wide = array.astype(np.float64)
    return np.where(np.isfinite(wide), wide, 0)


@pytest.mark.parametrize("case", sampled(), ids=lambda c: c.id)
def test_torch_agrees(case: Case, torch: Any) -> None:
    why = different(case)
    if why is not None:
        pytest.skip(why)
    function, arrays = build(case)
    (op,) = [op for op in function.ops if op.name == case.name]
    attrs = dict(op.attrs)
    if "shape" in attrs:
        attrs["shape"] = [d.evaluate({}) for d in Shape(attrs["shape"])]
    operands = [given(torch, a) for a in arrays[: len(op.operands)]]
    made = TORCH[case.name](torch, attrs, *operands)
    wants = [taken(torch, one) for one in (made if isinstance(made, tuple) else (made,))]
    for found in (interpret(function, arrays), outputs_of(load(function), arrays)):
        for got, want in zip(found, wants, strict=True):
            agree(case.name, got, want, arrays)


def test_every_op_is_compared_or_has_a_reason() -> None:
    assert set(TORCH) | set(NO_TORCH) == set(OPSET)
    assert not set(TORCH) & set(NO_TORCH)
