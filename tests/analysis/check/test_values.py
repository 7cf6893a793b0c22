"""Values on any edge, watched expressions, and the tripwire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from maxlab.analysis.check import (
    NonFiniteError,
    first_nonfinite,
    tripwire,
    values,
    watch,
)
from maxlab.analysis.check.values import Edges
from maxlab.driver import Accelerator, simulated
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, InputError
from maxlab.graph import ops
from tests.analysis.check.planting import Array, model_of, placed, tensor
from tests.compiler.interpret import load
from tests.compiler.programs import Generator


@pytest.fixture(params=["cpu", "gpu"])
def gpu(request: pytest.FixtureRequest) -> Iterator[Accelerator | None]:
    """No GPU, or a simulated one."""
    if request.param == "cpu":
        yield None
        return
    with simulated():
        yield Accelerator()


def _block(x: Any, w: Any) -> Any:
    h = ops.gelu(x @ w + 0.5)
    return ops.softmax(ops.transpose(h, 0, 1) * 2.0), ops.sum(h, axis=0)


def _inputs() -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s).astype(np.float32) for s in ((7, 20), (20, 12))]


def test_every_op_of_a_block(gpu: Accelerator | None) -> None:
    """What NumPy computes for each op, whether it is stored, fused away or a view."""
    model = model_of(_block, ("n", 20), (20, 12), gpu=gpu)
    x, w = _inputs()
    product = x @ w
    summed = product + 0.5
    from math import erf

    cdf = np.vectorize(lambda t: 0.5 * (1 + erf(t / 2**0.5)))
    gelu = summed * cdf(summed)
    doubled = gelu.T * 2
    soft = np.exp(doubled - doubled.max(axis=-1, keepdims=True))
    soft /= soft.sum(axis=-1, keepdims=True)
    want = {
        "matmul": product,
        "add": summed,
        "gelu": gelu,
        "transpose": gelu.T,
        "mul": doubled,
        "softmax": soft,
        "reduce.sum": gelu.sum(axis=0, keepdims=True),
    }
    how = {}
    for op in model.compiled.source.ops:
        name = op.name.removeprefix("mo.")
        if name not in want:
            continue
        found = values(model, op.id, *placed(model, [x, w]))
        how[name] = found.how
        assert found.shape == want[name].shape, name
        np.testing.assert_allclose(found.array, want[name], rtol=2e-5, atol=2e-6, err_msg=name)
    assert {how["matmul"], how["add"], how["mul"]} == {"kernel"}
    assert {how["gelu"], how["softmax"], how["transpose"]} == {"memory"}
    assert np.array_equal(values(model, "input0", *placed(model, [x, w])).array, x)


@pytest.mark.parametrize("seed", range(12))
def test_every_op_of_a_random_program(seed: int) -> None:
    """Each value is what the references say, wherever it is read from."""
    from maxlab import opset
    from tests.compiler.interpret import sizes_of

    program = Generator(seed).make()
    model = load(program.function, program.weights)
    env = sizes_of(program.function, program.inputs)
    known: dict[Any, Array] = dict(zip(program.function.inputs, program.inputs, strict=True))
    for op in program.function.ops:
        if op.name == "mo.constant.external":
            known[op.result] = program.weights[op.attrs["name"]]
        elif op.name != "mo.output":
            made = opset.evaluate(op, [known[v] for v in op.operands], env)
            known.update(zip(op.results, made, strict=True))
    wanted = [op for op in program.function.ops if op.results and op.id in _used(program.function)]
    found, _ = Edges(model, [op.id for op in wanted]).run([tensor(x) for x in program.inputs])
    for op, there in zip(wanted, found, strict=True):
        want = known[op.results[0]]
        assert there.shape == want.shape
        if want.dtype.kind == "f":
            near = np.isclose(there.array, want, rtol=1e-3, atol=1e-3, equal_nan=True)
            assert near.all(), (op, there)
        else:
            assert np.mean(there.array != want) < 0.01, (op, there)


def _used(function: Any) -> set[str]:
    """The ops that outputs need."""
    found: set[str] = set()
    stack = list(function.output.operands)
    while stack:
        op = stack.pop().op
        if op is not None and op.id not in found:
            found.add(op.id)
            stack.extend(op.operands)
    return found


def test_statistics_count_what_is_not_finite() -> None:
    model = model_of(ops.log, ("n", 4))
    x = np.array([[1, 0, -1, 4], [1, 1, 1, 1]], np.float32)
    found = values(model, "n0", x)
    assert (found.nan, found.inf, found.zero) == (1, 1, 5)
    assert found.min == 0.0
    assert found.max == pytest.approx(np.log(4))
    assert found.mean == pytest.approx(np.log(4) / 6)
    counts, edges = found.histogram(4)
    assert counts.sum() == 6
    assert (edges[0], edges[-1]) == (found.min, found.max)
    image = found.image()
    assert np.isnan(image).sum() == 1
    assert image.shape == (2, 4)
    assert found.corner().shape == (2, 4)
    assert "NaN 1" in found.table()
    for wrong in (found.histogram, found.image):
        with pytest.raises(ArgumentError, match="ML664"):
            wrong(0)


def test_a_picture_is_the_mean_of_what_it_stands_for() -> None:
    model = model_of(lambda x: x + 1.0, (3, 100, 130))
    x = np.arange(3 * 100 * 130, dtype=np.float32).reshape(3, 100, 130)
    image = values(model, model.compiled.source.ops[1].id, x).image(50)
    assert image.shape == (50, 50)
    whole = (x + 1).reshape(300, 130)
    assert image[0, 0] == pytest.approx(whole[:6, :2].mean())
    assert image.mean() == pytest.approx(whole.mean(), rel=0.01)


def test_names_that_are_none() -> None:
    model = model_of(lambda x: x + 1.0, ("n",))
    with pytest.raises(ArgumentError, match="ML805"):
        values(model, "n77", np.ones(2, np.float32))
    with pytest.raises(InputError, match="ML662"):
        values(model, "n1")
    model.profile(np.ones(2, np.float32), runs=1, warmup=0)
    assert values(model, "n1").array.tolist() == [2.0, 2.0]


# ---------------------------------------------------------------- tripwire


def test_the_op_that_makes_nan_inside_of_a_fused_kernel(gpu: Accelerator | None) -> None:
    model = model_of(lambda x: ops.exp(ops.sqrt(x * 2.0 - 1.0)) + 3.0, ("n", 6), gpu=gpu)
    x = np.full((3, 6), 2, np.float32)
    inputs = placed(model, [x])
    assert first_nonfinite(model, *inputs) is None
    x[1, 4] = 0.25
    trip = first_nonfinite(model, *placed(model, [x]))
    assert trip is not None
    assert (trip.op, trip.kind, trip.count, trip.at, trip.sure) == ("sqrt", "NaN", 1, (1, 4), True)
    assert list(trip.operands.values()) == [-0.5]
    assert "sqrt" in trip.sentence()


def test_an_infinity_before_the_nan_that_it_becomes() -> None:
    model = model_of(lambda x: ops.exp(x) - ops.exp(x), ("n",))
    trip = first_nonfinite(model, np.array([1, 200], np.float32))
    assert trip is not None
    assert (trip.op, trip.kind) == ("exp", "inf")
    only_nan = first_nonfinite(model, np.array([1, 200], np.float32), infinities=False)
    assert only_nan is not None
    assert (only_nan.op, only_nan.kind) == ("sub", "NaN")


def test_a_mask_of_infinities_is_nobodys_mistake() -> None:
    def masked(x: Any) -> Any:
        return ops.softmax(ops.where(x > 0.0, x, float("-inf")))

    model = model_of(masked, (2, 8))
    x = np.ones((2, 8), np.float32)
    x[:, 3:] = -1
    assert first_nonfinite(model, x) is None
    x[1] = -1  # a row of nothing but -inf
    trip = first_nonfinite(model, x)
    assert trip is not None
    assert (trip.op, trip.kind) == ("softmax", "NaN")


def test_what_comes_in_is_told_apart() -> None:
    model = model_of(lambda x: x * 2.0, ("n",))
    trip = first_nonfinite(model, np.array([1, np.nan], np.float32))
    assert trip is not None
    assert (trip.node, trip.op, trip.kernel, trip.at) == ("input0", "input", "", (1,))


def test_a_tripwire_raises_in_the_call_and_goes_away(gpu: Accelerator | None) -> None:
    model = model_of(lambda x: ops.log(x - 1.0), ("n",), gpu=gpu)
    good, bad = (placed(model, [np.array(x, np.float32)]) for x in ([2, 3], [2, 0]))
    with tripwire(model):
        assert len(model(*good)) == 1
        with pytest.raises(NonFiniteError, match="ML663") as caught:
            model(*bad)
    assert caught.value.trip.op == "log"
    assert len(caught.value.outputs) == 1
    assert "_run" not in vars(model)
    assert len(model(*bad)) == 1


def test_every_finds_what_no_output_shows() -> None:
    def hidden(x: Any, w: Any) -> Any:
        logs = ops.log(x) @ w
        return ops.where(logs != logs, 0.0, logs)

    model = model_of(hidden, ("n", 4), (4, 4))
    inputs = [np.array([[1, 2, -3, 4]], np.float32), np.eye(4, dtype=np.float32)]
    with tripwire(model):
        model(*inputs)
    with tripwire(model, every=True), pytest.raises(NonFiniteError) as caught:
        model(*inputs)
    assert caught.value.trip.op == "log"


# ---------------------------------------------------------------- watch


def test_expressions_over_runs() -> None:
    model = model_of(lambda x: ops.exp(x * 2.0) + 1.0, ("n",))
    seen = watch(model, "abs(n1).max()", lambda v: v["n2"].sum(), nodes=["n2"], keep=3)
    for size in range(1, 6):
        (out,) = seen(np.arange(size, dtype=np.float32))
        assert out.shape == (size,)
    assert [float(x) for x in seen.history["abs(n1).max()"]] == [4.0, 6.0, 8.0]
    assert seen.names == ["abs(n1).max()", "watch1"]
    assert float(seen.last["watch1"]) == pytest.approx(np.exp(np.arange(5) * 2.0).sum(), rel=1e-5)
    assert seen.table().count("\n") == 3
    with seen.attached():
        model(np.zeros(2, np.float32))
    assert float(seen.last["abs(n1).max()"]) == 0
    model(np.ones(2, np.float32))
    assert float(seen.last["abs(n1).max()"]) == 0


def test_expressions_that_are_none() -> None:
    model = model_of(lambda x: x * 2.0, ("n",))
    for wrong in ((), ("n1 +",), ("n99.max()",)):
        with pytest.raises(ArgumentError, match=r"ML665|ML805"):
            watch(model, *wrong)
    with pytest.raises(ArgumentError, match="ML665"):
        watch(model, "n1.nothing()")(np.ones(2, np.float32))


def test_halves() -> None:
    model = model_of(lambda x: ops.exp(x * 2.0) + 1.0, ("n",), dtype=DType.bfloat16)
    x = tensor(np.array([0.5, 1.0], DType.bfloat16.ml_numpy))
    found = values(model, "n1", x)
    assert found.dtype == "bfloat16"
    assert found.array.astype(np.float32).tolist() == [1.0, 2.0]
