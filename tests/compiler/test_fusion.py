"""Programs of known structure: how many kernels they become, and that fusing changes no result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.ir import Dim, Function, Value
from tests.compiler.interpret import Array, Builder, check

F32 = DType.float32


def normal(*shape: int, seed: int = 0) -> Array:
    """Some float32 numbers."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


# ---------------------------------------------------------------- rows
def test_softmax_of_gelu_is_one_kernel() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 40)
        y = b.op("gelu", b.op("add", b.op("mul", x, b.scalar(2)), b.scalar(1)), approximate="none")
        return b.output(b.op("softmax", y, axis=-1))

    check(build, [normal(7, 40)], kernels=1)


def test_layer_norm_is_one_kernel() -> None:
    def build(b: Builder) -> Function:
        x, g, c = b.input(F32, "a", "b", 24), b.input(F32, 24), b.input(F32, 24)
        return b.output(b.op("layer_norm", x, g, c, epsilon=1e-5))

    check(build, [normal(3, 5, 24), normal(24), normal(24, seed=1)], kernels=1)


def test_residual_and_layer_norm_is_one_kernel() -> None:
    def build(b: Builder) -> Function:
        x, r = b.input(F32, "n", 33), b.input(F32, "n", 33)
        g, c = b.input(F32, 33), b.input(F32, 33)
        s = b.op("add", x, r)
        return b.output(b.op("layer_norm", s, g, c, epsilon=1e-5), s)

    check(build, [normal(6, 33), normal(6, 33, seed=1), normal(33), normal(33, seed=2)], kernels=1)


def test_embeddings_and_layer_norm_are_one_kernel() -> None:
    words, places = normal(50, 24), normal(16, 24, seed=1)

    def build(b: Builder) -> Function:
        ids = b.input(DType.int64, "b", "s")
        w, p = b.weight("words", words), b.weight("places", places)
        at = b.op("range", start=Dim(0), step=Dim(1), size=Dim("s"), dtype=DType.int64, device=None)
        x = b.op("add", b.op("gather", w, ids, axis=0), b.op("gather", p, at, axis=0))
        g, c = b.input(F32, 24), b.input(F32, 24)
        return b.output(b.op("layer_norm", x, g, c, epsilon=1e-5))

    ids = np.random.default_rng(0).integers(-50, 50, (3, 7))
    check(
        build,
        [ids, normal(24), normal(24, seed=1)],
        weights={"words": words, "places": places},
        kernels=1,
    )


def test_mean_and_variance_in_one_kernel() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", "h")
        mean = b.op("mean", x, axis=-1)
        centred = b.op("sub", x, mean)
        return b.output(mean, b.op("mean", b.op("mul", centred, centred), axis=-1))

    check(build, [normal(5, 300)], kernels=1)


# ---------------------------------------------------------------- products
@pytest.mark.parametrize("rank", [2, 3])
def test_linear_with_gelu_is_one_kernel(rank: int) -> None:
    w, c = normal(17, 40), normal(40, seed=1)

    def build(b: Builder) -> Function:
        x = b.input(F32, *("a", "b")[: rank - 1], 17)
        y = b.op("add", b.op("matmul", x, b.weight("w", w)), b.weight("c", c))
        return b.output(b.op("gelu", y, approximate="none"))

    x = normal(*(3, 5)[: rank - 1], 17)
    model = check(build, [x], weights={"w": w, "c": c}, kernels=1)
    assert model.compiled.plan.steps[0].kind == "contract"


def test_residual_behind_a_product_is_its_epilogue() -> None:
    w = normal(17, 17)

    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 17)
        y = b.op("add", x, b.op("matmul", x, b.weight("w", w)))
        return b.output(y, b.op("greater", y, b.scalar(0)))

    check(build, [normal(30, 17)], weights={"w": w}, kernels=1)


def test_a_product_used_raw_and_fused() -> None:
    w = normal(17, 45)

    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 17)
        y = b.op("matmul", x, b.weight("w", w))
        z = b.op("relu", y)
        return b.output(
            z, y, b.op("cast", z, dtype=DType.bfloat16), b.op("cast", y, dtype=DType.int32)
        )

    check(build, [normal(30, 17) * 10], weights={"w": w}, rtol=1e-2)


