"""Mistakes in kernels: ``compare`` names the op that each is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from maxlab.analysis.check import compare
from maxlab.compiler.codegen import scalar
from maxlab.driver import Accelerator, simulated
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.graph import ops
from maxlab.opset.facts import Language
from tests.analysis.check.planting import Array, Body, model_of, placed, plant


@dataclass(frozen=True)
class Bug:
    """A mistake: the graph, what is changed in the text of a kernel, and the op it is in."""

    name: str
    body: Body
    shapes: tuple[tuple[int | str, ...], ...]
    inputs: tuple[tuple[int, ...], ...]
    changes: tuple[tuple[str, str], ...]
    op: str
    kernel: str = "k0"
    gpu: bool = False
    check: bool = False
    low: float = -2.0
    high: float = 2.0


def _chain(x: Any, y: Any) -> Any:
    return ops.tanh(ops.gelu(x - y) * 2.0) + 1.0


def _cast(x: Any) -> Any:
    return ops.cast(ops.cast(x * 3.0, DType.int32), DType.float32) + 0.5


def _columns(x: Any) -> Any:
    return ops.max(ops.transpose(x, 0, 1) * 2.0, axis=0)


def _sums(x: Any) -> Any:
    return ops.sum(ops.abs(x), axis=0) * 0.25


def _product(x: Any, y: Any) -> Any:
    return ops.relu(x @ y + 1.0) * 2.0


def _batched(x: Any, y: Any) -> Any:
    return ops.silu(x @ y - 1.0)


def _norm(x: Any) -> Any:
    return ops.softmax(ops.sqrt(x * x + 0.5))


TWO = (("n", 17), ("n", 17))
BUGS = [
    Bug(
        "wrong tail",
        _chain,
        TWO,
        ((9, 17), (9, 17)),
        (("l < hi - h0;", "l < (hi - h0) / 2;"),),
        "sub",
    ),
    Bug(
        "wrong stride",
        lambda x, y: ops.exp(ops.transpose(x, 0, 1)) + y,
        (("n", 17), (17, "n")),
        ((9, 17), (17, 9)),
        (("* 17", "* 16"),) * 2,
        "exp",
    ),
    Bug(
        "missing cast",
        _cast,
        (("n", 17),),
        ((9, 17),),
        (("const i32 v3 = mx_f32_to_i32(v2)", "const f32 v3 = v2"),),
        "cast",
    ),
    Bug("swapped operand", _chain, TWO, ((9, 17), (9, 17)), (("v0 - v1", "v1 - v0"),), "sub"),
    Bug(
        "off-by-one reduction",
        _sums,
        (("n", 24),),
        ((9, 24),),
        (("k < s0", "k < s0 - 1"),),
        "abs|reduce.sum",
    ),
    Bug(
        "a sum from 1 on",
        _sums,
        (("n", 24),),
        ((9, 24),),
        (("acc[n] = 0.0f", "acc[n] = 1.0f"),),
        "reduce.sum",
    ),
    Bug(
        "wrong init of a maximum",
        _columns,
        (("n", 40),),
        ((9, 40),),
        (("(-__builtin_inff())", "0.0f"),),
        "reduce.max",
        low=-3.0,
        high=-1.0,
    ),
    Bug(
        "epilogue in the wrong order",
        _product,
        (("n", 40), (40, 24)),
        ((9, 40), (40, 24)),
        (("v2 = v0 + 1.0f", "v2 = mx_max_f32(v0, 0.0f)"), ("mx_max_f32(v2, 0.0f)", "v2 + 1.0f")),
        "add",
        kernel="k1",
    ),
    Bug(
        "stale constant",
        _chain,
        TWO,
        ((9, 17), (9, 17)),
        (("* 2.0f", "* 1.999f"),),
        "mul",
    ),
    Bug(
        "wrong depth of a product",
        _product,
        (("n", 40), (40, 24)),
        ((9, 40), (40, 24)),
        (("24, 40, plan", "24, 39, plan"),),
        "matmul",
        kernel="k1",
    ),
    Bug(
        "wrong head of a batch",
        _batched,
        ((3, "n", 8), (3, 8, 12)),
        ((3, 5, 8), (3, 8, 12)),
        (("+ (i0 * 96)", "+ (i0 / 2 * 96)"),),
        "matmul",
    ),
    Bug(
        "stored at a wrong place",
        _batched,
        ((3, "n", 8), (3, 8, 12)),
        ((3, 5, 8), (3, 8, 12)),
        (("] = v3;", " - j % 2] = v3;"),),
        "silu",
    ),
    Bug(
        "a function of less precision",
        _norm,
        (("n", 33),),
        ((9, 33),),
        (("v4 = mx_sqrt", "v4 = 1.0005f * mx_sqrt"),) * 4,
        "sqrt",
    ),
    Bug(
        "one vector of four",
        lambda x: ops.sum(ops.abs(x * 2.0 + 1.0), axis=1),
        ((3, 1024),),
        ((3, 1024),),
        (("v0 * 2.0f", "v0 * 2.1f"),),
        "mul",
    ),
    Bug(
        "a row of four read twice",
        _sums,
        (("n", 24),),
        ((9, 24),),
        (("k = k0 + 2;", "k = k0 + 1;"),),
        "abs",
    ),
    Bug(
        "only one warp of a block summed",
        _norm,
        ((3, 20_001),),  # too long for registers
        ((3, 20_001),),
        (("mx_block_sum<f32>", "mx_warp_sum<f32>"),),
        "softmax",
        gpu=True,
    ),
    Bug(
        "swapped operand",
        _chain,
        TWO,
        ((9, 17), (9, 17)),
        (("v0 - v1", "v1 - v0"),) * 2,
        "sub",
        gpu=True,
    ),
    Bug(
        "an epilogue without its sum",
        _product,
        (("n", 40), (40, 24)),
        ((9, 40), (40, 24)),
        (("v0 + 1.0f", "v0 * 1.0f"),),
        "add",
        gpu=True,
    ),
    Bug(
        "race: a kept row read backwards",
        _norm,
        ((2, 20_001),),
        ((2, 20_001),),
        (("= t0[j]", "= t0[20000 - j]"),),
        "softmax",
        gpu=True,
        check=True,
    ),
    Bug(
        "race: all threads of a block write one element",
        lambda x: ops.sum(ops.abs(x), axis=1) * 0.25,
        ((3, 20_001),),
        ((3, 20_001),),
        (
            ("if (threadIdx.x == 0)", "if (threadIdx.x < 2)"),
            ("p1[i0] = ", "p1[i0] = threadIdx.x + "),
        ),
        "mul",
        gpu=True,
        check=True,
    ),
]


@pytest.fixture(params=BUGS, ids=lambda b: ("gpu " if b.gpu else "") + b.name)
def bug(request: pytest.FixtureRequest) -> Bug:
    """Each of them."""
    made: Bug = request.param
    return made


@pytest.fixture
def built(bug: Bug) -> Iterator[tuple[Model, list[Any]]]:
    """The sound model, and its inputs."""
    rng = np.random.default_rng(7)
    arrays: list[Array] = [rng.uniform(bug.low, bug.high, s).astype(np.float32) for s in bug.inputs]
    if not bug.gpu:
        model = model_of(bug.body, *bug.shapes)
        yield model, placed(model, arrays)
        return
    with simulated(check=bug.check):
        model = model_of(bug.body, *bug.shapes, gpu=Accelerator())
        yield model, placed(model, arrays)


def test_the_right_op_is_named(bug: Bug, built: tuple[Model, list[Any]]) -> None:
    model, inputs = built
    sound = compare(model, *inputs)
    assert sound.ok, sound.message
    plant(model, bug.kernel, *bug.changes)
    found = compare(model, *inputs)
    assert not found.ok
    first = found.first
    assert first is not None
    assert first.op in bug.op.split("|"), found.message
    assert first.kernel == bug.kernel
    assert sum(not n.ok for n in found.nodes) == 1, found.message
    assert found.inputs
    assert first.op in found.message


def test_a_mistake_of_the_printer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a changed text, but a compiler that writes the wrong one."""
    sound = scalar.expression

    def wrong(node: Any, args: list[str], language: Language) -> str:
        text = sound(node, args, language)
        return f"({text}) * 1.01f" if node.data == "sin" else text

    monkeypatch.setattr("maxlab.compiler.codegen.c.expression", wrong)
    model = model_of(lambda x: ops.exp(ops.sin(x * 2.0) - 0.5), ("n", 17))
    found = compare(model, np.linspace(-1, 1, 51, dtype=np.float32).reshape(3, 17))
    assert found.first is not None
    assert found.first.op == "sin", found.message


