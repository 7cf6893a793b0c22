"""Each operation of the table, beside torch: as a module of its own, imported, compiled and run.

The operations are those that the exported graphs have, not those that the modules are written with:
a test holds that together they are the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("torch", reason="torch not installed; scripts/test --oracle installs it")

import torch  # noqa: E402 - where it is installed

from maxlab.torch import load  # noqa: E402 - needs torch
from maxlab.torch.aten import TABLE  # noqa: E402 - needs torch

F = torch.nn.functional
Tensors = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A function of tensors, and the names of what it becomes in an exported graph."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], Tensors]
    by_torch: str = ""  # why torch has to run it


def normal(*shape: int, dtype: Any = None) -> Any:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))
    return made if dtype is None else made.to(dtype)


def whole(*shape: int, low: int = -9, high: int = 10) -> Any:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(len(shape)))


def one() -> Tensors:
    return (normal(3, 4, 5),)


def two() -> Tensors:
    return normal(3, 4, 5), normal(4, 1)


def whole_two() -> Tensors:
    y = whole(4, 1)
    return whole(3, 4, 5), torch.where(y == 0, 3, y)


def truths() -> Tensors:
    return normal(3, 4) > 0, normal(4) > 0.3


def positive() -> Tensors:
    return (normal(3, 4, 5).abs() + 0.25,)


def inside() -> Tensors:
    return (normal(3, 4, 5).tanh() * 0.9,)


def special() -> Tensors:
    return (torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf, 2.5, -3.5, 0.5]),)


UNARY = {
    "abs": one, "neg": one, "relu": one, "sqrt": positive, "rsqrt": positive, "exp": one,
    "log": positive, "log1p": positive, "erf": one, "sin": one, "cos": one, "tanh": one,
    "atanh": inside, "acos": inside, "sigmoid": one, "square": one, "reciprocal": positive,
    "floor": special, "ceil": special, "round": special, "trunc": special, "isnan": special,
    "isinf": special,
}  # fmt: skip
COMPARED = ("eq", "ne", "gt", "ge", "lt", "le")


def attention(*args: Any, **names: Any) -> Callable[..., Any]:
    return lambda q, k, v, *mask: F.scaled_dot_product_attention(q, k, v, *mask, *args, **names)


def heads() -> Tensors:
    return normal(2, 4, 6, 8), normal(2, 4, 7, 8), normal(2, 4, 7, 8)


def blind() -> Any:
    mask = torch.ones(2, 1, 6, 7, dtype=torch.bool)
    mask[0, :, :, 4:] = False
    mask[1, :, 2] = False  # a query that sees nothing
    return mask


def assigned(x: Any, y: Any) -> Any:
    """``x`` with parts that were assigned to."""
    made = x.clone()
    made[:, 1:3] = 2.5
    made[..., -1:] = y
    made[0] = y
    made[:, :, 1] = torch.arange(4)
    return made


def assigned_in_steps(x: Any) -> Any:
    made = x.clone()
    made[:, ::2] = 0
    return made


def cases() -> list[Case]:
    """All of them."""
    found = [Case(n, lambda x, n=n: getattr(torch, n)(x), make) for n, make in UNARY.items()]
    found += [
        Case(f"{n} of whole numbers", lambda x, n=n: getattr(torch, n)(x), lambda: (whole(4, 5),))
        for n in ("abs", "neg", "floor", "ceil", "sqrt", "square", "exp")
        if n != "sqrt"
    ]
    for n in COMPARED:
        found.append(Case(n, lambda x, y, n=n: getattr(torch, n)(x, y), two))
        found.append(Case(f"{n} 0", lambda x, n=n: getattr(torch, n)(x, 0), one))
        found.append(
            Case(f"{n} of mixed dtypes", lambda x, y, n=n: getattr(torch, n)(x, y),
                 lambda: (whole(3, 4), normal(4)))
        )  # fmt: skip
    for n in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
              "bitwise_xor", "eq", "ne"):  # fmt: skip
        found.append(Case(f"{n} of bools", lambda x, y, n=n: getattr(torch, n)(x, y), truths))
    found += [
        Case("logical_and of numbers", torch.logical_and, two),
        Case("bitwise_and with True", lambda x, y: torch.bitwise_and(x, True), truths),
        Case("bitwise_or with True", lambda x, y: torch.bitwise_or(x, True), truths),
        Case("bitwise_xor with True", lambda x, y: torch.bitwise_xor(x, True), truths),
        Case("logical_not", torch.logical_not, lambda: (whole(4, 5, low=0, high=2),)),
        Case("bitwise_not", torch.bitwise_not, lambda: truths()[:1]),
        Case("add", torch.add, two),
        Case("add of whole numbers", torch.add, whole_two),
        Case("add of bools", torch.add, truths),
        Case("add to a bool", lambda x, y: x + y, lambda: (whole(3, 4), truths()[1])),
        Case("add with alpha", lambda x, y: torch.add(x, y, alpha=2.5), two),
        Case("add of halves", torch.add,
             lambda: (normal(3, 4, dtype=torch.bfloat16), normal(4, dtype=torch.bfloat16))),
        Case("sub", lambda x, y: (x - y, x - 2, 3 - x), two),
        Case("mul", lambda x, y: (x * y, x * 2.5), two),
        Case("mul of bools", lambda x, y: x * y, truths),
        Case("div", lambda x, y: (x / y, x / 3), whole_two),
        Case("div modes", lambda x, y: (
            torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc"),
            torch.div(x, 2.0, rounding_mode="floor"), x // 3), two),
        Case("floor_divide", lambda x, y: (torch.floor_divide(x, y), x // 4), whole_two),
        Case("div towards zero", lambda x, y: torch.div(x, y, rounding_mode="trunc"), whole_two,
             "towards zero"),
        Case("remainder", lambda x, y: (torch.remainder(x, y), x % 3), whole_two),
        Case("remainder of floats", torch.remainder, two),
        Case("fmod", lambda x, y: (torch.fmod(x, y), torch.fmod(x, 3), torch.fmod(x, -3)),
             whole_two),
        Case("fmod of floats", lambda x, y: (torch.fmod(x, y), torch.fmod(x, -0.5)), two),
        Case("pow", lambda x, y: (x.abs() ** y, x**2, x**3, 2.0**x), two),
        Case("pow of whole numbers", lambda x, y: x**3, whole_two),
        Case("maximum", lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), two),
        Case("clamp", lambda x: (
            x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=0.1), F.hardtanh(x), F.relu6(x),
            torch.clamp_min(x, 0.2), torch.clamp_max(x, 0.2)), one),
        Case("clamp by tensors", lambda x, y: (
            torch.clamp(x, y, y + 1), torch.clamp_min(x, y), torch.clamp_max(x, y)), two),
        Case("where", lambda x, y: (
            torch.where(x > 0, x, y), torch.where(x > 0, x, 2.0), torch.where(x > 0, 1.0, y),
            torch.where(x > 0, 1.0, 0.0)), two),
        Case("where of two dtypes", lambda x, y: torch.where(x > 0, x, y),
             lambda: (normal(3, 4), whole(3, 4))),
        Case("masked_fill", lambda x, y: (
            x.masked_fill(x > y, -math.inf), x.masked_fill(x > y, torch.tensor(2.0))), two),
        Case("activations", lambda x: (
            F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.leaky_relu(x, 0.2),
            F.relu(x), F.hardswish(x)), one),
        Case("dtypes", lambda x: (
            x.double(), x.int(), x.bool(), x.to(torch.int64), x.half().float(), x.type_as(x)), one),
        Case("views", lambda x: (
            x.view(12, 5), x.reshape(-1), x.flatten(1), x.unsqueeze(0), x.transpose(0, 2),
            x.permute(2, 0, 1), x.unflatten(2, (5, 1)), x[:1].squeeze(0), x[:1].squeeze(),
            x.movedim(0, 2), x[0].t(), x.mT, x.expand(2, 3, 4, 5), x.repeat(2, 1, 1, 3),
            x.narrow(1, 1, 2), x.contiguous() + 0, x.clone() + 0, x.expand_as(x)), one),
        Case("parts", lambda x: (
            x[1], x[-1], x[:, 1:3], x[:, -3:-1], x[:, :, ::2], x[1:100], x[5:], x[..., None, 2],
            x[:, 3:1]), one),
        Case("assignments to parts", assigned, two),
        Case("assignments in steps", assigned_in_steps, one, "in steps"),
        Case("as_strided", lambda x: (
            x.as_strided((12, 5), (5, 1)) + 1, x.as_strided((60,), (1,), 0) + 1), one),
        Case("as_strided of one's own strides", lambda x: x.as_strided((3, 3), (1, 1)) + 1, one,
             "strides"),
        Case("splits", lambda x: (
            *x.split(2, 2), *x.split([1, 3], 1), *x.chunk(2, 1), *x.unbind(0)), one),
        Case("joins", lambda x, y: (
            torch.cat([x, x * 2], 1), torch.stack([x, x], -1), torch.cat([x, x.int()], -1),
            torch.cat([torch.zeros(0), x[0, 0]])), two),
        Case("pad", lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.5)), one),
        Case("pad by a negative number", lambda x: F.pad(x, (-1, 0)), one, "removes elements"),
        Case("embedding", F.embedding, lambda: (whole(3, 4, low=0, high=7), normal(7, 5))),
        Case("gather", lambda x, i: x.gather(1, i),
             lambda: (normal(3, 4, 5), whole(2, 6, 5, low=0, high=4))),
        Case("gather along the last axis", lambda x, i: x.gather(-1, i),
             lambda: (normal(3, 4), whole(3, 2, low=0, high=4))),
        Case("index_select", lambda x, i: x.index_select(1, i),
             lambda: (normal(3, 7, 2), whole(4, low=0, high=7))),
        Case("index", lambda x, i: (x[i], x[:, i]),
             lambda: (normal(7, 7, 2), whole(4, 2, low=-7, high=7))),
        Case("index of two dims", lambda x, i: (x[i, i], x[:, i[:, None], i]),
             lambda: (normal(5, 5, 5), whole(4, low=-5, high=5))),
        Case("index by a mask", lambda x: torch.where(x > 0, x, 0)[x > -99].sum(), one,
             "depends on data"),
        Case("arange", lambda x: (
            torch.arange(7) + 0 * x[0, 0, 0].int(), torch.arange(2, 11, 3), torch.arange(5.0),
            torch.arange(6, dtype=torch.float64)), one),
        Case("made of numbers", lambda x: (
            torch.zeros(2, 3) + x[0, 0, 0], torch.ones(3), torch.full((2, 2), 2.5),
            torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3.0),
            x.new_zeros(2), x.new_ones(2), x.new_full((2,), 4.0),
            torch.scalar_tensor(2.0) * x), one),
        Case("triangles", lambda x: (
            x.tril(), x.triu(), x.tril(-1), x.triu(2), (x > 0).tril()), one),
        Case("sum", lambda x: (
            x.sum(), x.sum(1), x.sum((0, 2)), x.sum((1, 2), keepdim=True), x.sum(-1),
            (x > 0).sum(), x.sum(0, dtype=torch.float64)), one),
        Case("mean", lambda x: (
            x.mean(), x.mean(1), x.mean((0, 2)), x.mean(-1, keepdim=True)), one),
        Case("largest", lambda x: (
            x.amax(1), x.amin((0, 1)), x.max(), x.min(), *x.max(1), *x.min(-1, keepdim=True),
            x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), one),
        Case("norms of vectors", lambda x: (
            torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 2, -1, keepdim=True),
            torch.linalg.vector_norm(x, 1, (0, 1)), torch.linalg.vector_norm(x, math.inf, 1),
            torch.linalg.vector_norm(x, -math.inf, 1), torch.linalg.vector_norm(x.half(), 2, 1),
            F.normalize(x, dim=-1)), one),
        Case("norm of a third order", lambda x: torch.linalg.vector_norm(x, 3.0, 1), one,
             "of the order 3"),
        Case("running sums", lambda x: (
            x.cumsum(1), x.cumsum(-1, dtype=torch.float64), (x > 0).cumsum(0),
            x[0, 0, 0].cumsum(0)), one),
        Case("the largest few", lambda x: (*x.topk(2), *x.topk(3, 1)), one),
        Case("the smallest few", lambda x: (*x.topk(2, largest=False),), one, "smallest"),
        Case("any", lambda x: (
            (x > 1).any(), (x > 1).any(1), (x > -2).all(), (x > -1).all(-1, keepdim=True),
            torch.any(x > 1, (0, 1)), torch.all(x > 1, (0, 1))), one),
        Case("var", lambda x: (x.var(), x.var(1), x.var(-1, correction=0), x.std(1)), one),
        Case("softmax", lambda x: (
            x.softmax(-1), x.softmax(1), F.softmax(x, 0, dtype=torch.float64),
            x.log_softmax(-1)), one),
        Case("layer_norm", lambda x, w: (
            F.layer_norm(x, (5,)), F.layer_norm(x, (5,), w, w + 1), F.layer_norm(x, (4, 5)),
            F.layer_norm(x, (5,), w)), lambda: (normal(3, 4, 5), normal(5))),
        Case("rms_norm", lambda x, w: (
            F.rms_norm(x, (5,)), F.rms_norm(x, (5,), w, 1e-5), F.rms_norm(x, (4, 5)),
            F.rms_norm(x.half(), (5,)).float()), lambda: (normal(3, 4, 5), normal(5))),
        Case("group_norm", lambda x, w: (F.group_norm(x, 2), F.group_norm(x, 3, w, w)),
             lambda: (normal(2, 6, 3, 3), normal(6))),
        Case("batch_norm", lambda x, m, v, w: (
            F.batch_norm(x, m, v), F.batch_norm(x, m, v, w, w + 1)),
             lambda: (normal(2, 6, 3, 3), normal(6), normal(6).abs(), normal(6))),
        Case("products", lambda x, y: (
            x @ y, x[0] @ y[0], x[0] @ y[0, :, 0], x[0, 0] @ y[0, :, 0], x[0] @ y,
            torch.bmm(x, y), torch.mm(x[0], y[1]), torch.einsum("bij,bjk->bik", x, y)),
             lambda: (normal(2, 3, 4), normal(2, 4, 5))),
        Case("addmm", lambda b, x, y: (
            torch.addmm(b, x, y), torch.addmm(b, x, y, beta=0.5, alpha=2),
            torch.addmm(b, x, y, beta=0), torch.baddbmm(b[None], x[None], y[None]),
            torch.addmv(b[0, :3], x, y[:, 0])),
             lambda: (normal(3, 5), normal(3, 4), normal(4, 5))),
        Case("linear", lambda x, w, b: (F.linear(x, w), F.linear(x, w, b), F.linear(x[0, 0], w)),
             lambda: (normal(2, 3, 4), normal(5, 4), normal(5))),
        Case("attention", attention(), heads),
        Case("attention with a scale", attention(scale=0.5), heads),
        Case("causal attention", attention(is_causal=True),
             lambda: tuple(x[..., :6, :] for x in heads())),
        Case("attention with a mask", attention(), lambda: (*heads(), blind())),
        Case("attention with an added mask", attention(), lambda: (
            *heads(), torch.zeros(2, 1, 6, 7).masked_fill(~blind(), -math.inf))),
        Case("attention of groups", lambda q, k, v: F.scaled_dot_product_attention(
            q, k[:, :2], v[:, :2], enable_gqa=True), heads),
        Case("vectors", lambda x, y: (torch.dot(x[0], x[1]), torch.mv(x, y)),
             lambda: (normal(3, 4), normal(4))),
        Case("overloads that only decompositions use", lambda x: (
            torch.ops.aten.add.Scalar(x, 2.0, 3.0), torch.ops.aten.sub.Scalar(x, 2.0, 3.0),
            torch.ops.aten.mul.Scalar(x, 2.0), torch.ops.aten.div.Scalar(x, 2.0),
            torch.ops.aten.div.Scalar_mode(x, 2.0, rounding_mode="floor"),
            torch.ops.aten.rsub.Tensor(x, x * x), torch.ops.aten.floor_divide.Scalar(x, 2.0),
            torch.ops.aten._unsafe_view(x, [12, 5]), torch.ops.aten.alias(x) + 1,
            torch.ops.aten.detach(x) + 2,
            torch.ops.aten.squeeze.dims(x[:1], [0, 1]), torch.ops.aten.arange.start(2, 7),
            torch.ops.aten.constant_pad_nd(x, [1, 0], 2.0),
            torch.ops.aten._unsafe_index(x, [torch.tensor([2, 0])])), one),
        Case("dropout of nothing", lambda x: F.dropout(x, 0.5, training=False) + 1, one),
        Case("convolution", lambda x, w: F.conv2d(x, w, padding=1),
             lambda: (normal(2, 3, 8, 8), normal(4, 3, 3, 3))),
        Case("convolution in groups", lambda x, w, b: F.conv2d(x, w, b, 2, 1, 2, 2),
             lambda: (normal(2, 4, 9, 8), normal(6, 2, 3, 3), normal(6))),
        Case("convolution of lines", lambda x, w: F.conv1d(x, w, stride=2, padding=1),
             lambda: (normal(2, 3, 9), normal(4, 3, 3))),
        Case("convolution of volumes", lambda x, w: F.conv3d(x, w, padding=1),
             lambda: (normal(1, 3, 4, 5, 6), normal(4, 3, 3, 3, 3))),
        Case("transposed convolution", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
             lambda: (normal(2, 3, 4, 5), normal(3, 4, 3, 3))),
        Case("transposed convolution in groups", lambda x, w: F.conv_transpose2d(x, w, groups=2),
             lambda: (normal(2, 4, 4, 5), normal(4, 4, 3, 3)), "it is transposed"),
        Case("maximum pool", lambda x: F.max_pool2d(x, 3, 2, 1) + F.max_pool2d(x, 3, 2, 1),
             lambda: (normal(2, 3, 9, 8),)),
        Case("maximum pool of one image", lambda x: F.max_pool2d(x, 2),
             lambda: (normal(3, 9, 8),)),
        Case("mean pool", lambda x: F.avg_pool2d(x, (3, 2), 2, (1, 0), True, False),
             lambda: (normal(2, 3, 8, 9),)),
        Case("mean pool with a divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3),
             lambda: (normal(2, 3, 8, 9),), "a number of its own"),
        Case("mean pool to a size", lambda x: (
            F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (None, 4)), F.adaptive_avg_pool2d(x[0], 3)),
             lambda: (normal(2, 3, 9, 12),)),
        Case("mean pool to a size that divides nothing", lambda x: F.adaptive_avg_pool2d(x, 4),
             lambda: (normal(2, 3, 9, 8),), "windows of several sizes"),
        Case("images of another size", lambda x: (
            F.interpolate(x, size=(7, 9), mode="bilinear"),
            F.interpolate(x, size=(2, 3), mode="bilinear"),
            F.interpolate(x, scale_factor=2, mode="bilinear")), lambda: (normal(2, 3, 4, 5),)),
        Case("images of larger squares", lambda x: (
            F.interpolate(x, scale_factor=2), F.interpolate(x, size=(16, 5))),
             lambda: (normal(2, 3, 4, 5),)),
        Case("images of squares three times as large", lambda x: F.interpolate(x, scale_factor=3),
             lambda: (normal(2, 3, 4, 5),), "no power of two"),
        Case("images with corners kept", lambda x: F.interpolate(
            x, size=(7, 9), mode="bilinear", align_corners=True),
             lambda: (normal(2, 3, 4, 5),), "its corners stay"),
        Case("images of a size that is no multiple", lambda x: F.interpolate(
            x, scale_factor=1.3, mode="bilinear"), lambda: (normal(2, 3, 4, 5),), "a scale"),
        Case("several results by torch", lambda x: (*torch.kthvalue(x, 2), x + 1), one,
             "no such operation"),
        Case("complex numbers", lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=5), one,
             "no dtype like"),
        Case("sorting", lambda x: torch.sort(x, dim=1)[0] * 2, one, "no such operation"),
        Case("bits", lambda x, y: x & 6, whole_two, "bits of integers"),
    ]  # fmt: skip
    return found


CASES = cases()
SEEN: dict[str, set[str]] = {}
OF_COMPILED = {"lift_fresh.default", "lift_fresh_copy.default"}
"""Entries that only graphs of torch.compile have, of tensors that a function makes: an exported
program has copies in their place."""


class Alone(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_it_computes_what_torch_computes(case: Case) -> None:
    inputs = case.inputs()
    module = Alone(case.function).eval()
    model = load(module, *inputs)
    SEEN[case.name] = {
        str(node.target).removeprefix("aten.")
        for node in model._program.graph_module.graph.nodes
        if node.op == "call_function"
    }
    ours, theirs = model(*inputs), module(*inputs)
    ours, theirs = (x if isinstance(x, tuple) else (x,) for x in (ours, theirs))
    for place, (made, wanted) in enumerate(zip(ours, theirs, strict=True)):
        half = wanted.dtype in (torch.bfloat16, torch.float16)
        close = {"rtol": 2e-2, "atol": 2e-2} if half else {"rtol": 2e-5, "atol": 2e-5}
        if wanted.dtype is torch.bool or not wanted.is_floating_point():
            close = {"rtol": 0, "atol": 0}
        torch.testing.assert_close(
            made, wanted, **close, equal_nan=True, msg=lambda m, n=place: f"result {n}: {m}"
        )
    reasons = {row.reason for row in model.coverage if row.by == "torch"}
    if case.by_torch:
        assert any(case.by_torch in reason for reason in reasons), reasons
    else:
        assert not reasons


def test_the_table_has_nothing_else() -> None:
    """Every entry of the table is some case's; a case that did not run is a case that says so."""
    if set(SEEN) != {case.name for case in CASES}:
        pytest.skip("only some of the cases ran")
    assert set(TABLE) - set().union(*SEEN.values()) == OF_COMPILED
