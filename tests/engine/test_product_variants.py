"""Variants of products: all give the same bits, and a model takes the one that was measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.engine.launching import host_launch
from maxlab.engine.product_variants import BATCHED, PRODUCTS
from maxlab.engine.renewing import chosen
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import runtime, variants
from maxlab.toolchain.variants import Case, Family, Trial, Variant, timing

F32 = DType.float32


@pytest.fixture
def on(tmp_path: Path) -> Iterator[None]:
    """Variants are measured, and nothing is known of them; compiled kernels stay."""
    rooms = tmp_path / "variants"
    before = set_config(replace(config(), variants="on"))
    patch = pytest.MonkeyPatch()
    patch.setattr(
        "maxlab.toolchain.variants.verdicts.place_of",
        lambda family, case, found: rooms / f"{family.name}-{'-'.join(map(str, case))}.json",
    )
    variants.forget()
    yield
    assert variants.wait(60)
    patch.undo()
    variants.forget()
    set_config(before)


@pytest.fixture
def off() -> Iterator[None]:
    """The guess is taken, unless a test settles something else."""
    before = set_config(replace(config(), variants="off"))
    variants.forget()
    yield
    variants.forget()
    set_config(before)


Favour = Callable[[str], None]


@pytest.fixture
def favour(on: None, monkeypatch: pytest.MonkeyPatch) -> Favour:
    """Lets the variant of this name be the fastest one, whatever the machine says."""

    def let(name: str) -> None:
        now = 0
        monkeypatch.setattr(timing, "clock", lambda: now)
        for family in (PRODUCTS, BATCHED):
            original: Callable[[Case], Trial] = type(family).trial.__get__(family)

            def trial(case: Case, original: Callable[[Case], Trial] = original) -> Trial:
                made = original(case)

                def run(variant: Variant) -> None:
                    nonlocal now
                    made.run(variant)  # it works
                    now += 1 if variant.name == name else 1000

                return Trial(run, made.words)

            monkeypatch.setattr(family, "trial", trial)

    return let


def product(m: int | str, n: int, k: int, batch: int = 0) -> Graph:
    front = [batch] if batch else []
    types = [TensorType(F32, [*front, m, k]), TensorType(F32, [*front, k, n])]
    return Graph("product", lambda x, y: ops.relu(x @ y) + 1, types)


def taken(model: engine.Model) -> list[str]:
    """The variants that the newest program of ``model`` was bound with."""
    program = list(model.runner.programs.values())[-1]
    return [variant.name for _, variant in chosen(program.launches).values()]


def operands(m: int, n: int, k: int, batch: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n + k)
    front = (batch,) if batch else ()
    shapes = (*front, m, k), (*front, k, n)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return x, y


SIZES = [(300, 700, 600, 0), (25, 1100, 1000, 0), (13, 36, 520, 16), (64, 64, 64, 16),
         (1, 70, 300, 120), (5, 31, 900, 20)]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "batch"), SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_all_variants_give_the_same_bits(
    off: None, m: int, n: int, k: int, batch: int, threads: int
) -> None:
    x, y = operands(m, n, k, batch)
    session = engine.InferenceSession(num_threads=threads)
    model = session.load(product("m", n, k, batch))
    choice = variants.choose(BATCHED, (batch, m, n, k))
    if not batch:
        choice = variants.choose(PRODUCTS, (m, n, k, threads))
    assert len(choice.variants) > 1
    found = []
    for one in choice.variants:
        choice.settle(choice.state._replace(variant=one))
        model.unbind()
        found.append(model.execute(x, y)[0].to_numpy())
        assert taken(model) == [one.name]
    want = np.maximum(x.astype(np.float64) @ y, 0) + 1
    np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-3)
    for other in found[1:]:
        assert np.array_equal(other.view(np.int32), found[0].view(np.int32))


def test_the_first_run_has_the_guess_and_a_later_one_what_was_measured(favour: Favour) -> None:
    favour("packed")
    x, y = operands(8, 64, 512, 16)
    model = engine.InferenceSession().load(product("m", 64, 512, 16))
    first = model.execute(x, y)[0].to_numpy()
    assert variants.wait(60)
    again = model.execute(x, y)[0].to_numpy()
    assert taken(model) == ["packed"]
    assert (first == again).all()
    assert model.bound_shapes == [(x.shape, y.shape)]
    assert engine.InferenceSession().load(product("m", 64, 512, 16)).execute(x, y) is not None


def test_runs_that_are_going_on_do_not_see_the_change(favour: Favour) -> None:
    """Threads run a model while its variant is exchanged again and again."""
    favour("packed")
    x, y = operands(8, 64, 512, 16)
    model = engine.InferenceSession().load(product("m", 64, 512, 16))
    want = model.execute(x, y)[0].to_numpy()
    assert variants.wait(60)
    wrong: list[Any] = []
    stop = threading.Event()

    def runs() -> None:
        while not stop.is_set():
            if not (model.execute(x, y)[0].to_numpy() == want).all():
                wrong.append(1)

    workers = [threading.Thread(target=runs) for _ in range(2)]
    for one in workers:
        one.start()
    shapes = (x.shape, y.shape)
    choice = variants.choose(BATCHED, (16, 8, 64, 512))
    for turn in range(40):
        choice.settle(choice.state._replace(variant=choice.variants[turn % 2]))
        model.runner.programs.renew(shapes, model.runner.programs[shapes])
        assert taken(model) == [choice.variant.name]
    stop.set()
    for one in workers:
        one.join()
    assert not wrong


def test_a_model_that_is_gone_is_not_bound_again(favour: Favour) -> None:
    favour("packed")
    x, y = operands(8, 64, 512, 16)
    model = engine.InferenceSession().load(product("m", 64, 512, 16))
    model.execute(x, y)
    del model
    assert variants.wait(60)
    assert variants.choose(BATCHED, (16, 8, 64, 512)).variant.name == "packed"


def test_small_products_and_transposed_ones_have_no_choice(on: None) -> None:
    from maxlab.compiler.launches import BatchedGemm, Gemm
    from maxlab.ir.poly import Poly

    size = Poly.constant
    library = runtime()
    small = host_launch(Gemm(size(4), size(4), size(4), F32), {}, 1, library)
    assert small.choice is None
    assert small.variant is PRODUCTS.guess(4)
    sizes = (size(16), size(64), size(64), size(512))
    assert host_launch(BatchedGemm(*sizes, F32), {}, 1, library).choice is None
    assert host_launch(BatchedGemm(*sizes, F32, rowwise=True), {}, 1, library).choice is not None


@pytest.mark.parametrize(
    ("family", "case"),
    [
        (PRODUCTS, (1, 1, 1, 1)),
        (PRODUCTS, (1 << 20, 32, 1 << 14, 4)),
        (PRODUCTS, (100, 1 << 17, 1 << 14, 64)),
        (BATCHED, (1, 1, 1, 1)),
        (BATCHED, (1 << 20, 1, 1, 1 << 16)),
        (BATCHED, (4, 1 << 13, 1 << 13, 1 << 13)),
    ],
    ids=lambda one: one.name if isinstance(one, Family) else "x".join(map(str, one)),
)
def test_trials_are_bounded(family: Family, case: Case) -> None:
    """Whatever the sizes are, one turn of a trial is little work on little memory."""
    trial = family.trial(family.shape_class(case))
    for variant in family.usable(family.shape_class(case)):
        trial.run(variant)
    numbers = [int(word) for word in trial.words.split() if word.isdigit()]
    items = numbers.pop(0) if family is BATCHED else 1
    m, k, again, n = numbers
    assert k == again
    assert 2 * items * m * n * k <= 700_000_000
    assert 4 * items * k * n <= 80 << 20