def test_a_product_that_only_leaves_as_another_dtype() -> None:
    w = normal(17, 45)

    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 17)
        y = b.op("matmul", x, b.weight("w", w))
        return b.output(b.op("greater", y, b.scalar(0)), b.op("cast", y, dtype=DType.float64))

    check(build, [normal(30, 17)], weights={"w": w})


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("place", ["input", "weight", "computed"])
def test_right_operands(place: str, transposed: bool) -> None:
    w = normal(45, 17) if transposed else normal(17, 45)

    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 17)
        y = b.weight("w", w) if place == "weight" else b.input(F32, *w.shape)
        if place == "computed":
            y = b.op("tanh", y)
        if transposed:
            y = b.op("transpose", y, axis_1=0, axis_2=1)
        return b.output(b.op("relu", b.op("matmul", x, y)))

    inputs = [normal(5, 17)] + ([] if place == "weight" else [w])
    check(build, inputs, weights={"w": w})


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", ["input", "weight", "constant"])
def test_slices_as_operands(side: str, kind: str) -> None:
    """The operand starts inside of its buffer, and runs backwards."""
    base = normal(6, 9)

    def build(b: Builder) -> Function:
        s: Value
        if kind == "input":
            s = b.input(F32, 6, 9)
        else:
            s = b.weight("w", base) if kind == "weight" else b.constant(base)
        part = b.op("slice", s, starts=(1, 8), steps=(2, -1), shape=(2, 7))
        part2 = b.op("slice", s, starts=(2, 1), steps=(1, 1), shape=(2, 7))
        if side == "left":
            y = b.input(F32, 7, 5)
            return b.output(b.op("matmul", part, y), b.op("matmul", part2, y))
        x = b.input(F32, "n", 2)
        return b.output(b.op("matmul", x, part), b.op("matmul", x, part2))

    other = normal(7, 5) if side == "left" else normal(4, 2)
    check(build, [base, other] if kind == "input" else [other], weights={"w": base})


def test_parts_of_a_weight_that_depend_on_the_input() -> None:
    w = normal(20, 9)

    def build(b: Builder) -> Function:
        x, v = b.input(F32, "m", "n"), b.weight("w", w)
        rows = b.op("slice", v, starts=(0, 0), steps=(1, 1), shape=("n", 9))
        end = b.op("slice", v, starts=(Dim(20) - Dim("n"), 0), steps=(1, 1), shape=("n", 9))
        return b.output(
            b.op("matmul", x, rows), b.op("matmul", x, end), b.op("tanh", b.op("matmul", x, rows))
        )

    check(build, [normal(3, 7)], weights={"w": w})


def test_batched_products_with_epilogue() -> None:
    def build(b: Builder) -> Function:
        x, y = b.input(F32, "a", 3, "m", 8), b.input(F32, 3, 8, "n")
        bias, full = b.input(F32, "n"), b.input(F32, "a", 1, "m", 1)
        z = b.op("add", b.op("mul", b.op("matmul", x, y), full), bias)
        return b.output(b.op("tanh", z))

    check(build, [normal(2, 3, 5, 8), normal(3, 8, 6), normal(6), normal(2, 1, 5, 1)], kernels=1)


def test_batched_products_of_transposes() -> None:
    def build(b: Builder) -> Function:
        x, y = b.input(F32, "b", "s", 2, 8), b.input(F32, "b", "t", 2, 8)
        q = b.op("permute", x, dims=(0, 2, 1, 3))
        k = b.op("permute", y, dims=(0, 2, 3, 1))
        return b.output(b.op("matmul", q, k))

    check(build, [normal(3, 4, 2, 8), normal(3, 5, 2, 8)], kernels=1)


