"""Kernels that begin as parts or as quick code, and are optimised while the model runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from maxlab import trace
from maxlab.analysis.compile_report import compile_report
from maxlab.compiler import compiled, early
from maxlab.compiler.options import Options
from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.engine.host_steps import HostSteps
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import find_compiler, improving, units
from maxlab.toolchain.assembled import can_assemble
from tests.compiler.interpret import load, outputs_of
from tests.compiler.whole import Whole

pytestmark = pytest.mark.skipif(
    not find_compiler().quick_arguments, reason="no options for quick code are known"
)


@pytest.fixture(params=["assembled", "quick"])
def first(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What kernels begin as."""
    if request.param == "quick":
        monkeypatch.setattr(units, "can_assemble", lambda compiler: False)
    elif not can_assemble(find_compiler()):
        pytest.skip("kernels are not assembled on this machine")
    return str(request.param)


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, and every number of kernels is many."""
    monkeypatch.setattr(compiled, "MANY_KERNELS", 1)
    old = set_config(replace(config(), cache_dir=tmp_path, plan_cache=False))
    yield
    improving.wait()
    set_config(old)


def graph(count: int = 4) -> Graph:
    """Kernels of one loop each, and one that adds up."""
    with Graph("several", input_types=[TensorType(DType.float32, ["rows", 33])]) as made:
        x = made.inputs[0].tensor
        maps = [(ops.exp, ops.tanh, ops.erf, ops.sigmoid)[n % 4](x * n) * x for n in range(count)]
        made.output(*maps, ops.softmax(x))
    return made


def tiers(model: Model) -> list[str]:
    """How far the kernels of ``model`` are, in the order of its steps."""
    return [kernel.tier for _, kernel in sorted(model.compiled.kernels.items())]


def numbers(model: Model) -> list[bytes]:
    """The results of ``model``, as bytes."""
    x = np.linspace(-3, 3, 165, dtype=np.float32).reshape(5, 33)
    return [one.to_numpy().tobytes() for one in model(x)]


SAID = {
    "quick": "quick code with equal results runs until it is optimised",
    "assembled": "parts of other kernels with equal results run until it is compiled",
}


@pytest.mark.usefixtures("many")
def test_better_code_takes_the_place_of_what_was_first(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    with monkeypatch.context() as held:
        held.setattr(improving, "begin", lambda *given: begun.append(given))
        model = InferenceSession(num_threads=1).load(graph())
    assert sorted(tiers(model)) == ["", *[first] * 4]
    before = numbers(model)
    said = compile_report(model).table()
    assert said.count(SAID[first]) == 4
    quick = {number: kernel.address for number, kernel in model.compiled.kernels.items()}

    improving.begin(*begun[0]).join()
    assert sorted(tiers(model)) == ["", *["improved"] * 4]
    assert numbers(model) == before
    said = compile_report(model).table()
    assert said.count("in place of quick code with equal results") == 4
    now = {number: kernel.address for number, kernel in model.compiled.kernels.items()}
    assert sum(quick[n] != now[n] for n in now) == 4
    assert addresses_in_tables(model) == set(now.values()), "the executor runs them"


def addresses_in_tables(model: Model) -> set[int]:
    """The addresses that executors of ``model`` have."""
    from maxlab.toolchain.cffi_abi import ffi

    tables = [one for one in model.compiled.kernels.tables if isinstance(one, HostSteps)]
    assert tables
    return {
        int(ffi.cast("uintptr_t", table.steps[n].fn))
        for table in tables
        for n in range(len(table.walked))
    }


@pytest.mark.usefixtures("many")
def test_what_is_optimised_before_anybody_asks_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = improving.begin
    monkeypatch.setattr(improving, "begin", lambda *given: begin(*given).join())
    model = InferenceSession().load(graph())
    assert sorted(tiers(model)) == ["", *["improved"] * 4]
    again = InferenceSession().load(graph())
    assert sorted(tiers(again)) == sorted(tiers(model))
    assert numbers(again) == numbers(model)


@pytest.mark.usefixtures("many")
def test_two_models_wait_for_the_same_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    with monkeypatch.context() as held:
        held.setattr(improving, "begin", lambda *given: begun.append(given))
        models = [InferenceSession().load(graph()) for _ in range(2)]
    assert len(begun) == 1
    improving.begin(*begun[0]).join()
    assert sorted(tiers(models[0])) == sorted(tiers(models[1])) == ["", *["improved"] * 4]


@pytest.mark.usefixtures("many")
def test_compilers_begin_while_the_plan_is_made(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kernel is compiled once so, and the report says that it was compiled."""
    monkeypatch.setattr(early, "BATCH", 4)
    monkeypatch.setattr(early, "MANY_KERNELS", 8)
    trace.recorder().clear()  # it forgets the oldest events when it is full
    with monkeypatch.context() as other:
        begun = []
        other.setattr(improving, "begin", lambda *given: begun.append(given))
        model = InferenceSession().load(graph(21))
    units = [e.data["kernels"] for e in trace.recorder().events("compile")
             if "kernels" in e.data and "why" in e.data]  # fmt: skip
    kernels = [name for unit in units for name in unit if name.startswith("k_")]
    assert len(kernels) == len(set(kernels))
    assert len(kernels) == 22 if first == "quick" else len(kernels) < 12, (
        "parts have no kernel twice"
    )
    assert not any(kernel.hit for kernel in model.compiled.kernels.values())
    assert len(begun) > 2, "in several batches"
    before = numbers(model)
    for given in begun:
        improving.begin(*given).join()
    assert tiers(model).count("improved") == 21
    assert numbers(model) == before


