"""Maps that write around the caches: the same bits, where results are large and it was faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.compiler.codegen.streams import LEAST
from maxlab.compiler.conventions import AROUND
from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.engine import text_variants
from maxlab.engine.renewing import chosen
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import runtime, variants

F32 = DType.float32


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The caches are small, and nothing is measured; compiled kernels stay."""
    monkeypatch.setattr(text_variants, "last_bytes", lambda: 4096)
    before = set_config(replace(config(), variants="off"))
    variants.forget()
    yield
    variants.forget()
    set_config(before)


def graph(body: Callable[..., Any], count: int, size: int | str = "n") -> Graph:
    return Graph("map", body, [TensorType(F32, [size])] * count)


BODIES: dict[str, tuple[Callable[..., Any], int]] = {
    "plain": (lambda x: ops.relu(x * 2 + 1), 1),
    "two": (lambda x, y: x * y - x, 2),
    "exp": (ops.exp, 1),
    "tanh": (lambda x, y: ops.tanh(x) * ops.sigmoid(y), 2),
    "erf": (lambda x: ops.erf(x) + ops.exp(-x * x), 1),
    "where": (lambda x, y: ops.where(ops.greater(x, y), x, ops.log(ops.abs(y))), 2),
}


def choice_of(model: engine.Model) -> variants.Choice:
    program = list(model.runner.programs.values())[-1]
    ((choice, _),) = chosen(program.launches).values()
    return choice


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("threads", [1, 2])
def test_around_the_caches_are_the_same_bits(small: None, name: str, threads: int) -> None:
    body, count = BODIES[name]
    model = engine.InferenceSession(num_threads=threads).load(graph(body, count))
    for size in (1024, 3000, 100_003):
        given = [
            np.random.default_rng(n).standard_normal(size).astype(np.float32) for n in range(count)
        ]
        through = model.execute(*given)[0].to_numpy()
        choice = choice_of(model)
        assert choice.variant.name == "through the caches"
        choice.settle(choice.state._replace(variant=choice.variants[1]))
        model.unbind()
        around = model.execute(*given)[0].to_numpy()
        program = list(model.runner.programs.values())[-1]
        assert [one.name for _, one in chosen(program.launches).values()] == [AROUND]
        assert np.array_equal(through.view(np.int32), around.view(np.int32))


def test_any_part_of_a_result_may_be_asked_for(small: None) -> None:
    """Threads and pieces begin at any element, and end at any."""
    model = engine.InferenceSession().load(graph(lambda x: x + 1, 1))
    (step,) = model.plan.steps
    library = runtime()
    address = model.compiled.other_address(step, AROUND)
    ffi, x = library.ffi, np.arange(200, dtype=np.float32)
    room = np.empty(216, np.float32)
    first = -room.ctypes.data // 4 % 16
    for shift in (0, 3):
        for low, high in [(0, 0), (0, 1), (5, 7), (1, 17), (15, 200), (16, 176), (33, 197)]:
            y = room[first + shift : first + shift + 200]
            y[:] = -1
            pointers = ffi.new("void *[]", [ffi.cast("void *", a.ctypes.data) for a in (x, y)])
            code = ffi.cast("mx_fn", address)(pointers, ffi.NULL, low, high, ffi.NULL)
            assert code == 0
            want = np.where((np.arange(200) >= low) & (np.arange(200) < high), x + 1, -1)
            assert np.array_equal(y, want)


@pytest.mark.parametrize(
    "made",
    [
        graph(lambda x: x + 1, 1, LEAST // 2),
        Graph("rows", lambda x, y: x + y, [TensorType(F32, ["a", "b"]), TensorType(F32, ["b"])]),
        Graph("halves", lambda x: x + 1, [TensorType(DType.float16, ["n"])]),
        Graph("sizes", ops.softmax, [TensorType(F32, ["a", "b"])]),
    ],
    ids=lambda one: one.name,
)
def test_other_kernels_have_one_text(made: Graph) -> None:
    model = engine.InferenceSession().load(made)
    assert not any(step.others for step in model.plan.steps)


def test_results_that_a_cache_can_hold_have_no_choice(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_variants, "last_bytes", lambda: 1 << 20)
    model = engine.InferenceSession().load(graph(lambda x: x * 3, 1))
    model.execute(np.ones(1000, np.float32))
    assert choice_of(model).state.origin == "only"


def test_a_trial_runs_both_texts_on_bounded_memory(small: None) -> None:
    model = engine.InferenceSession().load(graph(lambda x, y: x - y, 2))
    (step,) = model.plan.steps
    family = text_variants.Maps(step, model.compiled)
    trial = family.trial(family.shape_class((1 << 40, 3)))
    for variant in family.usable((1 << 40, 3)):
        trial.run(variant)
    assert trial.words == "524288 of 524288 elements of 3 arrays"


def test_a_choice_does_not_keep_the_model(small: None) -> None:
    import gc
    import weakref

    model = engine.InferenceSession().load(graph(lambda x: x * 5, 1))
    model.execute(np.ones(2000, np.float32))
    choice, gone = choice_of(model), weakref.ref(model.compiled)
    del model
    gc.collect()
    assert gone() is None
    assert choice.family.member


def test_a_plan_that_was_written_has_the_texts() -> None:
    from maxlab.compiler.plan_file import written
    from maxlab.compiler.plan_reader import read

    model = engine.InferenceSession().load(graph(lambda x: x * 7, 1))
    (again,) = read(*written(model.plan))["steps"]
    (step,) = model.plan.steps
    assert again.other(AROUND).text == step.other(AROUND).text