def test_operands_that_are_no_matrices() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "b", "s", 2, 8)
        w = b.input(F32, 8, 3)
        turned = b.op("permute", x, dims=(0, 2, 1, 3))
        other = b.op("transpose", b.op("matmul", turned, w), axis_1=-1, axis_2=-2)
        row = b.op("broadcast_to", b.input(F32, 1, 8), shape=(4, 8))
        flat = b.op("reshape", x, shape=(Dim("b") * Dim("s") * 2, 8))
        scalar = b.op("broadcast_to", b.scalar(0.5), shape=(8, 3))
        return b.output(
            other, b.op("matmul", row, w), b.op("matmul", flat, w), b.op("matmul", flat, scalar)
        )

    check(build, [normal(3, 4, 2, 8), normal(8, 3), normal(1, 8)])


def test_one_weight_for_two_products() -> None:
    w = normal(8, 8)

    def build(b: Builder) -> Function:
        x, v = b.input(F32, "n", 8), b.weight("w", w)
        t = b.op("transpose", v, axis_1=0, axis_2=1)
        return b.output(
            b.op("matmul", b.op("matmul", x, v), v), b.op("matmul", x, t), b.op("add", v, t)
        )

    check(build, [normal(3, 8)], weights={"w": w})


def test_vectors_and_single_elements() -> None:
    def build(b: Builder) -> Function:
        x, y = b.input(F32, 1, 1), b.input(F32, 1, 1)
        u, v = b.input(F32, "n", 1), b.input(F32, 1, "n")
        return b.output(
            b.op("matmul", x, y), b.op("matmul", u, v), b.op("matmul", v, u), b.op("matmul", u, x)
        )

    check(build, [normal(1, 1), normal(1, 1, seed=1), normal(9, 1), normal(1, 9)])


# ---------------------------------------------------------------- attention
def attention(
    b: Builder, q: Value, k: Value, v: Value, change: Any = None, axis: int = -1
) -> Value:
    """softmax(change(q @ k)) @ v."""
    s = b.op("matmul", q, k)
    s = change(s) if change is not None else s
    return b.op("matmul", b.op("softmax", s, axis=axis), v)


def heads(b: Builder, rank: int, tq: Any, tk: Any, size: Any = 8) -> tuple[Value, Value, Value]:
    """Inputs q, k (already transposed) and v."""
    lead: tuple[Any, ...] = ("b", 2)[: rank - 2]
    q, k, v = (
        b.input(F32, *lead, tq, size),
        b.input(F32, *lead, tk, size),
        b.input(F32, *lead, tk, size),
    )
    return q, b.op("transpose", k, axis_1=-1, axis_2=-2), v


def head_arrays(rank: int, tq: int, tk: int, size: int = 8) -> list[Array]:
    """Arrays for ``heads``."""
    lead = (3, 2)[: rank - 2]
    return [
        normal(*lead, tq, size),
        normal(*lead, tk, size, seed=1),
        normal(*lead, tk, size, seed=2),
    ]


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("scores", ["raw", "scale", "padding", "where", "causal", "bias"])
@pytest.mark.parametrize("sizes", [(5, 7), (1, 9), (70, 70)])
def test_attention_is_one_kernel(rank: int, scores: str, sizes: tuple[int, int]) -> None:
    tq, tk = sizes
    lead = (3, 2)[: rank - 2]
    arrays = head_arrays(rank, tq, tk)
    extra: list[Array] = []
    if scores == "padding":
        extra = [
            np.where(np.random.default_rng(4).random((3, *(1,) * (rank - 2), tk)) < 0.3, -1e9, 0)
        ]
    elif scores == "where":
        extra = [np.random.default_rng(4).random((*lead, tq, tk)) < 0.7]
        extra[0][..., 0] = True
    elif scores == "bias":
        extra = [normal(tq, tk, seed=5)]
    extra = [x if x.dtype == bool else x.astype(np.float32) for x in extra]

    def build(b: Builder) -> Function:
        q, k, v = heads(b, rank, "q", "k")

        def change(s: Value) -> Value:
            if scores == "raw":
                return s
            s = b.op("mul", s, b.scalar(8**-0.5))
            if scores == "padding":
                s = b.op(
                    "add", s, b.input(F32, *(("b", 1, 1, "k") if rank == 4 else ("b", 1, "k")))
                )
            elif scores == "bias":
                s = b.op("add", s, b.input(F32, "q", "k"))
            elif scores == "where":
                mask = b.input(DType.bool, *("b", 2)[: rank - 2], "q", "k")
                s = b.op("where", mask, s, b.scalar(-1e30))
            elif scores == "causal":
                rows = b.op(
                    "range",
                    start=Dim(0),
                    step=Dim(1),
                    size=Dim("q"),
                    dtype=DType.int64,
                    device=None,
                )
                columns = b.op(
                    "range",
                    start=Dim(0),
                    step=Dim(1),
                    size=Dim("k"),
                    dtype=DType.int64,
                    device=None,
                )
                seen = b.op("greater_equal", b.op("unsqueeze", rows, axis=1), columns)
                s = b.op("where", seen, s, b.scalar(float("-inf")))
            return s

        return b.output(attention(b, q, k, v, change))

    model = check(build, [*arrays, *extra])
    kinds = [s.kind for s in model.compiled.plan.steps]
    assert kinds.count("attention") == 1
    assert len(kinds) <= 2  # a mask that is computed may be a kernel of its own


