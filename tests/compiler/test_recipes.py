"""Kernels that are assembled from parts of others: where they are cut, and what they give."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.compiler import compiled
from maxlab.compiler.options import Options
from maxlab.compiler.recipes import recipe_of
from maxlab.config import config, set_config
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import assembled, find_compiler, improving, units
from maxlab.toolchain.flags import Accuracy

pytestmark = pytest.mark.skipif(
    not (find_compiler().quick_arguments and assembled.can_assemble(find_compiler())),
    reason="kernels are not assembled on this machine",
)
Function = Callable[[Any, Any], Any]
STEPS: dict[str, Function] = {
    "exp": lambda y, x: ops.exp(y), "tanh": lambda y, x: ops.tanh(y),
    "sigmoid": lambda y, x: ops.sigmoid(y), "erf": lambda y, x: ops.erf(y),
    "relu": lambda y, x: ops.relu(y), "abs": lambda y, x: ops.abs(y),
    "negate": lambda y, x: -y, "sqrt": lambda y, x: ops.sqrt(y), "rsqrt": lambda y, x: ops.rsqrt(y),
    "silu": lambda y, x: ops.silu(y), "gelu": lambda y, x: ops.gelu(y),
    "log": lambda y, x: ops.log(y), "cos": lambda y, x: ops.cos(y),
    "floor": lambda y, x: ops.floor(y),
    "y + x": lambda y, x: y + x, "y - x": lambda y, x: y - x, "x - y": lambda y, x: x - y,
    "y * x": lambda y, x: y * x, "y / x": lambda y, x: y / x, "x / y": lambda y, x: x / y,
    "y * y": lambda y, x: y * y, "y + 1.5": lambda y, x: y + 1.5, "0.7 - y": lambda y, x: 0.7 - y,
    "y / 4": lambda y, x: y / 4, "y * 0.3": lambda y, x: y * 0.3, "0.7 / y": lambda y, x: 0.7 / y,
    "max": ops.max, "pow": lambda y, x: ops.pow(y, 2.0),
    "where": lambda y, x: ops.where(y > x, y, x),
    "both": lambda y, x: y * x + y, "apart": lambda y, x: ops.exp(y * x) - y * x,
}  # fmt: skip


@pytest.fixture(autouse=True)
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, every number of kernels is many, and none is compiled in the background."""
    monkeypatch.setattr(compiled, "MANY_KERNELS", 1)
    monkeypatch.setattr(improving, "begin", lambda *given: None)
    old = set_config(replace(config(), cache_dir=tmp_path, plan_cache=False))
    yield
    units.forget()
    set_config(old)


def graph(steps: dict[str, Function], dtype: DType = DType.float32) -> Graph:
    """A result for each of ``steps`` of an input times a number."""
    with Graph("steps", input_types=[TensorType(dtype, ["n"])]) as made:
        x = made.inputs[0].tensor
        found = [step(x * (1 + (n + 1) / 64), x) for n, step in enumerate(steps.values())]
        made.output(*found)
    return made


def load(made: Graph, accuracy: Accuracy = "default") -> Model:
    return InferenceSession(num_threads=2).load(made, options=Options(accuracy=accuracy))


def tiers(model: Model) -> list[str]:
    return [kernel.tier for _, kernel in sorted(model.compiled.kernels.items())]


