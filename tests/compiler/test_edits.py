"""A graph that was changed is compiled as if nobody had compiled anything before.

What is kept of other compilations saves work and decides nothing: after each of many random changes
the compilation that finds everything kept is the one that begins with nothing, to the bit.
"""

from __future__ import annotations

import gc
import inspect
import random
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.compiler import Options, cached, compiling, forms, lower
from maxlab.compiler.compiled import compilable
from maxlab.compiler.fingerprint import fingerprint
from maxlab.compiler.options import DEFAULT
from maxlab.compiler.passes import pipeline
from maxlab.compiler.passes import run as run_passes
from maxlab.compiler.plan import Plan
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.ir import Function
from tests.compiler.edits import CHANGES, Draft, arrays_for, changed
from tests.compiler.interpret import Builder, load
from tests.compiler.programs import Generator
from tests.toolchain.small import settings

EDITS = 6
"""Changes of each program, one after another."""


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Compile as a process that has compiled nothing."""
    kept = forms.KEPT
    forms.KEPT = forms.Kept(forms.LIMIT)
    try:
        yield
    finally:
        forms.KEPT = kept


def described(plan: Plan) -> list[Any]:
    """All that ``plan`` says, a line each."""
    lines: list[Any] = plan.table(None).splitlines()
    for step in plan.steps:
        lines += [
            step.id, step.pointers, list(map(str, step.sizes)), step.ops, str(step.flops),
            str(step.long), step.keeps, step.jump, str(step.launch),
            sorted((slot, *map(str, touched)) for slot, touched in step.traffic().items()),
        ]  # fmt: skip
        printed = step.printed
        if printed is not None:
            lines += printed.text.splitlines()
            lines += [printed.symbol, printed.symbols, printed.lines, printed.checked]
    return lines


def results(model: Any, function: Function, seed: int) -> list[Any]:
    """The bits of what ``model`` computes, or the error of the run."""
    inputs, _ = arrays_for(function, seed)
    try:
        return [(t.shape, t.dtype, t.to_numpy().tobytes()) for t in model.execute(*inputs)]
    except MaxlabError as error:
        return [error.code, error.what]


@pytest.mark.parametrize("seed", range(60))
def test_a_change_is_compiled_like_the_whole(seed: int) -> None:
    rng = random.Random(seed)
    draft = Draft(Generator(seed).make().function)
    load(draft.build(), arrays_for(draft.build(), seed)[1])
    for number in range(EDITS):
        name, draft, function = changed(draft, rng)
        what = f"seed {seed}, change {number}: {name}"
        _, weights = arrays_for(function, seed)
        try:
            with nothing_kept():
                whole = load(function, weights)
        except MaxlabError as error:
            with pytest.raises(type(error), match=error.code):
                load(function, weights)
            continue
        model = load(function, weights)
        assert described(model.compiled.plan) == described(whole.compiled.plan), what
        assert results(model, function, seed) == results(whole, function, seed), what


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_that_is_found_is_that_of_the_whole(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes, and their undoing in any order: by its graph a plan is found in the process, or in
    the cache on disk, and its text is that of a compilation that begins with nothing."""
    for module in (cached, compiling):
        monkeypatch.setattr(module, "loaded_kernels", lambda *_: {})
    rng = random.Random(seed)
    draft = Draft(Generator(seed).make().function)
    known: dict[str, tuple[Function, str]] = {}
    with settings(cache_dir=tmp_path / "cache"):
        for _ in range(EDITS):
            _, draft, function = changed(draft, rng)
            try:
                with nothing_kept():
                    whole = compiling.debugged(compilable(function, DEFAULT), DEFAULT).plan.text()
            except MaxlabError:
                continue
            made = cached.load(function)
            assert made.plan.text() == whole, f"seed {seed}"
            known[fingerprint(function, DEFAULT).graph] = function, whole
        cached.settle()
        for function, whole in rng.sample([*known.values()], len(known)):
            if rng.random() < 0.5:
                cached.forget()
            found = cached.load(function)
            assert found.timings_ns.keys() == {"cached", "kernels"}, "it was compiled again"
            assert found.plan.text() == whole, f"seed {seed}"
        cached.forget()


def test_all_kinds_of_changes_are_made() -> None:
    names = set()
    for seed in range(20):
        rng, draft = random.Random(seed), Draft(Generator(seed).make().function)
        for _ in range(EDITS):
            name, draft, _ = changed(draft, rng)
            names.add(name)
    assert names == {change.__name__ for change in CHANGES}