def test_heads_are_split_and_joined_without_copies() -> None:
    def build(b: Builder) -> Function:
        x = [b.input(F32, "b", "s", 16) for _ in range(3)]
        h = [b.op("reshape", v, shape=("b", "s", 2, 8)) for v in x]
        q, v = (b.op("permute", h[n], dims=(0, 2, 1, 3)) for n in (0, 2))
        k = b.op("permute", h[1], dims=(0, 2, 3, 1))
        o = attention(b, q, k, v, lambda s: b.op("mul", s, b.scalar(0.3)))
        joined = b.op("reshape", b.op("permute", o, dims=(0, 2, 1, 3)), shape=("b", "s", 16))
        return b.output(b.op("relu", joined))

    check(build, [normal(2, 6, 16, seed=n) for n in range(3)], kernels=2)


@pytest.mark.parametrize("axes", [(3, 1), (3, 2), (1, 2), (0, 1)])
def test_results_of_attention_turned_any_way(axes: tuple[int, int]) -> None:
    def build(b: Builder) -> Function:
        o = attention(b, *heads(b, 4, "q", "k"))
        return b.output(b.op("transpose", o, axis_1=axes[0], axis_2=axes[1]), b.op("relu", o))

    check(build, head_arrays(4, 5, 7))


def test_heads_out_of_one_projection() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "b", "s", 48)
        h = b.op("reshape", x, shape=("b", "s", 3, 2, 8))
        parts = [
            b.op(
                "squeeze",
                b.op("slice", h, starts=(0, 0, n, 0, 0), steps=(1,) * 5, shape=("b", "s", 1, 2, 8)),
                axis=2,
            )
            for n in range(3)
        ]
        q, v = (b.op("permute", parts[n], dims=(0, 2, 1, 3)) for n in (0, 2))
        return b.output(attention(b, q, b.op("permute", parts[1], dims=(0, 2, 3, 1)), v))

    check(build, [normal(2, 6, 48)], kernels=1)


@pytest.mark.parametrize(
    "near", ["scores twice", "weights out", "other axis", "one query head", "size 1", "key input",
             "key computed", "two scores", "f64", "sum of scores"],
)  # fmt: skip
def test_near_attention(near: str) -> None:
    """What only looks like attention takes the general path, or is laid out first."""
    size = 1 if near == "size 1" else 8
    arrays = head_arrays(4, 5, 7, size)

    def build(b: Builder) -> Function:
        q, k, v = heads(b, 4, "q", "k", size)
        if near == "one query head":
            q = b.op("slice", q, starts=(0,) * 4, steps=(1,) * 4, shape=("b", 1, "q", 8))
        elif near == "key input":
            k = b.input(F32, "b", 2, 8, "k")
        elif near == "key computed":
            k = b.op("tanh", b.input(F32, "b", 2, 8, "k"))
        if near == "f64":
            q, k, v = (b.op("cast", x, dtype=DType.float64) for x in (q, k, v))
        s = b.op("matmul", q, k)
        if near in ("two scores", "sum of scores"):
            s = b.op("add", s, b.op("matmul", b.op("tanh", q), k) if near == "two scores" else s)
        p = b.op("softmax", s, axis=-2 if near == "other axis" else -1)
        o = b.op("matmul", p, v)
        if near == "scores twice":
            return b.output(o, b.op("tanh", s))
        if near == "weights out":
            return b.output(o, p)
        return b.output(o)

    extra = [normal(3, 2, 8, 7, seed=8)] if near.startswith("key") else []
    check(build, [*arrays, *extra], rtol=1e-4)


