"""Random programs over the whole op table; ``scripts/fuzz programs`` runs thousands."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxlab.dtype import DType
from maxlab.errors import ToolchainError
from maxlab.opset import OPSET
from tests.compiler import whole
from tests.compiler.compiling import compile_all
from tests.compiler.interpret import Builder
from tests.compiler.programs import Program
from tests.compiler.whole import Whole, differs, rows, smallest, told

SEEDS = range(64)


@cache
def programs() -> dict[int, Program]:
    """The programs of all seeds, with their kernels compiled together."""
    made = {seed: Whole(seed).make() for seed in SEEDS}
    with contextlib.suppress(ToolchainError):  # found again by the program's test
        compile_all(program.function for program in made.values())
    return made


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_program(seed: int) -> None:
    program = programs()[seed]
    wrong = differs(program)
    assert not wrong, f"{wrong}\n{told(smallest(program))}"


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_programs_that_hypothesis_chooses(choices: random.Random) -> None:
    program = Whole(choices).make()
    wrong = differs(program)
    assert not wrong, f"{wrong}\n{told(program)}"


def test_programs_have_every_op_with_samples() -> None:
    seen = {op.name for seed in range(700) for op in Whole(seed).make().function.ops}
    assert set(rows()) - seen <= {"mo.rebind"}  # its samples only rename dims


def chain() -> Program:
    """Two outputs, of which the second comes from a chain of ops."""
    b = Builder("chain")
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    v = b.input(DType.float32, 3, 4)
    y = b.op("exp", b.op("negate", b.op("transpose", v, axis_1=0, axis_2=1)))
    return Program(b.output(b.op("relu", v), b.op("reduce.sum", y, axis=0)), [x])


def test_a_wrong_kernel_is_found_and_its_program_made_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert differs(chain()) == ""
    right = OPSET["mo.exp"].reference
    off = replace(OPSET["mo.exp"], reference=lambda call, x: right(call, x) * 1.01)
    monkeypatch.setitem(OPSET, "mo.exp", off)
    assert "output 1" in differs(chain())
    small = smallest(chain())
    assert [op.name for op in small.function.ops] == ["mo.exp", "mo.output"]
    assert differs(small)
    assert "float32 (4, 3)" in told(small)
    monkeypatch.undo()
    assert differs(small) == ""


def test_ops_that_are_wrong_only_together_are_kept_together() -> None:
    def wrong(program: Program) -> str:
        names = [op.name for op in program.function.ops]
        return "both" if {"mo.negate", "mo.reduce.sum"} <= set(names) else ""

    small = smallest(chain(), wrong)
    assert [op.name for op in small.function.ops][0::2] == ["mo.negate", "mo.reduce.sum"]
    assert len(small.function.ops) == 4


def test_what_a_compiler_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise ToolchainError("ML501", "there is no compiler")

    monkeypatch.setattr(whole, "load", fails)
    assert "there is no compiler" in differs(chain())


@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16, DType.float64], ids=str)
@pytest.mark.parametrize("large", [1e17, 1e25, 3e38])
def test_sums_and_squares_overflow_where_those_of_the_references_do(
    dtype: DType, large: float
) -> None:
    """As in seed 12833, whose layer_norm has a variance that no float32 is."""
    b = Builder("overflow")
    x = np.array([[large, 1, -2, 3], [large, large, 4, large], [1, 2, 3, 5]])
    v, ones = b.input(dtype, 3, 4), b.constant(np.ones(4, dtype.ml_numpy))
    normal = b.op("layer_norm", v, ones, ones, epsilon=1e-2)
    program = Program(b.output(normal, b.op("mean", v, axis=1)), [x.astype(dtype.ml_numpy)])
    assert differs(program) == ""
