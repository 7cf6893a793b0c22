"""Right models: nothing is found wrong, by kernels, by their scalars, and from end to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from maxlab.analysis.check import compare
from maxlab.analysis.check.compare import _Comparer
from maxlab.compiler import Options
from maxlab.driver import Accelerator, simulated
from maxlab.engine import Model
from maxlab.graph import ops
from tests.analysis.check.planting import model_of, placed, tensor
from tests.compiler.interpret import load
from tests.compiler.programs import Generator
from tests.compiler.test_matrix import CASES, Case, build
from tests.cuda.placing import load_on, on_gpu

SOME = CASES[::5]


@pytest.mark.parametrize("case", SOME, ids=lambda c: c.id)
def test_an_op_of_the_table(case: Case) -> None:
    function, arrays = build(case)
    model = load(function)
    inputs = [tensor(x) for x in arrays]
    found = compare(model, *inputs)
    assert found.ok, found.message
    assert function.output is not None
    assert len(found.outputs) == len(function.output.operands)
    _scalars_are_right(model, inputs)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program(seed: int) -> None:
    program = Generator(seed).make()
    model = load(program.function, program.weights)
    inputs = [tensor(x) for x in program.inputs]
    found = compare(model, *inputs)
    assert found.ok, found.message
    _scalars_are_right(model, inputs)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Accelerator]:
    """A simulated GPU."""
    with simulated():
        yield Accelerator()


@pytest.mark.parametrize("seed", range(8))
def test_a_random_program_on_a_gpu(seed: int, gpu: Accelerator) -> None:
    program = Generator(seed).make()
    model = load_on(gpu, on_gpu(program.function), program.weights)
    inputs = placed(model, program.inputs)
    found = compare(model, *inputs)
    assert found.ok, found.message
    _scalars_are_right(model, inputs)


def _scalars_are_right(model: Model, inputs: Sequence[Any]) -> None:
    """Every scalar that can be read out of the kernels' texts is what the references say."""
    comparer = _Comparer(model, inputs, all=True)
    for facts, error in comparer._walk_steps():
        assert error is None
        check, bad = comparer._kernel(facts, None)
        assert bad is None, check
        if facts.step.kind == "pack":
            continue
        known = comparer._known(facts)
        wanted = comparer._reference.evaluate([w.made for w in facts.writes], known)
        located = comparer._located(facts, known, wanted).located
        assert located.difference is None, (facts.step.id, located)


def test_the_worst_comes_first_and_the_table_says_so() -> None:
    function, arrays = build(next(c for c in CASES if c.id.startswith("softmax")))
    found = compare(load(function), *(tensor(x) for x in arrays))
    text = found.table()
    assert text.startswith(found.message)
    assert found.first is None
    assert found.node(found.nodes[0].id) is found.nodes[0]
    with pytest.raises(KeyError):
        found.node("n99")
    assert np.isfinite([n.difference.excess for n in found.nodes if n.difference]).all()


@pytest.mark.parametrize(
    "options",
    [
        Options(fuse=False),
        Options(accuracy="fast"),
        Options(apart=frozenset({"n2"})),
        Options(keep=frozenset({"n1", "n2"})),
    ],
    ids=str,
)
def test_a_model_with_other_options(options: Options) -> None:
    def block(x: Any, w: Any) -> Any:
        return ops.softmax(ops.gelu(x @ w + 0.5) * 2.0)

    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((9, 20), (20, 12))]
    model = model_of(block, ("n", 20), (20, 12)).reload(options=options)
    found = compare(model, *inputs)
    assert found.ok, found.message
    _scalars_are_right(model, inputs)