def test_attention_of_attention() -> None:
    """The product that ends one pattern gives the scores of the next."""

    def build(b: Builder) -> Function:
        q, k, v = heads(b, 3, "k", "k")
        s = attention(b, q, k, b.op("transpose", v, axis_1=0, axis_2=0))
        t = b.op("matmul", s, b.op("transpose", v, axis_1=-1, axis_2=-2))
        p = b.op(
            "softmax",
            b.op("matmul", b.op("softmax", t, axis=-1), b.input(F32, "b", "k", "k")),
            axis=-1,
        )
        return b.output(b.op("matmul", p, v))

    check(build, [*head_arrays(3, 6, 6), normal(3, 6, 6, seed=9)], rtol=1e-3)


def test_a_row_that_is_masked_everywhere_is_nan() -> None:
    def build(b: Builder) -> Function:
        q, k, v = heads(b, 3, "q", "k")
        return b.output(attention(b, q, k, v, lambda s: b.op("add", s, b.input(F32, "q", 1))))

    mask = np.zeros((5, 1), np.float32)
    mask[2] = -np.inf
    check(build, [*head_arrays(3, 5, 7), mask])


def test_values_that_are_laid_out_by_their_maker_and_read_elsewhere() -> None:
    """k is computed with its keys innermost, and somebody else reads it too."""

    def build(b: Builder) -> Function:
        q, _, v = heads(b, 3, "q", "k")
        w = b.input(F32, 8, 8)
        k = b.op("matmul", w, b.input(F32, "b", 8, "k"))
        return b.output(attention(b, q, k, v), b.op("relu", k), k)

    check(build, [*head_arrays(3, 5, 7), normal(8, 8), normal(3, 8, 7)], rtol=1e-4)


# ---------------------------------------------------------------- views
def test_views_between_maps() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 6)
        t = b.op("transpose", b.op("tanh", x), axis_1=0, axis_2=1)
        back = b.op("slice", t, starts=(5, Dim("n") - 1), steps=(-1, -1), shape=(6, "n"))
        wide = b.op("reshape", back, shape=(2, 3, "n"))
        moved = b.op("permute", wide, dims=(2, 0, 1))
        flat = b.op("flatten", moved, start_dim=0, end_dim=2)
        return b.output(b.op("exp", flat), b.op("add", back, t))

    check(build, [normal(7, 6)])


def test_reversed_reshapes_of_unknown_size() -> None:
    """The position counts down through a division: floor and truncation differ there."""

    def build(b: Builder) -> Function:
        x = b.input(F32, "n", "m")
        flat = b.op("reshape", x, shape=(Dim("n") * Dim("m"),))
        size = Dim("n") * Dim("m")
        back = b.op("slice", flat, starts=(size - 1,), steps=(-1,), shape=(size,))
        square = b.op("reshape", back, shape=("n", "m"))
        turned = b.op("transpose", square, axis_1=0, axis_2=1)
        again = b.op("reshape", turned, shape=(size,))
        down = b.op("slice", again, starts=(size - 1,), steps=(-1,), shape=(size,))
        return b.output(back, square, again, down, b.op("reshape", down, shape=("m", "n")))

    check(build, [normal(3, 5)])


