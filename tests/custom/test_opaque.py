"""Opaque handles: what kernels of users make, keep and let go, through the public API."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.engine import MojoValue
from maxlab.engine.launching import host_launch
from maxlab.engine.stepping import Walk
from maxlab.errors import GraphError, MaxlabError, ParseError, ToolchainError
from maxlab.graph import BufferType, DeviceRef, Graph, KernelLibrary, OpaqueType, TensorType, ops
from maxlab.ir.printer import generic
from maxlab.lab.documents import document_of
from maxlab.opset import custom, custom_text
from maxlab.opset.opaques import TypeTextError
from maxlab.toolchain import units

CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
COUNTER, OTHER = OpaqueType("counter"), OpaqueType("other")
I64 = TensorType(DType.int64, [])
LIVE = BufferType(DType.int64, [2], CPU)
"""How many counters there are, and how many there ever were: every one writes into this memory."""

KERNELS = """
// Counters, which tell how many of them there are.

// @opaque counter drop=counter_drop
typedef struct { i64 at, items, s0; i64 *live; } counter;
static void grow(counter *c, i64 by) { c->at += by * c->s0; }
static void counter_drop(counter *c) {
  if (c->live) c->live[0]--;
  free(c);
}
// @end

// @op counter_new(inout live: int64[2], start: int64[]) -> (c: counter)
// @c
c = calloc(1, sizeof *c);
if (c) {
  c->at = load(start, 0);
  c->s0 = 1;
  c->live = live;
  live[0]++;
  live[1]++;
}

// @op counter_next(inout c: counter) -> (at: int64[n])
// @c
store(at, i, c->at);
grow(c, 1);

// @op counter_add(inout c: counter, by: int64[])
// @c
grow(c, load(by, 0));
continue;

// @op counter_at(c: counter) -> (at: int64[])
// @c
store(at, i, c->at);

// @op counter_move(inout c: counter, inout other: counter)
// @c
other->at += c->at;
c->at = 0;

// @op counter_same(inout c: counter) -> (again: counter, twice: counter)
// @c
again = c;
twice = again;

// @op counter_none(x: int64[]) -> (c: counter, d: counter)
// @c
c = calloc(1, sizeof *c);
d = load(x, 0) ? calloc(1, sizeof *d) : 0;

// @op double(x: int64[*s]) -> (y: int64[*s])
// @both
store(y, i, 2 * load(x, i));
"""
OTHERS = """
// @opaque other
#include <stdlib.h>
#include <string.h>
typedef struct { f64 grow; } other;
static f64 grow(const other *o) { return o->grow; }

// @op other_new(x: int64[]) -> (o: other)
// @c
o = malloc(sizeof *o);
if (o) memset(o, 0, sizeof *o), o->grow = load(x, 0);

