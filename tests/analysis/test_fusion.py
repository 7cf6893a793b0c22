"""Why two operations are in one kernel or not: every rule, on a program where it decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.analysis.fusion import Why, why
from maxlab.compiler import Options
from maxlab.compiler.axes import MAX_OPS
from maxlab.compiler.reasons import APART, MERGE, STORED, TOGETHER
from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import Graph
from maxlab.ir import Dim, Value
from tests.compiler.interpret import Builder

F32 = DType.float32
Pair = tuple[Value, Value, list[Value]]


def asked(build: Callable[[Builder], Pair], options: Options | None = None) -> tuple[Any, Why]:
    """The model of ``build``'s outputs, and the answer about its two values."""
    b = Builder("asked")
    first, second, outputs = build(b)
    function = b.output(*outputs)
    graph = Graph(function.name)
    graph.function = function
    weights = {
        op.attrs["name"]: np.ones([int(d) for d in op.result.tensor_type.shape], np.float32)
        for op in function.ops
        if op.name == "mo.constant.external"
    }
    model = engine.InferenceSession(num_threads=1).load(
        graph, weights_registry=weights, options=options
    )
    assert first.op is not None
    assert second.op is not None
    return model, why(model, first.op.id, second.op.id)


def x_of(b: Builder, *shape: Any) -> Value:
    return b.op("tanh", b.input(F32, *(shape or ("m", "n"))))


# ---------------------------------------------------------------- programs
def own_index(b: Builder) -> Pair:
    x = x_of(b)
    y = b.op("exp", x)
    return x, y, [y]


def merged(b: Builder) -> Pair:
    x, y = x_of(b), x_of(b, "m", "n")
    z = b.op("add", x, y)
    return y, z, [z]


def row(b: Builder) -> Pair:
    x = x_of(b)
    y = b.op("reduce.sum", x, axis=-1)
    return x, y, [y]


def same_rows(b: Builder) -> Pair:
    x = b.input(F32, "m", "n")
    y, z = b.op("reduce.sum", x, axis=-1), b.op("reduce.max", x, axis=-1)
    return y, z, [y, z]


def row_map(b: Builder) -> Pair:
    x = b.input(F32, "m", "n")
    y = b.op("reduce.sum", x, axis=-1)
    z = b.op("sub", x, y)
    return y, z, [z]


def epilogue(b: Builder) -> Pair:
    x = b.op("matmul", b.input(F32, "m", 8), b.input(F32, 8, 16))
    y = b.op("relu", x)
    return x, y, [y]


def column(b: Builder) -> Pair:
    x = b.op("reduce.sum", b.input(F32, "m", "n"), axis=0)
    y = b.op("exp", x)
    return x, y, [y]


def attention(b: Builder) -> Pair:
    q, k, v = (b.input(F32, "h", "s", 16) for _ in range(3))
    scores = b.op("matmul", q, b.op("transpose", k, axis_1=1, axis_2=2))
    soft = b.op("softmax", scores, axis=-1)
    return scores, soft, [b.op("matmul", soft, v)]


def inlined(b: Builder) -> Pair:
    x = x_of(b)
    y = b.op("exp", b.op("transpose", x, axis_1=0, axis_2=1))
    return x, y, [y]


def everywhere(b: Builder) -> Pair:
    x = b.op("range", start=Dim(0), step=Dim(1), size=Dim("n"), dtype=DType.int64, device=None)
    y = b.op("add", b.input(DType.int64, "n"), x)
    return x, y, [y]


def view(b: Builder) -> Pair:
    x = b.op("transpose", x_of(b), axis_1=0, axis_2=1)
    y = b.op("exp", x)
    return x, y, [y]


def pieces(b: Builder) -> Pair:
    x = b.input(F32, "m", "n")
    y = b.op("softmax", x, axis=-1)
    z = b.op("exp", y)
    return y, z, [z]


def two_readers(b: Builder) -> Pair:
    x = x_of(b)
    y = b.op("exp", b.op("transpose", x, axis_1=0, axis_2=1))
    return x, y, [y, b.op("reduce.sum", x, axis=0)]


def read_twice(b: Builder) -> Pair:
    x = x_of(b, "n", "n")
    y = b.op("add", x, b.op("transpose", x, axis_1=0, axis_2=1))
    return x, y, [y]


def several_values(b: Builder) -> Pair:
    x = x_of(b)
    z = b.op("exp", x)
    y = b.op("abs", b.op("transpose", x, axis_1=0, axis_2=1))
    return x, y, [z, y]


def output(b: Builder) -> Pair:
    x = x_of(b)
    y = b.op("exp", b.op("transpose", x, axis_1=0, axis_2=1))
    return x, y, [y, x]