def test_tiles_and_repeats() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 3)
        t = b.op("tile", x, repeats=(2, 3))
        s = b.op("slice", t, starts=(Dim("n") * 2 - 1, 7), steps=(-1, -2), shape=("n", 4))
        return b.output(
            t, s, b.op("softmax", t, axis=-1), b.op("reshape", t, shape=(Dim("n") * 18,))
        )

    check(build, [normal(4, 3)])


def test_concat_split_and_stack() -> None:
    def build(b: Builder) -> Function:
        x, y = b.input(F32, "n", 4), b.input(F32, "m", 4)
        c = b.op("concat", b.op("tanh", x), y, x, axis=0)
        n, m = Dim("n"), Dim("m")
        parts = [
            b.op("slice", c, starts=(start, 0), steps=(1, 1), shape=(size, 4))
            for start, size in ((Dim(0), n), (n, m), (n + m, n))
        ]
        stacked = b.op(
            "concat", *(b.op("unsqueeze", p, axis=1) for p in (parts[0], parts[2])), axis=1
        )
        wide = b.op("concat", c, c, b.op("relu", c), axis=-1)
        return b.output(c, *parts, stacked, wide, b.op("reduce.sum", wide, axis=-1))

    check(build, [normal(3, 4), normal(5, 4)])


def test_pads_of_computed_values() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 4)
        y = x
        for _ in range(
            12
        ):  # each step reads the last twice: written out as one expression this would explode
            y = b.op("add", b.op("mul", y, y), b.op("mul", y, b.scalar(0.5)))
            y = b.op("tanh", y)
        p = b.op("pad", y, paddings=(1, 2, 3, 0), value=2.5)
        q = b.op("pad", b.op("transpose", p, axis_1=0, axis_2=1), paddings=(0, 1, 1, 1), value=-1.0)
        return b.output(p, q, b.op("reduce.max", q, axis=-1), b.op("reduce.sum", q, axis=0))

    check(build, [normal(3, 4)], rtol=1e-4)


def test_pads_of_gathers() -> None:
    def build(b: Builder) -> Function:
        x, at = b.input(F32, 5, 4), b.input(DType.int32, "n")
        g = b.op("gather", x, at, axis=0)
        h = b.op("gather", x, at, axis=1)
        return b.output(
            b.op("pad", b.op("relu", g), paddings=(1, 1, 0, 2), value=9.0),
            b.op("pad", h, paddings=(0, 2, 2, 0), value=9.0),
        )

    check(build, [normal(5, 4), np.array([3, 0, -1, -4], np.int32)])


def test_gathers_of_computed_and_viewed_tables() -> None:
    def build(b: Builder) -> Function:
        x, at = b.input(F32, 6, 4), b.input(DType.int64, "n", 2)
        t = b.op("transpose", b.op("exp", x), axis_1=0, axis_2=1)
        r = b.op("range", start=Dim(3), step=Dim(2), size=Dim(4), dtype=DType.int64, device=None)
        return b.output(
            b.op("gather", t, at, axis=0),
            b.op("gather", r, at, axis=0),
            b.op(
                "gather",
                b.op("reshape", x, shape=(4, 6)),
                b.op("gather", at, b.input(DType.uint8, 3), axis=1),
                axis=0,
            ),
            b.op("reduce.sum", b.op("gather", t, at, axis=1), axis=0),
        )

    at = np.array([[0, 3], [-1, 2], [1, -4]])
    check(build, [normal(6, 4), at, np.array([0, 1, 0], np.uint8)])


# ---------------------------------------------------------------- reductions
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "kind", ["reduce.sum", "reduce.max", "mean", "argmax", "softmax", "logsoftmax"]
)
def test_reductions_between_maps(kind: str, axis: int) -> None:
    def build(b: Builder) -> Function:
        x, y = b.input(F32, "a", "b", "c"), b.input(F32, "c")
        z = b.op("mul", b.op("tanh", x), y)
        r = b.op(kind, z, axis=axis)
        if kind == "argmax":
            return b.output(r)
        return b.output(b.op("relu", b.op("add", r, x)), b.op("negate", r), z)

    check(build, [normal(3, 4, 5), normal(5)])


