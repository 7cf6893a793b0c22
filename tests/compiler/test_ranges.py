"""Indices are simplified by the ranges of their axes, and keep their value everywhere in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from operator import add, floordiv, mul, sub

from maxlab.compiler.loops import simplify_bounds
from maxlab.ir.poly import ZERO, Poly

Number = Callable[[Mapping[str, int]], int]


def some(random_: random.Random, depth: int) -> tuple[Poly, Number]:
    """A polynomial of axes ``a``, ``b`` and the dim ``n`` with nested divisions, and its value."""
    if depth == 0:
        name = random_.choice(["a", "b", "n", ""])
        if name:
            return Poly.symbol(name), lambda env: env[name]
        constant = random_.randint(0, 9)
        return Poly.constant(constant), lambda env: constant
    left, left_value = some(random_, depth - 1)
    operator = random_.choice([add, mul, sub, floordiv])
    if operator is not floordiv:
        right, right_value = some(random_, depth - 1)
        return operator(left, right), lambda env: operator(left_value(env), right_value(env))
    if random_.random() < 0.2:
        return left.floordiv(Poly.symbol("n")), lambda env: left_value(env) // env["n"]
    size = random_.randint(1, 12)
    return left.floordiv(Poly.constant(size)), lambda env: left_value(env) // size


def test_values_stay() -> None:
    random_ = random.Random(2)
    simpler = 0
    for _ in range(4000):
        poly, value = some(random_, random_.randint(1, 4))
        outer = random_.randint(1, 6)
        inner = random_.choice([Poly.symbol("n"), Poly.constant(random_.randint(1, 6))])
        simple = simplify_bounds(poly, {"a": Poly.constant(outer), "b": inner})
        simpler += simple != poly
        same = {name: Poly.symbol(name) for name in ("a", "b", "n")}
        assert poly.substitute(same) == poly  # as whoever reads it from text builds it
        for _ in range(6):
            n = random_.randint(1, 7)
            most = inner.evaluate({"n": n})
            env = {"n": n, "a": random_.randrange(outer), "b": random_.randrange(most)}
            assert poly.evaluate(env) == simple.evaluate(env) == value(env), (poly, simple, env)
    assert simpler > 300


def test_nested_divisions_are_one() -> None:
    j = Poly.symbol("j")
    nested = j.floordiv(Poly.constant(32)).floordiv(Poly.constant(32))
    assert nested == j.floordiv(Poly.constant(1024))
    assert simplify_bounds(nested, {"j": Poly.constant(1024)}) == ZERO
    eight = Poly.symbol("i") * Poly.constant(8)
    inside = (eight + nested).floordiv(Poly.constant(64))
    assert simplify_bounds(inside, {"i": Poly.constant(8), "j": Poly.constant(8192)}) == ZERO


def test_what_grows_past_a_divisor_stays() -> None:
    i = Poly.symbol("i")
    past = i.floordiv(Poly.constant(8))
    assert simplify_bounds(past, {"i": Poly.constant(9)}) == past
    assert simplify_bounds(past, {"i": Poly.symbol("n")}) == past