def test_what_follows_from_a_mistake_is_told_from_what_is_right() -> None:
    model = model_of(_chain, *TWO)
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-2, 2, (9, 17)).astype(np.float32) for _ in range(2)]
    plant(model, "k0", ("v3 * 2.0f", "v3 * 2.1f"))
    found = compare(model, *inputs)
    told = {n.op: (n.ok, n.by, n.message[:10]) for n in found.nodes}
    assert told["sub"] == (True, "value", "")
    assert told["gelu"] == (True, "value", "")
    assert told["mul"][:2] == (False, "value")
    assert told["tanh"] == (True, "kernel", "it is comp")
    assert told["add"] == (True, "value", "it is comp")


def _attention(q: Any, k: Any, v: Any) -> Any:
    return ops.softmax((q @ ops.transpose(k, -1, -2)) * 0.3) @ v


ATTENTION = ((2, "n", 16),) * 3


def _queries() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((2, 9, 16)).astype(np.float32) for _ in range(3)]


def test_the_function_of_scores_is_told_from_attention() -> None:
    model = model_of(_attention, *ATTENTION)
    plant(model, "k0", ("0.3f", "0.31f"))
    found = compare(model, *_queries())
    assert found.first is not None
    assert found.first.op == "mul"


def test_inside_of_the_library_only_what_is_left_is_named() -> None:
    model = model_of(_attention, *ATTENTION)
    plant(model, "k0", (".dim_v = 16", ".dim_v = 15"))
    found = compare(model, *_queries())
    assert [n.op for n in found.nodes if not n.ok] == ["softmax", "matmul"]
    assert "one of" in found.message


def test_what_depends_on_the_run_is_said_to() -> None:
    """A kernel that is wrong once, as one with a race is."""
    model = model_of(_chain, *TWO)
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-2, 2, (9, 17)).astype(np.float32) for _ in range(2)]
    plant(
        model,
        "k0",
        (") {\n", ") {\n  static int calls;\n  calls++;\n"),
        ("p2[j] = v8", "p2[j] = calls == 1 ? 7.0f : v8"),
    )
    found = compare(model, *inputs)
    assert not found.ok
    assert "order of its threads" in found.message