@pytest.mark.usefixtures("many")
def test_a_plan_that_fails_leaves_nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "BATCH", 2)
    monkeypatch.setattr(early, "MANY_KERNELS", 2)
    with monkeypatch.context() as other:
        other.setattr("maxlab.compiler.compiling.replace_texts", lambda *given: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            InferenceSession().load(graph(9))
    model = InferenceSession().load(graph(9))
    improving.wait()
    assert set(tiers(model)) == {"", "improved"}


@pytest.mark.usefixtures("many")
def test_nothing_is_quick_where_results_may_be_rounded_otherwise() -> None:
    model = InferenceSession().load(graph(), options=Options(accuracy="fast"))
    assert set(tiers(model)) == {""}


@pytest.mark.usefixtures("many")
def test_no_kernel_is_quick_without_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MANY_KERNELS", 1000)
    assert set(tiers(InferenceSession().load(graph()))) == {""}


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_first_has_the_bits_of_optimised_code(
    seed: int, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random programs over the whole op table."""
    program = Whole(seed).make()
    with monkeypatch.context() as held:
        held.setattr(improving, "begin", lambda *given: None)
        quick = load(program.function, program.weights)
        got = outputs_of(quick, program.inputs)
    monkeypatch.setattr(compiled, "MANY_KERNELS", 1 << 30)
    units.forget()
    want = outputs_of(load(program.function, program.weights), program.inputs)
    for one, other in zip(got, want, strict=True):
        assert one.tobytes() == other.tobytes()


SCRIPT = """
import os, sys
from maxlab.compiler import compiled, early
compiled.MANY_KERNELS = 1
from tests.compiler.test_quick import graph, numbers, tiers
from maxlab.engine import InferenceSession
from maxlab.toolchain import improving
model = InferenceSession().load(graph(24))
print(sorted(set(tiers(model))), numbers(model)[3].hex(), flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
improving.wait()
print(sorted(set(tiers(model))))
"""


def test_a_process_that_is_killed_meanwhile_harms_nothing(tmp_path: Path) -> None:
    def run(how: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, how],
            env={**os.environ, "MAXLAB_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == (-9 if how == "kill" else 0), done.stderr
        return done.stdout.splitlines()

    (killed,) = run("kill")
    first, last = run("wait")
    assert first.split()[-1] == killed.split()[-1]
    assert last == "['', 'improved']"
    assert run("wait")[0].startswith("['']"), "the cache has better code now"


@pytest.mark.usefixtures("many")
def test_an_error_of_the_compiler_leaves_what_was_first(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maxlab.errors import ToolchainError

    begun = []
    with monkeypatch.context() as held:
        held.setattr(improving, "begin", lambda *given: begun.append(given))
        model = InferenceSession().load(graph())
    memo, parts, _, jobs = begun[0]

    def fails(part: object) -> improving.Made:
        raise ToolchainError("ML505", "the compiler was killed")

    before = numbers(model)
    improving.begin(memo, parts, fails, jobs).join()
    assert tiers(model).count(first) == 4
    assert numbers(model) == before
    warnings = trace.recorder().events("warning")
    assert [e for e in warnings if e.name == "improving"], "it is said"