// @op other_at(o: other) -> (x: int64[])
// @c
store(x, i, (i64)grow(o));
"""


def graph(types: list[Any], build: Any, text: Any = KERNELS, **more: Any) -> Graph:
    """The graph of ``build``, which gets the inputs and returns the outputs."""
    with Graph("g", input_types=types, custom_extensions=text, **more) as made:
        made.output(*build(*made.inputs))
    return made


def model(types: list[Any], build: Any, text: Any = KERNELS, **more: Any) -> Any:
    return engine.InferenceSession(**more).load(graph(types, build, text))


def new(live: Any, start: Any) -> Any:
    """A new counter."""
    return ops.inplace_custom("counter_new", CPU, [live.buffer, start], [COUNTER])[0]


def at(c: Any) -> Any:
    """What the counter is at."""
    return ops.custom("counter_at", CPU, [c], [I64])[0]


def add(c: Any, by: Any) -> Any:
    return ops.inplace_custom("counter_add", CPU, [c, by])


def next_of(c: Any, count: int) -> Any:
    return ops.inplace_custom("counter_next", CPU, [c], [TensorType(DType.int64, [count])])[0]


def number(value: int) -> Any:
    return ops.constant(value, DType.int64, CPU)


@pytest.fixture
def live() -> Iterator[Any]:
    """The memory that counts; no test leaves a counter behind."""
    made = np.zeros(2, np.int64)
    yield made
    gc.collect()
    assert made[0] == 0


def maker() -> Any:
    """A model that makes a counter."""
    return model([LIVE, I64], lambda live, start: [new(live, start)])


def reader() -> Any:
    """A model that tells what a counter is at."""
    return model([COUNTER], lambda c: [at(c)])


# ---------------------------------------------------------------- what it is
def test_a_handle_goes_from_model_to_model(live: Any) -> None:
    (c,) = maker()(live, 5)
    assert isinstance(c, MojoValue)
    assert repr(c) == "MojoValue(counter)"
    assert c.type == COUNTER
    step = model([COUNTER, I64], lambda c, by: [next_of(c, 3), add(c, by), c, at(c)][0::2])
    numbers, again = step(c, 10)
    np.testing.assert_array_equal(numbers.to_numpy(), [5, 6, 7])
    assert again is c
    assert reader()(c)[0].item() == 18
    assert reader()(input0=c)[0].item() == 18
    assert list(live) == [1, 1]


def test_it_survives_the_model_and_the_session(live: Any) -> None:
    (c,) = maker()(live, 7)
    gc.collect()
    units.forget()
    assert live[0] == 1
    assert reader()(c)[0].item() == 7
    del c
    assert list(live) == [0, 1]


def test_what_a_run_makes_for_itself_is_let_go_at_its_end(live: Any) -> None:
    many = model([LIVE, I64], lambda live, start: [at(new(live, start)), new(live, start)])
    x, c = many(live, 3)
    assert x.item() == 3
    assert list(live) == [1, 2]
    y, d = many(live, 4)
    assert list(live) == [2, 4]
    assert (y.item(), d) == (4, d)
    del c
    assert list(live) == [1, 4]


def test_what_changes_a_handle_does_its_items_in_order(live: Any) -> None:
    (c,) = maker()(live, 0)
    count = 4_000_000
    run = model([COUNTER], lambda c: [next_of(c, count)], num_threads=4)
    launches = [step.launch for step in run.plan.steps if step.name != "chain"]
    assert count in {host_launch(launch, {}, 4, run.runtime).grain for launch in launches}
    (found,) = run(c)
    np.testing.assert_array_equal(found.to_numpy(), np.arange(count))
    assert reader()(c)[0].item() == count


def test_a_kernel_with_declarations_of_its_own_is_a_unit_of_its_own() -> None:
    texts = [f"{units.ALONE}\nint a;", "int b;", f"{units.ALONE}\nint c;", "int d;"]
    key: Any = None
    missing = [units._Missing(units.KernelSource(t[-2], t), key, "new text") for t in texts]
    for jobs in (1, 8):
        found = [[item.source.name for item in part] for part in units.group(missing, jobs)]
        assert found[:2] == [["a"], ["c"]]
        assert sorted(name for part in found[2:] for name in part) == ["b", "d"]
    assert units.group(missing[::2], 1) == [missing[:1], missing[2:3]]


def test_an_output_twice_is_one_handle(live: Any) -> None:
    def build(live: Any, start: Any) -> list[Any]:
        c = new(live, start)
        return [c, new(live, start), c]

    c, d, e = model([LIVE, I64], build)(live, 1)
    assert c is e
    assert c is not d
    del c, d
    assert live[0] == 1


@pytest.mark.parametrize("fuse", [True, False])
def test_two_calls_are_two_handles_and_none_is_dropped(live: Any, fuse: bool) -> None:
    def build(live: Any, start: Any) -> list[Any]:
        c, d = new(live, start), new(live, start)
        new(live, start)  # nobody reads it
        add(c, start)
        before, after = at(d), at(d)
        return [c, d, at(c), before, after]

    made = graph([LIVE, I64], build)
    run = engine.InferenceSession().load(made, options=Options(fuse=fuse))
    c, d, x, y, z = run(live, 2)
    assert c is not d
    assert [v.item() for v in (x, y, z)] == [4, 2, 2]
    assert list(live) == [2, 3]


def test_what_is_read_is_read_in_order(live: Any) -> None:
    def build(live: Any, start: Any) -> list[Any]:
        c = new(live, start)
        found = [at(c)]
        for _ in range(3):
            add(c, number(10))
            found.append(at(c))
        return found

    found = model([LIVE, I64], build)(live, 1)
    assert [x.item() for x in found] == [1, 11, 21, 31]


def test_a_kernel_may_give_the_handle_that_it_took(live: Any) -> None:
    def build(c: Any) -> list[Any]:
        return ops.inplace_custom("counter_same", CPU, [c], [COUNTER, COUNTER])

    (c,) = maker()(live, 1)
    d, e = model([COUNTER], build)(c)
    assert d is c
    assert e is c
    assert live[0] == 1


def test_two_types_may_have_the_same_words(live: Any) -> None:
    def build(live: Any, start: Any) -> list[Any]:
        c = new(live, start)
        add(c, start)
        (o,) = ops.custom("other_new", CPU, [start], [OTHER])
        return [c, at(c), *ops.custom("other_at", CPU, [o], [I64]), o]

    c, x, y, o = model([LIVE, I64], build, [KERNELS, OTHERS])(live, 4)
    assert (x.item(), y.item()) == (8, 4)
    assert (repr(c), repr(o)) == ("MojoValue(counter)", "MojoValue(other)")
    assert units.ALONE == custom_text.ALONE


# ---------------------------------------------------------------- what is refused when it runs
def refused(code: str, kind: type[Exception], act: Any) -> MaxlabError:
    with pytest.raises(kind) as caught:
        act()
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == code, str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "given",
    [1, np.zeros((), np.uint64), driver.Tensor.from_numpy(np.zeros((), np.uint64)), None, "c"],
    ids=repr,
)
def test_a_number_is_no_handle(given: Any) -> None:
    run = reader()
    for act in (lambda: run(given), lambda: run.execute(given), lambda: Walk(run, [given])):
        error = refused("ML786", TypeError, act)
        assert "'counter'" in error.what


def test_a_handle_of_another_type_or_text_is_refused(live: Any) -> None:
    (c,) = maker()(live, 1)
    (o,) = model([I64], lambda x: ops.custom("other_new", CPU, [x], [OTHER]), OTHERS)(1)
    error = refused("ML786", TypeError, lambda: reader()(o))
    assert "MojoValue(other)" in error.what
    changed = KERNELS.replace("i64 at, items, s0;", "i64 items, at, s0;")
    other = model([COUNTER], lambda c: [at(c)], changed)
    error = refused("ML786", TypeError, lambda: other(c))
    assert "declares 'counter' otherwise" in error.what
    refused("ML607", TypeError, lambda: model([I64], lambda x: [x * 2])(c))


def test_a_handle_is_neither_made_nor_copied_by_python(live: Any) -> None:
    (c,) = maker()(live, 1)
    for act in (MojoValue, lambda: copy.copy(c), lambda: pickle.dumps(c)):
        refused("ML786", TypeError, act)


def test_no_handle_is_an_error_and_what_was_made_is_let_go(live: Any) -> None:
    def build(live: Any, x: Any) -> list[Any]:
        c = new(live, x)
        made = ops.custom("counter_none", CPU, [x], [COUNTER, COUNTER])
        return [c, *made]

    run = model([LIVE, I64], build)
    assert len(run(live, 1)) == 3
    error = refused("ML785", RuntimeError, lambda: run(live, 0))
    assert "counter_none" in error.what
    assert error.at is not None
    assert error.at.file.endswith("test_opaque.py")
    gc.collect()
    assert list(live) == [0, 2]


def test_one_handle_for_two_operands_is_refused_when_it_is_seen(live: Any) -> None:
    def build(c: Any, d: Any) -> list[Any]:
        ops.inplace_custom("counter_move", CPU, [c, d])
        return [at(d)]

    run = model([COUNTER, COUNTER], build)
    make = maker()
    (c,), (d,) = make(live, 1), make(live, 2)
    assert run(c, d)[0].item() == 3
    error = refused("ML789", RuntimeError, lambda: run(c, c))
    assert "c and other are one handle" in error.what
    assert reader()(c)[0].item() == 0


# ---------------------------------------------------------------- what is refused when it is built
CUSTOM: Any = ops.custom
INPLACE: Any = ops.inplace_custom
ERRORS: list[tuple[str, type[Exception], Any]] = [
    ("ML784", TypeError, lambda c, x, b: CUSTOM("counter_at", CPU, [x], [I64])),
    ("ML784", TypeError, lambda c, x, b: CUSTOM("other_at", CPU, [c], [I64])),
    ("ML784", TypeError, lambda c, x, b: INPLACE("counter_next", CPU, [b], [I64])),
    ("ML784", TypeError, lambda c, x, b: CUSTOM("double", CPU, [c], [I64])),
    ("ML784", TypeError, lambda c, x, b: CUSTOM("other_new", CPU, [x], [COUNTER])),
    ("ML784", TypeError, lambda c, x, b: CUSTOM("other_new", CPU, [x], [I64])),
    ("ML784", TypeError, lambda c, x, b: CUSTOM("double", CPU, [x], [COUNTER])),
    ("ML764", ValueError, lambda c, x, b: CUSTOM("other_at", CPU, [], [I64])),
    ("ML768", TypeError, lambda c, x, b: CUSTOM("other_new", CPU, [x], [b.type])),
    ("ML790", TypeError, lambda c, x, b: CUSTOM("counter_add", CPU, [c, x], [])),
    ("ML787", TypeError, lambda c, x, b: INPLACE("other_new", CPU, [x], [OTHER])),
    ("ML789", ValueError, lambda c, x, b: INPLACE("counter_move", CPU, [c, c])),
    ("ML769", ValueError, lambda c, x, b: CUSTOM("counter_at", GPU, [c], [I64])),
    ("ML769", ValueError, lambda c, x, b: CUSTOM("counter_at", DeviceRef.CPU(1), [c], [I64])),
    ("ML317", TypeError, lambda c, x, b: ops.add(c, x)),
    ("ML752", ValueError, lambda c, x, b: ops.cond(x < 1, [OTHER], lambda: c, lambda: c)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "kind", "act"), ERRORS)
def test_errors_name_the_line_and_leave_the_graph(code: str, kind: Any, act: Any) -> None:
    types = [COUNTER, I64, BufferType(DType.int64, [], CPU)]
    with Graph("g", input_types=types, custom_extensions=[KERNELS, OTHERS]) as made:
        c, x, b = made.inputs[0].opaque, made.inputs[1].tensor, made.inputs[2].buffer
        error = refused(code, kind, lambda: act(c, x, b))
        assert error.at is not None
        assert error.at.line == act.__code__.co_firstlineno
        assert not [op for op in made.function.ops if op.name.startswith("mo.custom")]


TYPE = "// @opaque t drop=t_drop\ntypedef struct { i64 x; } t;\nstatic void t_drop(t *p) {}\n"
OP = "// @op f(x: int64[]) -> (o: t)\n"
TEXTS = [
    ("not declared", 1, OP + "// @c\no = 0;"),
    ("declared twice", 7, TYPE + OP + "// @c\no = 0;\n" + TYPE.replace("x;", "y;")),
    ("takes a name and its destructor", 1, "// @opaque 3\ntypedef int t;\n" + OP + "// @c\no = 0;"),
    ("declares no type 't'", 1, "// @opaque t\ntypedef int u;\n" + OP + "// @c\no = 0;"),
    ("a body for GPUs", 4, TYPE + OP + "// @both\no = 0;"),
    ("its body runs once", 4, TYPE + OP + "// @items 3\n// @c\no = 0;"),
    ("its body runs once", 4, TYPE + OP + "// @c items=3\no = 0;"),
    ("stands behind @opaque", 4, TYPE + "// @c\no = 0;"),
    ("stands before any @op", 1, "// @items 3\n" + TYPE),
    ("no result, and changes no operand", 4, TYPE + "// @op f(x: t)\n// @c\n;"),
    ("the name 'x' stands for two things", 4, TYPE + "// @op f(x: t) -> (x: int64[])\n// @c\n;"),
]


@pytest.mark.parametrize(("what", "line", "text"), TEXTS)
def test_a_text_that_cannot_be_read(what: str, line: int, text: str) -> None:
    with pytest.raises(ParseError, match=what) as caught:
        KernelLibrary().add_source(text)
    assert caught.value.code == "ML761"
    assert caught.value.at is not None
    assert caught.value.at.line == line


def test_a_type_is_declared_once_in_a_graph() -> None:
    other = KERNELS.replace("i64 at, items, s0;", "i64 items, at, s0;")
    session = engine.InferenceSession(
        custom_extensions=other[: other.index("// @op counter_next")]
        + other[other.index("// @op counter_none") :]
    )
    made = graph([LIVE, I64], lambda live, x: [at(new(live, x))])
    with pytest.raises(GraphError, match="'counter' with different texts") as caught:
        session.load(made)
    assert caught.value.code == "ML784"
    assert issubclass(TypeTextError, ValueError)


def test_no_reference_knows_a_handle() -> None:
    library = KernelLibrary()
    library.add_source(KERNELS)
    refused("ML784", TypeError, lambda: library.reference("counter_at"))
    assert "counter_next(inout c: counter) -> (at: int64[n])" in str(library["counter_next"])


# ---------------------------------------------------------------- libraries
def test_files_of_a_folder_share_types_and_archives_keep_them(live: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    head, tail = KERNELS.split("// @end")
    (folder / "z_types.c").write_text(head)
    (folder / "a_ops.c").write_text(tail)
    library = KernelLibrary(None, [folder])
    packed = library.package(tmp_path / "counters.mxpkg")
    for given in (folder, packed, library):
        (c,) = model([LIVE, I64], lambda live, x: [new(live, x)], [given])(live, 3)
        assert model([COUNTER], lambda c: [at(c)], [given])(c)[0].item() == 3
        del c
    (c,) = maker()(live, 1)  # the same text in another place declares the same type
    assert model([COUNTER], lambda c: [at(c)], [folder])(c)[0].item() == 1


def test_a_file_may_have_types_beside_those_of_another_one(live: Any, tmp_path: Path) -> None:
    head, tail = KERNELS.split("// @end")
    (tmp_path / "types.c").write_text(head)
    (tmp_path / "ops.c").write_text(tail)
    (tmp_path / "more.c").write_text(
        OTHERS.replace("grow", "tell")
        + "// @op both(c: counter, o: other) -> (x: int64[])\n// @c\n"
        "store(x, i, c->at + (i64)tell(o));\n"
    )

    def build(live: Any, x: Any) -> list[Any]:
        c = new(live, x)
        (o,) = ops.custom("other_new", CPU, [x + 1], [OTHER])
        return [*ops.custom("both", CPU, [c, o], [I64]), c, o]

    x, c, o = model([LIVE, I64], build, tmp_path)(live, 3)
    assert (x.item(), repr(c), repr(o)) == (7, "MojoValue(counter)", "MojoValue(other)")
    assert reader()(c)[0].item() == 3


def test_a_file_cannot_take_a_call_out_of_its_order(tmp_path: Path) -> None:
    made = graph([COUNTER], lambda c: [at(c)])
    text = generic(made.function).replace('"mo.custom.inplace"(%a0, %v0)', '"mo.custom"(%a0)')
    text = text.replace(
        '(!mo.opaque<"counter">, !mo.chain) -> (!mo.tensor<[], si64>, !mo.chain)',
        '(!mo.opaque<"counter">) -> !mo.tensor<[], si64>',
    )
    (tmp_path / "g.mlir").write_text(text.replace("%v1, %v1_1 =", "%v1 ="))
    error = refused("ML358", ValueError, lambda: Graph(path=tmp_path / "g.mlir"))
    assert "no place in the order of effects" in error.what


def test_the_compiler_names_the_line_of_a_type(tmp_path: Path) -> None:
    (tmp_path / "t.c").write_text("\n" + TYPE.replace("i64 x", "missing x"))
    (tmp_path / "ops.c").write_text(OP + "// @c\no = 0;")
    made = graph([I64], lambda x: ops.custom("f", CPU, [x], [OpaqueType("t")]), [tmp_path])
    with pytest.raises(ToolchainError) as caught:
        engine.InferenceSession().load(made)
    found = caught.value.at
    assert found is not None
    assert (Path(found.file).name, found.line) == ("t.c", 3)


def test_a_saved_graph(live: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = graph([LIVE, I64, COUNTER], lambda live, x, c: [new(live, x), at(c), c])
    assert '!mo.opaque<"counter">' in generic(made.function)
    made.save(tmp_path / "g.mlir")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "another user"))
    with mock.patch.dict(custom.DECLARED, clear=True):  # as in another process
        again = Graph(path=tmp_path / "g.mlir")
        assert again.output_types == made.output_types
        with pytest.raises(ValueError, match="no kernel library that was loaded"):
            engine.InferenceSession().load(again)
        run = engine.InferenceSession(custom_extensions=KERNELS).load(tmp_path / "g.mlir")
        (c,) = maker()(live, 9)
        d, x, e = run(live, 2, c)
        assert (x.item(), e is c) == (9, True)
        assert reader()(d)[0].item() == 2


# ---------------------------------------------------------------- control flow, subgraphs, devices
@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_gives_makes_and_changes_handles(live: Any, flag: bool) -> None:
    def build(live: Any, flag: Any, c: Any, d: Any) -> list[Any]:
        def then() -> Any:
            add(c, number(100))
            return c, new(live, number(50))

        made, fresh = ops.cond(flag, [COUNTER, COUNTER], then, lambda: (d, d))
        return [made, fresh, at(made), at(fresh)]

    run = model([LIVE, TensorType(DType.bool, []), COUNTER, COUNTER], build)
    make = maker()
    (c,), (d,) = make(live, 1), make(live, 2)
    made, fresh, x, y = run(live, flag, c, d)
    assert made is (c if flag else d)
    assert (fresh is d) is not flag
    assert (x.item(), y.item()) == ((101, 50) if flag else (2, 2))
    assert live[0] == (3 if flag else 2)


def test_a_loop_carries_handles_and_makes_them(live: Any) -> None:
    def build(live: Any, turns: Any) -> list[Any]:
        first = new(live, number(0))

        def body(turn: Any, c: Any) -> Any:
            add(first, number(1))
            made = new(live, at(c) + at(first))
            return turn + 1, made

        _, last = ops.while_loop([number(0), first], lambda turn, c: turn < turns, body)
        return [last, at(last), at(first)]

    run = model([LIVE, I64], build)
    last, x, y = run(live, 4)
    assert (x.item(), y.item()) == (1 + 1 + 2 + 3 + 4 - 1 + 1, 4)
    assert list(live) == [1, 5]
    again, z, _ = run(live, 0)
    assert (z.item(), again is last) == (0, False)
    assert list(live) == [2, 6]


def test_subgraphs_take_make_and_pass_handles(live: Any) -> None:
    with Graph("g", input_types=[LIVE, I64], custom_extensions=KERNELS) as made:
        more = made.add_subgraph("more", lambda c, x: (next_of(c, 2), c), [COUNTER, I64])
        swap = made.add_subgraph("swap", lambda a, b, x: (b, a, x * 2), [COUNTER, COUNTER, I64])
        buffer, x = made.inputs[0].buffer, made.inputs[1].tensor
        c, d = new(buffer, x), new(buffer, x + 10)
        first, _ = ops.call(more, c, x)
        second, again = ops.call(more, c, x)
        e, f, y = ops.call(swap, again, d, x)
        g, h, z = ops.call(swap, e, f, y)
        made.output(first, second, e, f, g, h, z, at(e))
    found: Any = engine.InferenceSession().load(made)(live, 1)
    np.testing.assert_array_equal(found[0].to_numpy(), [1, 2])
    np.testing.assert_array_equal(found[1].to_numpy(), [3, 4])
    e, f, g, h, z, n = found[2:]
    assert (e is h, f is g, e is f) == (True, True, False)
    assert (z.item(), n.item()) == (4, 11)
    assert live[0] == 2


def test_dims_may_be_computed_between_what_has_handles(live: Any) -> None:
    def build(live: Any, x: Any) -> list[Any]:
        c = new(live, number(3))
        found = ops.nonzero(x, "hits")
        add(c, ops.shape_to_tensor(found.shape)[0])
        return [c, at(c), found]

    run = model([LIVE, TensorType(DType.float32, ["n"])], build)
    c, x, found = run(live, np.array([0, 1, 2, 0, 3], np.float32))
    assert x.item() == 6
    assert found.shape[0] == 3
    assert reader()(c)[0].item() == 6
    assert live[0] == 1
    profile = run.profile(live, np.array([1, 0], np.float32), runs=2, warmup=1)
    assert profile.kernels
    gc.collect()
    assert live[0] == 1


def test_a_graph_with_a_gpu_has_handles_on_the_host(live: Any) -> None:
    def build(live: Any, x: Any) -> list[Any]:
        total = ops.transfer_to(ops.sum(x.tensor * 2, 0).reshape([]), CPU)
        c = new(live, total)
        return [c, ops.transfer_to(at(c), GPU)]

    types = [LIVE, TensorType(DType.int64, ["n"], GPU)]
    with driver.simulated():
        device = driver.Accelerator()
        run = model(types, build, devices=[device])
        x = driver.Tensor.from_numpy(np.arange(4)).to(device)
        c, y = run(live, x)
        assert y.to(driver.CPU()).item() == 12
        assert live[0] == 1
        run.profile(live, x, runs=2, warmup=1)
        d, _ = recorded(run, live, x)
        assert reader()(d)[0].item() == 12
        assert len(list(Walk(run, [live, x]))) == len(run.plan.steps)
        assert reader()(c)[0].item() == 12
        taker = model([COUNTER, types[1]], lambda c, x: [x.tensor * 2, at(c)], devices=[device])
        assert taker(c, x)[1].item() == 12
        refused("ML786", TypeError, lambda: taker(np.zeros((), np.uint64), x))


def recorded(run: Any, *args: Any) -> Any:
    with maxlab.record() as recording:
        made = run(*args)
    assert recording.models
    return made


# ---------------------------------------------------------------- looking, and threads
def test_checks_profiles_and_walks(live: Any) -> None:
    def build(live: Any, x: Any, c: Any) -> list[Any]:
        d = new(live, x)
        add(d, x * 2)
        add(c, x)
        return [d, at(d) * 3, at(c), c]

    run = model([LIVE, I64, COUNTER], build)
    (c,) = maker()(live, 100)
    found = maxlab.compare(run, live, 5, c)
    assert found.ok, found.message
    assert "custom kernel" in found.message
    assert run.profile(live, 5, c, runs=2, warmup=1).kernels
    walk = Walk(run, [live, np.asarray(5), c])
    before = live[0]
    steps = list(walk)
    assert len(steps) == len(run.plan.steps)
    assert live[0] == before + 1
    del walk, steps
    gc.collect()
    assert live[0] == 1
    with maxlab.tripwire(run, every=True):
        d, x, *_ = run(live, 5, c)
    assert x.item() == 45
    assert reader()(d)[0].item() == 15
    d = recorded(run, live, 5, c)[0]
    assert reader()(d)[0].item() == 15
    again = run.reload(options=Options(fuse=False))
    run.adopt(again)
    assert run(live, 5, c)[1].item() == 45


def test_the_view_draws_the_type(live: Any) -> None:
    made = graph([LIVE, I64, COUNTER], lambda live, x, c: [new(live, x), at(c)])
    for shown in (made, engine.InferenceSession().load(made)):
        text = str(document_of(shown))
        assert '!mo.opaque<"counter">' in text
        assert "counter_new" in text
    assert "ui64" not in str(made)


def test_references_are_counted_by_threads_at_once(live: Any) -> None:
    make, read = maker(), reader()
    (shared,) = make(live, 1)
    wrong: list[Any] = []

    def work() -> None:
        try:
            for n in range(40):
                (c,) = make(live_of_thread := np.zeros(2, np.int64), n)
                if read(c)[0].item() != n or read(shared)[0].item() != 1:
                    wrong.append(n)
                del c
                if live_of_thread[0]:
                    wrong.append("left behind")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_one_handle_is_given_back_by_many_threads(live: Any) -> None:
    (c,) = maker()(live, 1)
    same = model([COUNTER, COUNTER], lambda a, b: [b, a])
    (d,) = maker()(live, 2)
    held: list[Any] = []

    def work() -> None:
        for _ in range(50):
            a, b = same(c, d)
            held.append((a is d, b is c))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held == [(True, True)] * 200


def test_long_loops_of_threads_keep_their_own_handles() -> None:
    """Runs that take more than a slice of the executor are run in turns by one team."""

    def build(live: Any, turns: Any) -> list[Any]:
        def body(turn: Any, c: Any) -> Any:
            return turn + 1, new(live, at(c) + 1)

        _, last = ops.while_loop(
            [number(0), new(live, number(0))], lambda turn, c: turn < turns, body
        )
        return [last, at(last)]

    run, read = model([LIVE, I64], build), reader()
    turns = 100_000
    found: list[tuple[int, int, int]] = []

    def work() -> None:
        counted = np.zeros(2, np.int64)
        last, n = run(counted, turns)
        again = read(last)[0].item()
        alive = int(counted[0])
        del last
        found.append((n.item(), again, alive + int(counted[0]) + int(counted[1])))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(turns, turns, 1 + 0 + turns + 1)] * 3