def gathered(b: Builder) -> Pair:
    x = x_of(b)
    y = b.op("gather", x, b.input(DType.int64, "k"), axis=0)
    return x, y, [y]


def not_a_map(b: Builder) -> Pair:
    x = b.op("reduce.sum", b.input(F32, "m", "n"), axis=-1)
    y = b.op("exp", b.op("transpose", x, axis_1=0, axis_2=1))
    return x, y, [y]


def product_operand(b: Builder) -> Pair:
    x = x_of(b, "m", 8)
    y = b.op("matmul", x, b.input(F32, 8, 16))
    return x, y, [y]


def expansion(b: Builder) -> Pair:
    x = x_of(b, "m", 1)
    y = b.op("add", x, b.input(F32, "m", 64))
    return x, y, [y]


def columns_begin(b: Builder) -> Pair:
    x = b.op("matmul", b.input(F32, "m", 8), b.input(F32, 8, 16))
    y = b.op("reduce.sum", x, axis=0)
    return x, y, [y]


def rows_begin(b: Builder) -> Pair:
    x = b.op("matmul", b.input(F32, "m", 8), b.input(F32, 8, 16))
    y = b.op("reduce.sum", x, axis=-1)
    return x, y, [y]


def with_rows(b: Builder) -> Pair:
    x = b.op("matmul", b.input(F32, "m", 8), b.input(F32, 8, 16))
    y = b.op("mul", x, x)
    total = b.op("reduce.sum", y, axis=-1)
    return x, y, [b.op("mul", x, total)]


def result_only(b: Builder) -> Pair:
    x = b.op("matmul", b.input(F32, "m", 8), b.input(F32, 8, 1))
    y = b.op("add", x, b.input(F32, "m", 64))
    return x, y, [y]


def row_shape(b: Builder) -> Pair:
    x = b.op("reduce.sum", b.input(F32, "m", 5), axis=-1)
    y = b.op("add", x, b.input(F32, "m", 64))
    return x, y, [y]


def concat(b: Builder) -> Pair:
    x = b.op("reduce.sum", b.input(F32, "m", 5), axis=-1)
    y = b.op("concat", x, b.input(F32, "m", 3), axis=1)
    return x, y, [y]


def cycle(b: Builder) -> Pair:
    x = b.op("reduce.sum", b.input(F32, "m", "m"), axis=-1)
    turned = b.op("reduce.max", b.op("mul", b.op("transpose", x, axis_1=0, axis_2=1), x), axis=-1)
    y = b.op("add", x, turned)
    return x, y, [y]


def mixed(b: Builder) -> Pair:
    x = b.op("reduce.max", b.input(F32, "m", 9), axis=-1)
    y = b.op("matmul", b.op("reshape", x, shape=(1, "m")), b.input(F32, "m", 1))
    return x, y, [y]


def size(b: Builder) -> Pair:
    x = b.op("reduce.sum", b.input(F32, "m", "n"), axis=-1)
    for _ in range(MAX_OPS - 1):
        x = b.op("tanh", x)
    y = b.op("exp", x)
    return x, y, [y]


def other_kernel(b: Builder) -> Pair:
    x = b.op("matmul", b.input(F32, "m", 8), b.input(F32, 8, 16))
    other = b.op("matmul", b.input(F32, "m", 8), b.input(F32, 8, 16))
    y = b.op("add", x, other)
    return other, y, [y]


def kind(b: Builder) -> Pair:
    x = b.op("concat", b.input(F32, "m", 3), b.input(F32, "m", 4), axis=1)
    y = b.op("exp", x)
    return x, y, [y]


def data(b: Builder) -> Pair:
    x = b.weight("w", np.ones((4, 8), np.float32))
    y = b.op("exp", x)
    return x, y, [y]


CASES: list[tuple[Callable[[Builder], Pair], bool, str, str]] = [
    (own_index, True, "own index", "reads at its own index"),
    (merged, True, "merged", "equal shape"),
    (row, True, "row", "stays in cache"),
    (same_rows, True, "same rows", "one pass serves both"),
    (row_map, True, "row map", "one value a row"),
    (epilogue, True, "epilogue", "while it is in cache"),
    (column, True, "column", "column reduction"),
    (attention, True, "attention", "never in memory"),
    (inlined, True, "inlined", "computed there, where it is read"),
    (everywhere, True, "everywhere", "by whoever reads them"),
    (view, True, "view", "index arithmetic"),
    (pieces, True, "row map", "rows"),
    (two_readers, False, "two readers", "2 kernels read it"),
    (read_twice, False, "read twice", "reads it 2 times"),
    (several_values, False, "several values", "makes 2 values"),
    (output, False, "output", "it is an output"),
    (gathered, False, "gathered", "an index that is data"),
    (not_a_map, False, "not a map", "only maps are"),
    (product_operand, False, "product reads memory", "a product reads its operands"),
    (expansion, False, "expansion", "would compute it 64 times"),
    (columns_begin, False, "columns begin", "begins a kernel of columns"),
    (rows_begin, False, "rows begin", "begins a kernel of rows"),
    (with_rows, False, "with rows", "in memory for others"),
    (result_only, False, "result only", "[m, 64] instead of [m, 1]"),
    (row_shape, False, "row shape", "[m, 64]: a kernel of rows of [m, 5]"),
    (concat, False, "not a map", "concat n1 begins a kernel"),
    (cycle, False, "cycle", "depend on itself"),
    (size, False, "size", f"more than {MAX_OPS} ops"),
    (other_kernel, False, "other kernel", "only maps merge"),
    (kind, False, "kind", "concat takes no other ops"),
    (data, False, "data", "in memory from the start"),
]