# ---------------------------------------------------------------- what is saved
def layers(count: int, other_at: int = -1) -> Function:
    """Equal layers, of which one may end otherwise."""
    b = Builder()
    x = b.input(DType.float32, "n", 16)
    for n in range(count):
        w = b.weight(f"w{n}", np.zeros((16, 16), np.float32))
        y = b.op("softmax", b.op("matmul", x, b.op("transpose", w, axis_1=0, axis_2=1)), axis=-1)
        x = b.op("sin" if n == other_at else "tanh", b.op("reduce.max", b.op("add", x, y), axis=0))
        x = b.op("add", y, x)
    return b.output(x)


def planned(function: Function, options: Options = DEFAULT) -> Plan:
    """The plan of ``function``; its kernels are not compiled."""
    work = function.clone()
    run_passes(work, pipeline(options.split_k))
    return Planner(Schedule(work, options)).build()


def test_equal_kernels_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of equal layers, and those that a change leaves as they are."""
    lowered = []
    make = lower.Lowering.__init__

    def counted(self: Any, *args: Any, **options: Any) -> None:
        lowered.append(args)
        make(self, *args, **options)

    monkeypatch.setattr(lower.Lowering, "__init__", counted)
    with nothing_kept():
        planned(layers(2))
        few = len(lowered)
        planned(layers(20))
        assert len(lowered) == few, "18 layers more are lowered again"
        planned(layers(20, other_at=7))
        assert 0 < len(lowered) - few <= 2, "only what the change is in is lowered"


OF_GRAPHS = ("maxlab.ir.core", "maxlab.ir.function", "maxlab.compiler.groups")
"""The modules whose objects are parts of graphs."""


def test_what_is_kept_is_bounded_and_holds_no_graph() -> None:
    kept = forms.Kept(3)
    for number in range(5):
        kept.put(number, f"made {number}")
        kept.get(2)
    assert [kept.get(number) is not None for number in range(5)] == [False, False, True, True, True]
    with nothing_kept():
        function = layers(2)
        planned(function)
        seen: set[int] = set()
        waiting: list[Any] = [*forms.KEPT._made.items()]
        assert waiting
        while waiting:
            one = waiting.pop()
            if id(one) in seen or isinstance(one, (type, types.ModuleType, types.FunctionType)):
                continue
            seen.add(id(one))
            where = type(one).__module__
            assert where not in OF_GRAPHS, type(one)
            waiting += gc.get_referents(one)


# ---------------------------------------------------------------- what forms must say
def unary(name: str, dtype: DType = DType.float32, *shape: Any, **attrs: Any) -> Function:
    b = Builder()
    return b.output(b.op(name, b.input(dtype, *(shape or ("n", 8))), **attrs))


def divided() -> Function:
    """Rows divided by their largest number."""
    b = Builder()
    x = b.input(DType.float32, "n", 8)
    return b.output(b.op("div", x, b.op("reduce.max", x, axis=-1)))


def scaled(number: float) -> Function:
    b = Builder()
    return b.output(b.op("mul", b.input(DType.float32, "n", 8), b.scalar(number)))


def swapped(first: bool) -> Function:
    b = Builder()
    x = b.input(DType.float32, "n", 8)
    y = b.op("exp", x)
    return b.output(b.op("sub", *((y, x) if first else (x, y))))


def two(both: bool) -> Function:
    """A value that is an output besides, or is not."""
    b = Builder()
    y = b.op("tanh", b.input(DType.float32, "n", 8))
    z = b.op("exp", y)
    return b.output(z, y) if both else b.output(z)


def turned(stored: bool) -> Function:
    """What is read through a view: stored, or computed by the reader."""
    b = Builder()
    y = b.op("tanh", b.input(DType.float32, "n", 8))
    z = b.op("add", b.op("transpose", y, axis_1=0, axis_2=1), b.scalar(1.0))
    return b.output(z, y) if stored else b.output(z)


def attended(turned: bool) -> Function:
    """Attention whose heads come first, or last, in memory, and a map of it."""
    b = Builder()
    q, k, v = (b.input(DType.float32, 2, "n", 8) for _ in range(3))
    s = b.op("matmul", q, b.op("transpose", k, axis_1=-1, axis_2=-2))
    y = b.op("matmul", b.op("softmax", b.op("mul", s, b.scalar(0.5)), axis=-1), v)
    z = b.op("reduce.max", y, axis=0)
    if not turned:
        return b.output(z)
    back = b.op("permute", y, dims=(1, 0, 2))
    return b.output(b.op("tanh", back), z)


def joined(first: bool) -> Function:
    """A concat of an input and a map of it, in this order or the other one."""
    b = Builder()
    x = b.input(DType.float32, 4, 4)
    parts = (x, b.op("tanh", x)) if first else (b.op("tanh", x), x)
    return b.output(b.op("concat", *parts, axis=0))


INGREDIENTS: dict[str, tuple[str, str, tuple[Any, ...], tuple[Any, ...]]] = {
    "the part of the compiler, and where it copies to": (
        "[how, option_key", "[option_key", (joined(True), DEFAULT), (joined(False), DEFAULT)),
    "how exact functions are": (
        "options.accuracy, ", "", (divided(), DEFAULT), (divided(), Options(accuracy="fast"))),
    "what is asserted": (
        "options.assert_level, ", "", (unary("exp"), DEFAULT),
        (unary("exp"), Options(assert_level="all"))),
    "what is logged": (
        ", options.log_level", "", (unary("exp"), DEFAULT),
        (unary("exp"), Options(log_level="trace"))),
    "dtypes": (
        "(value.type,", "(value.type.shape,", (unary("exp"), DEFAULT),
        (unary("exp", DType.float64), DEFAULT)),
    "dims": (
        "(value.type,", "(value.type.dtype,", (unary("abs", DType.float32, 4, 8), DEFAULT),
        (unary("abs", DType.float32, 4, 9), DEFAULT)),
    "names of dims": (
        "(value.type,", "(value.type.dtype,", (unary("exp"), DEFAULT),
        (unary("exp", DType.float32, "m", 8), DEFAULT)),
    "layouts": (
        "self._schedule.layouts.get(value), ", "", (attended(False), DEFAULT),
        (attended(True), DEFAULT)),
    "operations": (
        "(op.name, ", "(", (unary("exp"), DEFAULT), (unary("tanh"), DEFAULT)),
    "attributes": (
        "frozen_attrs(op.attrs)", "0", (unary("pad", paddings=(1, 1, 0, 0), value=1), DEFAULT),
        (unary("pad", paddings=(1, 1, 0, 0), value=3), DEFAULT)),
    "numbers": (
        'op.attrs["value"].array.tobytes()', "0", (scaled(2.0), DEFAULT), (scaled(3.0), DEFAULT)),
    "the order of operands": (
        "attrs, *operands)", "attrs)", (swapped(True), DEFAULT), (swapped(False), DEFAULT)),
    "what is written to memory": (
        "self._parts.append(op.result in stored)", "pass", (two(False), DEFAULT),
        (two(True), DEFAULT)),
    "what is computed where it is read": (
        "group is self._group or group.number in schedule.inlined", "True",
        (turned(False), DEFAULT), (turned(True), DEFAULT)),
}  # fmt: skip
"""By what decides the text of a kernel: the words of ``forms`` that say so and what stands there
without it, and two functions with options that differ in nothing else."""


def kept_and_whole(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, Any]:
    """The plan of ``second`` behind that of ``first``, and on its own; None where there is none."""
    with nothing_kept():
        planned(*first)
        try:
            kept = described(planned(*second))
        except Exception:  # numbers that nothing has
            kept = None
    with nothing_kept():
        return kept, described(planned(*second))


@pytest.mark.parametrize("name", INGREDIENTS)
def test_forms_say_all_that_decides_a_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, first, second = INGREDIENTS[name]
    kept, whole = kept_and_whole(first, second)
    assert kept == whole
    source = inspect.getsource(forms)
    assert source.count(old) == 1, f"forms does not say {old!r} once"
    mutant = types.ModuleType("mutant")
    monkeypatch.setitem(mutant.__dict__, "__name__", "maxlab.compiler.forms")
    exec(compile(source.replace(old, new), "mutant", "exec"), mutant.__dict__)
    monkeypatch.setattr(forms, "Form", mutant.Form)
    kept, whole = kept_and_whole(first, second)
    assert kept != whole, f"nothing here depends on {name}"