def values(dtype: DType = DType.float32, count: int = 777) -> Tensor:
    """Numbers of all sizes, and all that is no usual number."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 3, count)
    x[:12] = [0, -0.0, np.inf, -np.inf, 1e-39, -1e-39, 1e-45, 3e38, -3e38, 1, -1, np.nan]
    with np.errstate(over="ignore"):
        return Tensor.from_numpy(x.astype(dtype.to_numpy()))


def same_bits(model: Model, other: Model, x: Tensor, names: list[str]) -> None:
    """That results are the same; what sign a NaN has depends on which operand of a sum comes first,
    which compilers choose for each text anew."""
    for name, one, two in zip(names, model(x), other(x), strict=True):
        a, b = one.to_numpy(), two.to_numpy()
        a, b = (np.where(np.isnan(x), np.abs(np.nan), x).astype(x.dtype) for x in (a, b))
        assert a.tobytes() == b.tobytes(), (name, np.flatnonzero(a.view("u1") != b.view("u1"))[:5])


@pytest.mark.parametrize("accuracy", ["default", "exact"])
@pytest.mark.parametrize("dtype", [DType.float32, DType.float64])
@pytest.mark.parametrize("first", STEPS)
def test_parts_have_the_bits_of_the_whole(
    first: str, dtype: DType, accuracy: Accuracy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step behind another, as a compiler may fuse the end of one with the begin of the next."""
    begin = STEPS[first]
    pairs: dict[str, Function] = {
        f"{first}, {second}": lambda y, x, end=end: end(begin(y, x), x)  # type: ignore[misc]
        for second, end in STEPS.items()
    }
    made = graph(pairs, dtype)
    parts = load(made, accuracy)
    # A product that another one's sum uses directly and through a function is never cut from it.
    assert first == "apart" or tiers(parts).count("assembled") > len(pairs) // 2
    units.forget()
    monkeypatch.setattr(compiled, "MANY_KERNELS", 1 << 30)
    same_bits(parts, load(made, accuracy), values(dtype), list(pairs))