@pytest.mark.parametrize("size", [1, 255, 256, 257, 600])
def test_columns_in_blocks(size: int) -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", "m")
        s = b.op("reduce.sum", x, axis=0)
        return b.output(s, b.op("reduce.max", b.op("negate", x), axis=0), b.op("sub", x, s))

    check(build, [normal(9, size)])


def test_reductions_of_reductions() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "a", "b", "c")
        r = b.op("reduce.sum", b.op("exp", x), axis=2)
        s = b.op("reduce.max", r, axis=1)
        t = b.op("reduce.min", s, axis=0)
        return b.output(t, b.op("div", x, t), b.op("add", b.op("mul", r, s), t))

    check(build, [normal(3, 4, 5)])


def test_reductions_of_views() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 6)
        t = b.op("transpose", b.op("exp", x), axis_1=0, axis_2=1)
        r = b.op("reshape", x, shape=("n", 2, 3))
        wide = b.op("broadcast_to", b.op("unsqueeze", x, axis=1), shape=("n", 4, 6))
        return b.output(
            b.op("reduce.sum", t, axis=-1),
            b.op("reduce.sum", t, axis=0),
            b.op("reduce.max", r, axis=1),
            b.op("reduce.sum", wide, axis=1),
            b.op(
                "softmax", b.op("slice", x, starts=(0, 5), steps=(1, -2), shape=("n", 3)), axis=-1
            ),
        )

    check(build, [normal(7, 6)])


def test_a_reduced_value_that_meets_its_own_transpose() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", "n")
        s = b.op("softmax", x, axis=-1)
        t = b.op("transpose", s, axis_1=0, axis_2=1)
        return b.output(b.op("add", s, t), b.op("matmul", s, t))

    check(build, [normal(9, 9)])


def test_integer_and_half_rows() -> None:
    def build(b: Builder) -> Function:
        i, h = b.input(DType.int8, "n", 40), b.input(DType.bfloat16, "n", 40)
        return b.output(
            b.op("reduce.sum", b.op("mul", i, i), axis=-1),
            b.op("sub", i, b.op("reduce.min", i, axis=-1)),
            b.op("softmax", h, axis=-1),
            b.op("reduce.max", b.op("mul", h, h), axis=0),
        )

    i = np.random.default_rng(0).integers(-128, 128, (3, 40)).astype(np.int8)
    check(build, [i, normal(3, 40).astype(DType.bfloat16.ml_numpy)], rtol=1 / 128)


# ---------------------------------------------------------------- shapes of programs
def test_diamonds() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 8)
        a = b.op("exp", x)
        s = b.op("reduce.sum", a, axis=-1)
        t = b.op("transpose", a, axis_1=0, axis_2=1)
        m = b.op("matmul", a, t)
        left, right = b.op("add", a, s), b.op("mul", a, b.op("reduce.max", m, axis=-1))
        return b.output(b.op("sub", left, right), m)

    check(build, [normal(5, 8)], rtol=1e-4)


def test_a_map_between_two_products_that_feed_it() -> None:
    w, v = normal(8, 8), normal(8, 8, seed=1)

    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 8)
        a, c = b.op("matmul", x, b.weight("w", w)), b.op("matmul", x, b.weight("v", v))
        g = b.op("mul", b.op("silu", a), c)
        return b.output(g, b.op("matmul", g, b.weight("w2", w)))

    check(build, [normal(5, 8)], weights={"w": w, "v": v, "w2": w}, rtol=1e-4)


def test_outputs_that_are_inputs_constants_and_weights() -> None:
    w = normal(3, 4)

    def build(b: Builder) -> Function:
        x, v, c = b.input(F32, "n", 4), b.weight("w", w), b.constant(normal(2, 2, seed=3))
        t = b.op("transpose", x, axis_1=0, axis_2=1)
        return b.output(
            x,
            v,
            c,
            b.scalar(3.5),
            t,
            b.op("reshape", v, shape=(12,)),
            x,
            b.op("transpose", v, axis_1=0, axis_2=1),
        )

    check(build, [normal(5, 4)], weights={"w": w})


