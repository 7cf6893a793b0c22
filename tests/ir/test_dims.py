"""Dims: canonical form by random evaluation, identities, order, text, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxlab.errors import ArgumentError, ArgumentTypeError, ParseError
from maxlab.ir import (
    POC,
    AlgebraicDim,
    Dim,
    Shape,
    StaticDim,
    SymbolicDim,
    mlir_text,
    parse_dim,
)

x, y, z = Dim("x"), Dim("y"), Dim("z")
ENVS = [
    dict(zip("xyz", values, strict=True))
    for values in np.random.default_rng(1).integers(1, 40, (24, 3)).tolist()
]


class Expr:
    """A dim together with what Python computes for the same expression."""

    def __init__(self, dim: Dim, text: str) -> None:
        self.dim, self.text = dim, text


def leaf() -> st.SearchStrategy[Expr]:
    names = st.sampled_from("xyz").map(lambda n: Expr(Dim(n), n))
    return names | st.integers(-5, 9).map(lambda n: Expr(Dim(n), f"({n})"))


def combine(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def build(op: str, a: Expr, b: Expr) -> Expr:
        if op == "neg":
            return Expr(-a.dim, f"(-{a.text})")
        if op == "//":
            if b.dim == 0:
                return a
            return Expr(a.dim // b.dim, f"({a.text} // {b.text})")
        made = {"+": a.dim + b.dim, "-": a.dim - b.dim, "*": a.dim * b.dim}[op]
        return Expr(made, f"({a.text} {op} {b.text})")

    return st.builds(build, st.sampled_from(["+", "-", "*", "//", "neg"]), children, children)


exprs = st.recursive(leaf(), combine, max_leaves=8)


def values(expr: Expr) -> list[int | None]:
    found: list[int | None] = []
    for env in ENVS:
        try:
            found.append(eval(expr.text, {}, env))
        except ZeroDivisionError:
            found.append(None)
    return found


@settings(max_examples=600, deadline=None)
@given(exprs)
def test_the_value_is_that_of_the_expression(expr: Expr) -> None:
    for env, expected in zip(ENVS, values(expr), strict=True):
        if expected is None:
            continue
        try:
            assert expr.dim.evaluate(env) == expected, expr.text
        except ZeroDivisionError:
            pass  # a quotient that Python never formed: (x // (y - y')) * 0 and the like


def test_a_quotient_by_a_negative_quotient_is_not_joined_with_it() -> None:
    x, y = Dim("x"), Dim("y")
    assert ((x // y) // (Dim(-1) // x)).evaluate({"x": 19, "y": 20}) == 0
    assert ((x // y) // ((x - y) // 3)).evaluate({"x": 19, "y": 20}) == 0
    assert (x // y) // 3 == x // (y * 3)


@settings(max_examples=600, deadline=None)
@given(exprs, exprs)
def test_equal_dims_are_equal_everywhere(a: Expr, b: Expr) -> None:
    if a.dim == b.dim:
        assert hash(a.dim) == hash(b.dim)
        for left, right in zip(values(a), values(b), strict=True):
            assert left == right or left is None or right is None, (a.text, b.text)


@settings(max_examples=300, deadline=None)
@given(exprs, exprs, exprs)
def test_ring_laws(a: Expr, b: Expr, c: Expr) -> None:
    p, q, r = a.dim, b.dim, c.dim
    assert p + q == q + p
    assert p * q == q * p
    assert (p + q) + r == p + (q + r)
    assert (p * q) * r == p * (q * r)
    assert p * (q + r) == p * q + p * r
    assert p - p == 0
    assert isinstance(p - p, StaticDim)
    negated = -p
    assert -negated == p


@settings(max_examples=300, deadline=None)
@given(exprs)
def test_text_comes_back(expr: Expr) -> None:
    assert parse_dim(str(expr.dim)) == expr.dim
    assert parse_dim(mlir_text(expr.dim)) == expr.dim
    assert eval(repr(expr.dim), {"Dim": Dim}) == expr.dim
    assert pickle.loads(pickle.dumps(expr.dim)) == expr.dim
    assert copy.deepcopy(expr.dim) is expr.dim


def test_identities() -> None:
    assert x + y == y + x
    assert (x + 1) * 2 == x * 2 + 2
    assert -x - 4 == -(x + 4)
    assert (x + y) * (x - y) == x * x - y * y
    assert (x * 4) // 4 == x
    assert (x // 4) * 4 != x
    assert (x * 4 + 3) // 4 == x
    assert (x * y + y) // y == x + 1
    assert x != y
    assert 2 * x - x == "x"
    assert x * 0 == 0
    assert Dim("x") == "x"
    assert Dim(3) == 3
    assert 1 + x == x + 1
    assert 5 - x == -(x - 5)
    assert 8 // Dim(3) == 2
    assert Dim(-7) // 2 == -4  # towards minus infinity, like Python and like the generated code
    assert {Dim(3): 1}[3] == 1  # type: ignore[index]
    assert hash(Dim("x")) == hash("x")


def test_kinds_and_text() -> None:
    assert isinstance(Dim("batch") * 5, AlgebraicDim)
    assert isinstance(Dim(5), StaticDim)
    assert isinstance(Dim("a"), SymbolicDim)
    assert isinstance(Dim(np.int32(5)), StaticDim)
    assert Dim(x) is x
    assert str(Dim("batch") * 5) == "batch * 5"
    assert repr(Dim("batch") * 5) == "Dim('batch') * Dim(5)"
    assert repr(Dim("n") - 1) == "Dim('n') - Dim(1)"
    assert list((x * y + x).parameters) == [x, y]
    assert AlgebraicDim(x + 1) == x + 1
    assert (x + 1).attr == (1 + x).attr  # type: ignore[attr-defined]
    assert AlgebraicDim.apply(POC.mul, x, 2, y) == x * 2 * y
    assert AlgebraicDim.apply(POC.neg, x) == -x
    assert AlgebraicDim.apply(POC.div, x, 2) == x // 2
    assert AlgebraicDim.apply(POC.sub, 7, x) == 7 - x
    assert Dim.from_mlir("x floordiv 2") == x // 2
    assert (x + 1).to_mlir() == x + 1
    assert int(Dim(4)) == 4
    assert range(10)[Dim(4)] == 4
    assert StaticDim(3) < 4
    assert StaticDim(4) >= 4


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Dim(1.5), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: Dim(None), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: Dim(True), ArgumentTypeError),
        (lambda: Dim("not a name"), ArgumentError),
        (lambda: Dim(""), ArgumentError),
        (lambda: StaticDim("x"), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: SymbolicDim(3), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: int(x), ArgumentTypeError),
        (lambda: x // 0, ZeroDivisionError),
        (lambda: x % 2, TypeError),
        (lambda: x / 2, TypeError),
        (lambda: x**2, TypeError),
        (lambda: x < y, TypeError),
        (lambda: Dim(3) < x, TypeError),
        (lambda: x + 1.5, TypeError),  # type: ignore[operator]
        (lambda: AlgebraicDim.apply(POC.neg, x, y), ArgumentTypeError),
        (lambda: parse_dim("x +"), ParseError),
        (lambda: parse_dim("x ** 2"), ParseError),
        (lambda: parse_dim("f(x)"), ParseError),
        (lambda: Shape.from_mlir("2, 3"), ParseError),
    ],
)
def test_what_is_refused(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_shape() -> None:
    shape = Shape(["n", 4, x + 1])
    assert isinstance(shape, list)
    assert shape.rank == 3
    assert shape == ["n", 4, x + 1]
    assert shape.static_dims == [4]
    assert list(shape.parameters) == ["n", "x"]
    assert not Shape.is_static(shape)
    assert Shape.is_static(Shape([1, 2]))
    assert shape.num_elements == Dim("n") * 4 * (x + 1)
    assert Shape.from_mlir(shape.to_mlir()) == shape
    assert Shape.from_mlir("[]") == []
    assert hash(Shape([1])) == hash(Shape([1]))