@pytest.mark.parametrize(
    "dtype", [DType.float16, DType.bfloat16, DType.int8, DType.int32, DType.int64, DType.uint8]
)
def test_other_types_have_the_bits_of_the_whole(
    dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain: dict[str, Function] = {
        "y + x": lambda y, x: y + x, "y * x": lambda y, x: y * x, "x - y": lambda y, x: x - y,
        "max": ops.max, "y > x": lambda y, x: ops.where(y > x, y, x),
        "cast": lambda y, x: ops.cast(ops.cast(y, DType.float32) * 0.37 + 1.5, dtype),
    }  # fmt: skip
    chains: dict[str, Function] = {
        f"{a}, {b}": lambda y, x, a=a, b=b: plain[b](plain[a](y, x), x)  # type: ignore[misc]
        for a, b in itertools.product(plain, plain)
    }
    with Graph("steps", input_types=[TensorType(dtype, ["n"])]) as made:
        x = made.inputs[0].tensor
        made.output(*(step(x + n, x) for n, step in enumerate(chains.values())))
    parts = load(made)
    assert tiers(parts).count("assembled") > len(chains) // 2
    numbers = np.random.default_rng(3).integers(0, 100, 601).astype(np.float32)
    given = Tensor.from_numpy(numbers)
    if dtype is DType.bfloat16:
        given = Tensor.from_numpy((numbers.view(np.uint32) >> 16).astype(np.uint16))
        given = given.view(dtype, given.shape)
    else:
        given = Tensor.from_numpy(numbers.astype(dtype.to_numpy()))
    units.forget()
    monkeypatch.setattr(compiled, "MANY_KERNELS", 1 << 30)
    whole = load(made)
    for name, one, two in zip(chains, parts(given), whole(given), strict=True):
        bits = [
            t.view(DType.uint8, [t.num_elements * t.dtype.size_in_bytes]).to_numpy()
            for t in (one, two)
        ]
        assert (bits[0] == bits[1]).all(), name


def lengths(steps: dict[str, Function], accuracy: Accuracy = "default") -> dict[str, int]:
    """How many parts each of ``steps`` of a product becomes; 0 where it is not cut."""
    model = load(graph(steps), accuracy)
    found = {}
    for name, step in zip(steps, model.compiled.plan.steps, strict=True):
        recipe = recipe_of(step.loops.kernel) if step.loops is not None else None
        found[name] = len(recipe or ())
    return found


def test_products_stay_with_the_sums_that_use_them() -> None:
    steps: dict[str, Function] = {
        "sum": lambda y, x: y + x, "difference": lambda y, x: x - y,
        "negated": lambda y, x: x + -y, "quotient": lambda y, x: x / y,
        "function": lambda y, x: ops.tanh(y), "unknown": lambda y, x: ops.log(y),
        "behind": lambda y, x: ops.tanh(y) + x,
    }  # fmt: skip
    together = {"sum": 1, "difference": 1, "negated": 1, "quotient": 2, "function": 2, "unknown": 1}
    assert lengths(steps) == {**together, "behind": 3}
    apart = {**dict.fromkeys(steps, 2), "negated": 3, "behind": 3}
    assert lengths(steps, "exact") == apart


def test_kernels_with_other_numbers_have_the_same_parts() -> None:
    kinds = ("exp", "relu", "y + x", "y * x", "0.7 / y")
    steps: dict[str, Function] = {
        f"{a}, {b}, {c}": lambda y, x, a=a, b=b, c=c: STEPS[c](STEPS[b](STEPS[a](y, x), x), x)  # type: ignore[misc]
        for a, b, c in itertools.product(kinds, kinds, kinds)
    }
    model = load(graph(steps))
    assert tiers(model) == ["assembled"] * len(steps)
    recipes = [recipe_of(step.loops.kernel) for step in model.compiled.plan.steps if step.loops]
    assert len({part.source for recipe in recipes for part in recipe or ()}) <= 12


def test_sums_over_rows_and_checked_results_are_not_cut() -> None:
    with Graph("rows", input_types=[TensorType(DType.float32, ["n", 8])]) as made:
        x = made.inputs[0].tensor
        made.output(ops.softmax(x), ops.tanh(x) * 2)
    assert sorted(tiers(load(made))) == ["", "assembled"]
    checked = InferenceSession().load(made, options=Options(assert_level="all"))
    assert "assembled" not in tiers(checked)


def test_results_in_the_memory_of_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of kernels that each write where they read, as nothing else reads it."""

    def made() -> Graph:
        with Graph("chain", input_types=[TensorType(DType.float32, ["n", 5])]) as graph:
            x = graph.inputs[0].tensor
            for _ in range(3):
                x = ops.tanh(x * 1.25) / (ops.exp(x) + 2)
                x = x - ops.sum(x, -1)
            graph.output(x)
        return graph

    x = np.random.default_rng(1).standard_normal((200, 5), np.float32)
    parts = load(made())(x)[0].to_numpy()
    units.forget()
    monkeypatch.setattr(compiled, "MANY_KERNELS", 1 << 30)
    assert parts.tobytes() == load(made())(x)[0].to_numpy().tobytes()


def test_where_no_function_is_left_kernels_begin_as_quick_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = {name: STEPS[name] for name in ("exp", "tanh", "erf", "relu")}
    assert tiers(load(graph(steps))) == ["assembled"] * 4
    library = assembled._library
    assert library is not None
    monkeypatch.setattr(assembled, "LISTS", library.used + 1)
    units.forget()
    model = load(graph(steps))
    assert sorted(tiers(model)) == ["assembled", "quick", "quick", "quick"]
    x = values()
    parts = [one.to_numpy().tobytes() for one in model(x)]
    monkeypatch.undo()
    assert parts == [one.to_numpy().tobytes() for one in load(graph(steps))(x)]


def test_a_text_that_somebody_wrote_is_what_runs() -> None:
    steps = {name: STEPS[name] for name in ("exp", "relu", "y + 1.5")}
    model = load(graph(steps))
    kernel = next(kernel for kernel in model.kernels.values() if "1.5f" in kernel.source)
    text = kernel.source.replace("1.5f", "2.5f")
    assert text != kernel.source
    other = model.reload(options=Options(replaced=((kernel.symbol, text),)))
    x = values(count=300)
    assert not np.array_equal(other(x)[2].to_numpy(), model(x)[2].to_numpy(), equal_nan=True)