def test_one_value_output_often() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 4)
        y = b.op("exp", x)
        flat = b.op("reshape", y, shape=(Dim("n") * 4,))
        return b.output(
            y, y, flat, b.op("transpose", y, axis_1=0, axis_2=1), flat, b.op("negate", y), y
        )

    check(build, [normal(5, 4)])


def test_copies_come_out_in_the_right_order() -> None:
    """The copy of an input depends on nothing and may run first; it is still the second output."""

    def build(b: Builder) -> Function:
        x, y = b.input(F32, 3, 3), b.input(F32, 3, 3)
        deep = b.op("transpose", b.op("softmax", b.op("matmul", x, y), axis=-1), axis_1=0, axis_2=1)
        return b.output(deep, y, b.op("transpose", x, axis_1=0, axis_2=1), b.op("exp", x), x)

    check(build, [normal(3, 3), normal(3, 3, seed=1)])


def test_long_chains() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n")
        y, z = x, x
        for n in range(1500):
            y = b.op("add", b.op("mul", y, b.scalar(0.999)), b.scalar(n / 1e4))
            if n % 50 == 0:
                z = b.op(
                    "slice", b.op("tanh", z), starts=(Dim("n") - 1,), steps=(-1,), shape=("n",)
                )
        return b.output(y, z)

    check(build, [normal(40)], rtol=1e-3)


def test_chains_of_scalars() -> None:
    """Every step reads the last one twice; computed anew by each reader this would never end."""

    def build(b: Builder) -> Function:
        x = b.input(F32, "n")
        s = b.op("cast", b.op("dim", dim=Dim("n")), dtype=F32)
        for _ in range(60):
            s = b.op("sub", b.op("mul", s, s), b.op("mul", s, s))
            s = b.op("add", s, b.scalar(0.5))
        return b.output(b.op("add", x, s), s)

    check(build, [normal(4)])


def test_a_chain_of_maps_ahead_of_softmax() -> None:
    def build(b: Builder) -> Function:
        q, k, v = heads(b, 3, "q", "k")

        def change(s: Value) -> Value:
            for _ in range(1200):
                s = b.op("add", s, b.scalar(0.001))
            return s

        return b.output(attention(b, q, k, v, change))

    check(build, [*head_arrays(3, 5, 7)], rtol=1e-3)


def test_no_inputs_and_rank_0() -> None:
    def build(b: Builder) -> Function:
        s = b.input(F32)
        r = b.op("range", start=Dim(0), step=Dim(1), size=Dim(5), dtype=F32, device=None)
        return b.output(
            b.op("mul", s, s), b.op("mul", r, s), r, b.op("reduce.sum", b.op("mul", r, r), axis=0)
        )

    check(build, [np.array(1.5, np.float32)])


def test_empty_tensors_everywhere() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n", 4)
        t = b.op("transpose", x, axis_1=0, axis_2=1)
        return b.output(
            b.op("softmax", x, axis=-1),
            b.op("softmax", t, axis=0),
            b.op("reduce.sum", x, axis=0),
            b.op("matmul", t, x),
            b.op("matmul", x, t),
            b.op("concat", x, x, axis=0),
            b.op("pad", x, paddings=(0, 0, 1, 0), value=1.0),
            b.op("pad", x, paddings=(1, 0, 0, 0), value=1.0),
            b.op("tile", x, repeats=(3, 1)),
            b.op("reshape", x, shape=(4, "n")),
            b.op("flatten", x, start_dim=0, end_dim=1),
        )

    check(build, [np.zeros((0, 4), np.float32)])
    check(build, [normal(1, 4)])


def test_static_zeros() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, 3, 0)
        return b.output(
            b.op("reshape", x, shape=(0, 3)),
            b.op("reshape", b.op("reshape", x, shape=(0, 5)), shape=(3, 0, 2)),
            b.op("tile", x, repeats=(2, 2)),
            b.op("reduce.sum", x, axis=1),
            b.op("exp", x),
            b.op("transpose", x, axis_1=0, axis_2=1),
        )

    check(build, [np.zeros((3, 0), np.float32)])