@pytest.mark.parametrize(
    ("build", "together", "rule", "words"), CASES, ids=lambda c: getattr(c, "__name__", None)
)
def test_rule(build: Callable[[Builder], Pair], together: bool, rule: str, words: str) -> None:
    model, found = asked(build)
    assert (found.together, found.rule) == (together, rule), found
    assert words in found.reason, found.reason
    assert "{" not in found.reason
    a, b = found.kernels
    if rule not in ("everywhere", "view", "data"):
        assert a is not None
        assert (a == b) is together, found
    if found.attempt:
        other = eval(found.attempt, {"model": model, "Options": Options})
        assert not why(other, found.a, found.b).together


# ---------------------------------------------------------------- options and rules on purpose
@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (Options(fuse=False), "unfused"),
        (Options(apart={"n1"}), "apart"),
        (Options(keep={"n0"}), ""),
    ],
    ids=["fuse", "apart", "keep"],
)
@pytest.mark.parametrize("build", [own_index, inlined])
def test_options(build: Callable[[Builder], Pair], options: Options, rule: str) -> None:
    if build is inlined:
        options = Options(
            fuse=options.fuse, keep=options.keep, apart={"n2"} if options.apart else ()
        )
        rule = rule or "kept"
    model, found = asked(build, options)
    if not rule:
        assert found.together  # a kept value may be made by the kernel that reads it
        return
    assert (found.together, found.rule) == (False, rule)
    other = eval(found.attempt, {"model": model, "Options": Options})
    assert why(other, found.a, found.b).together


def test_every_rule_has_a_program() -> None:
    shown = {rule for _, _, rule, _ in CASES} | {"unfused", "apart", "kept"}
    named = {*TOGETHER, *APART, *STORED} - shown
    # Words of sentences of others, and rules that another one follows.
    assert named == {"pieces", "another index", "begins", "shape", "mixed"}
    assert set(MERGE) == {"kinds", "domain", "size", "cycle", "apart"}


def test_the_first_obstacle_is_said_too() -> None:
    _, found = asked(two_readers)
    assert found.reason.startswith("exp n2 reads it at another index")
    _, found = asked(concat)
    assert "concat n1 begins a kernel" in found.reason


def test_either_order_and_the_text() -> None:
    b = Builder()
    x, y, outputs = own_index(b)
    graph = Graph("asked")
    graph.function = b.output(*outputs)
    model = engine.InferenceSession().load(graph)
    assert x.op is not None
    assert y.op is not None
    assert why(model, y.op.id, x.op.id) == why(model, x.op.id, y.op.id)
    assert "one kernel (k0)" in str(why(model, x.op.id, y.op.id))


def test_what_passes_took_out() -> None:
    b = Builder()
    x = b.input(F32, "n")
    y = b.op("mul", x, b.scalar(1))
    z = b.op("exp", y)
    graph = Graph("asked")
    graph.function = b.output(z)
    model = engine.InferenceSession().load(graph)
    assert y.op is not None
    assert z.op is not None
    found = why(model, y.op.id, z.op.id)
    assert found.rule == "removed"
    assert "canonicalise took it out by the rule times_one" in found.reason


def test_what_cannot_be_asked() -> None:
    b = Builder()
    x = b.input(F32, "n")
    y, z = b.op("reduce.sum", x, axis=0), b.op("exp", b.input(F32, "m"))
    graph = Graph("asked")
    graph.function = b.output(y, z)
    model = engine.InferenceSession().load(graph)
    assert y.op is not None
    assert z.op is not None
    with pytest.raises(ArgumentError, match=r"neither of n0 and n1[\s\S]*ML628"):
        why(model, y.op.id, z.op.id)
    with pytest.raises(ArgumentError, match="no operation .n77."):
        why(model, "n77", z.op.id)
