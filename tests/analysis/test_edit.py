"""Edited kernels: right, wrong, refused, crashing and hanging ones, on the CPU and the simulator;
kept, reloaded and thrown away; and what the source panel is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.analysis.check import compare
from maxlab.analysis.edit import Edit, edit_kernel, restore_kernel
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, InputError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, Weight, ops
from maxlab.lab.questions import answering
from tests.compiler.interpret import host

F32 = DType.float32
X = np.linspace(-2, 2, 40, dtype=np.float32).reshape(5, 8)


def graph_of(
    build: Callable[[TensorValue], Any], device: DeviceRef | None = None, columns: int = 8
) -> Graph:
    """The graph of ``build`` on one input of n rows."""
    type = TensorType(F32, ["n", columns], device or DeviceRef.CPU())
    with Graph("edited", input_types=[type]) as graph:
        made = build(graph.inputs[0].tensor)
        graph.output(*(made if isinstance(made, tuple) else (made,)))
    return graph


def triple(device: DeviceRef | None = None) -> Graph:
    """Three times the input."""
    return graph_of(lambda x: x * 3, device)


def load(graph: Graph, **more: Any) -> engine.Model:
    """The model on the CPU."""
    return engine.InferenceSession(num_threads=2).load(graph, **more)


def numbers(source: str, old: str, new: str) -> str:
    """``source`` with the literal ``old`` as ``new``, however it is printed."""
    made = source.replace(f"{old}.0f", f"{new}.0f").replace(f"{old}.f", f"{new}.f")
    assert made != source
    return made


def out(model: engine.Model, x: Any) -> Any:
    """The first output."""
    return host(model(x)[0].to(driver.CPU()))


@pytest.fixture
def gpu() -> Any:
    """A model on a simulated GPU, and its input there."""
    with driver.simulated():
        session = engine.InferenceSession(devices=[driver.Accelerator()], num_threads=1)
        model = session.load(triple(DeviceRef.GPU()))
        yield model, model.placed([X])[0]


# ---------------------------------------------------------------- what became of it
def test_a_right_edit_is_measured() -> None:
    model = load(triple())
    source = model.kernels["k0"].source
    made = edit_kernel(model, "k0", source.replace("return 0;", "/* mine */ return 0;"), X, runs=3)
    assert isinstance(made, Edit)
    assert (made.state, made.kernels, made.can_keep) == ("measured", ("k0",), True)
    assert made.check is not None
    assert made.check.ok
    assert made.check.max_ulp == 0
    assert made.before_ns is not None
    assert made.before_ns > 0
    assert made.after_ns is not None
    assert made.speedup == made.before_ns / made.after_ns
    assert made.runs == 3
    assert "right (40 elements agree" in str(made)
    assert model.options == Options()  # the model is as it was


def test_a_wrong_edit_is_told_with_its_place() -> None:
    model = load(triple())
    made = edit_kernel(model, "k0", numbers(model.kernels["k0"].source, "3", "4"), X)
    assert (made.state, made.can_keep, made.before_ns) == ("wrong", False, None)
    assert made.check is not None
    assert "40 of 40 elements are wrong" in made.check.message
    assert made.check.excess > 1
    with pytest.raises(ArgumentError, match=r"it is wrong[\s\S]*ML640"):
        made.keep()
    np.testing.assert_array_equal(out(model, X), 3 * X)


def test_errors_of_the_compiler_have_lines_of_the_text() -> None:
    model = load(triple())
    lines = model.kernels["k0"].source.splitlines()
    lines.insert(2, "  int broken = undeclared_thing;")
    lines.insert(4, "  also broken;")
    made = edit_kernel(model, "k0", "\n".join(lines), X)
    assert made.state == "compile_error"
    assert {(e.line, "undeclared_thing" in e.text) for e in made.errors} >= {(3, True)}
    assert any(e.line == 5 for e in made.errors)
    assert all(e.column for e in made.errors)
    assert "line 3" in str(made)


def test_a_text_without_the_function() -> None:
    model = load(triple())
    made = edit_kernel(model, "k0", "static int nothing;", X)
    assert made.state == "compile_error"
    assert made.errors
    assert made.errors[0].line is None


def test_a_crash_harms_nobody() -> None:
    model = load(triple())
    source = model.kernels["k0"].source.replace("return 0;", "*(volatile int *)8 = 1; return 0;")
    made = edit_kernel(model, "k0", source, X)
    assert (made.state, made.check) == ("crashed", None)
    assert "SIGSEGV" in made.log
    assert "outside of its memory" in made.log
    assert "crashed" in str(made)
    np.testing.assert_array_equal(out(model, X), 3 * X)


def test_an_endless_loop_is_stopped() -> None:
    model = load(triple())
    source = model.kernels["k0"].source.replace(
        "return 0;", "for (;;) *(volatile int *)b[0]; return 0;"
    )
    made = edit_kernel(model, "k0", source, X, timeout_s=5)
    assert made.state == "crashed"
    assert "within 5 s" in made.log


def test_a_write_behind_the_end_is_seen() -> None:
    model = load(triple())
    number = next(
        n
        for n, s in enumerate(model.plan.steps[0].pointers)
        if model.plan.slots[s].kind == "output"
    )
    source = model.kernels["k0"].source.replace(
        "return 0;", f"((f32 *)b[{number}])[40] = 0; return 0;"
    )
    made = edit_kernel(model, "k0", source, X)
    assert made.state == "crashed"
    assert "beyond the end" in made.log


def test_a_kernel_that_gives_up() -> None:
    model = load(triple())
    made = edit_kernel(model, "k0", model.kernels["k0"].source.replace("return 0;", "return 7;"), X)
    assert made.state == "crashed"
    assert "code 7" in made.log


def test_what_is_not_written_is_wrong() -> None:
    model = load(triple())
    head, _, _ = model.kernels["k0"].source.partition("{")
    made = edit_kernel(model, "k0", head + "{ return 0; }\n", X)
    assert made.state == "wrong"


# ---------------------------------------------------------------- kinds of kernels
def residual(x: TensorValue) -> Any:
    """A product, a reduction of columns, softmax and a concat, and a transposed output."""
    y = ops.relu(x @ Weight("w", F32, [8, 8], DeviceRef.CPU()))
    return (
        ops.softmax(y), ops.sum(ops.exp(y), axis=0), ops.concat([x, y], axis=1),
        ops.transpose(y, 0, 1),
    )  # fmt: skip


def test_every_generated_kernel_of_a_graph() -> None:
    """With a comment added each is right, and with nothing in its body each is not."""
    w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    model = load(graph_of(residual), weights_registry={"w": w})
    kinds = set()
    for step in model.plan.steps:
        if step.printed is None:
            continue
        source = model.kernels[step.id].source
        same = edit_kernel(model, step.id, source + "\n/* end */\n", X, runs=1)
        assert same.state == "measured", f"{step.kind}: {same}"
        if step.kind in kinds:
            continue
        kinds.add(step.kind)
        empty = (
            f"int {step.printed.symbol}(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *c)"
        )
        assert edit_kernel(model, step.id, empty + " { return 0; }", X).state == "wrong"
    assert {"contract", "row", "reduce", "concat", "copy"} <= kinds


def test_a_kernel_that_copies_what_later_kernels_write_over_is_right() -> None:
    """What it should have written is what it read when it ran, not what lies there later."""

    def moved(x: TensorValue) -> TensorValue:
        both = ops.concat([ops.softmax(x), ops.softmax(x * 2)], axis=1)
        part = ops.softmax(ops.softmax(both)[:, :8])
        return ops.softmax(ops.softmax(part) * 3)

    model = load(graph_of(moved))
    copies = [step for step in model.plan.steps if step.kind == "concat"]
    assert len(copies) == 2
    for step in copies:
        same = edit_kernel(model, step.id, model.kernels[step.id].source + "\n", X, runs=1)
        assert same.state == "measured", str(same)


def test_kernels_of_equal_layers_are_edited_together() -> None:
    def layers(x: TensorValue) -> TensorValue:
        weight = Weight("w", F32, [8, 8], DeviceRef.CPU())
        for _ in range(3):
            x = ops.softmax(x) @ weight
        return x

    w = np.eye(8, dtype=np.float32)
    model = load(graph_of(layers), weights_registry={"w": w})
    rows = [s for s in model.plan.steps if s.kind == "row"]
    printed = rows[1].printed
    assert printed is not None
    shared = [s.id for s in rows if s.printed and s.printed.symbol == printed.symbol]
    assert len(shared) >= 2
    made = edit_kernel(model, shared[0], printed.text + "\n", X, runs=1)
    assert made.kernels == tuple(shared)
    assert made.state == "measured"


# ---------------------------------------------------------------- kept and thrown away
def test_kept_reloaded_and_discarded() -> None:
    model = load(triple())
    kernel = model.kernels["k0"]
    source = kernel.source.replace("return 0;", "/* mine */ return 0;")
    profile = model.profile(X, runs=2, warmup=0)
    before = model.revision
    made = kernel.edit(source, runs=2)  # on the inputs of the profile
    assert made.state == "measured"
    made.keep()
    assert made.kept
    assert not made.can_keep
    assert model.kernels["k0"].source == source
    assert dict(model.options.replaced) == {kernel.symbol: source}
    assert model.revision > before
    assert model.last_profile is not None
    assert model.last_profile is not profile
    np.testing.assert_array_equal(out(model, X), 3 * X)
    assert compare(model, X).ok
    again = model.reload(num_threads=1)
    assert again.kernels["k0"].source == source
    with pytest.raises(ArgumentError, match="kept already"):
        made.keep()
    made.discard()
    assert model.kernels["k0"].source == kernel.source
    assert model.options.replaced == ()
    np.testing.assert_array_equal(out(model, X), 3 * X)
    assert restore_kernel(model, "k0") is False


def test_an_edit_of_an_edit_has_the_same_name() -> None:
    model = load(triple())
    symbol = model.kernels["k0"].symbol
    for note in ("one", "two"):
        source = model.kernels["k0"].source.replace("return 0;", f"/* {note} */ return 0;")
        made = edit_kernel(model, "k0", source, X, runs=1)
        made.keep()
    assert model.kernels["k0"].symbol == symbol
    assert "one" in model.kernels["k0"].source
    assert "two" in model.kernels["k0"].source
    assert restore_kernel(model, "k0")
    assert "/* one */" not in model.kernels["k0"].source


def test_a_run_that_goes_on_while_a_kernel_is_kept() -> None:
    """Bindings that are in use keep what they read."""
    w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    model = load(graph_of(residual), weights_registry={"w": w})
    want = out(model, X)
    program = model.bind((X.shape,))
    kernel = next(s.id for s in model.plan.steps if s.kind == "row")
    made = edit_kernel(model, kernel, model.kernels[kernel].source + "\n", X, runs=1)
    made.keep()
    assert program.executable.prepared is not model.prepared
    assert model.bind((X.shape,)) is not program
    np.testing.assert_array_equal(out(model, X), want)


# ---------------------------------------------------------------- the simulator
def test_an_edit_for_a_gpu(gpu: Any) -> None:
    model, x = gpu
    source = model.kernels["k0"].source
    made = edit_kernel(model, "k0", source + "\n// mine\n", x, runs=2)
    assert (made.state, made.device) == ("measured", "simulated GPU"), made.log
    made.keep()
    assert "// mine" in model.kernels["k0"].source
    np.testing.assert_array_equal(out(model, x), 3 * X)
    made.discard()
    assert model.kernels["k0"].source == source
    np.testing.assert_array_equal(out(model, x), 3 * X)


def test_wrong_and_refused_for_a_gpu(gpu: Any) -> None:
    model, x = gpu
    source = model.kernels["k0"].source
    made = edit_kernel(model, "k0", numbers(source, "3", "4"), x)
    assert made.state == "wrong", made.log
    lines = source.splitlines()
    at = next(n for n, line in enumerate(lines) if line.rstrip().endswith("{")) + 1
    lines.insert(at, "  broken thing;")
    made = edit_kernel(model, "k0", "\n".join(lines), x)
    assert made.state == "compile_error"
    assert any(e.line == at + 1 for e in made.errors), made.errors


# ---------------------------------------------------------------- what cannot be edited
def test_what_cannot_be_edited() -> None:
    with Graph("f", input_types=[TensorType(F32, [4, 4]), TensorType(F32, [4, 4])]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(x @ y)
    model = load(graph)
    data = np.ones((4, 4), np.float32)
    with pytest.raises(ArgumentError, match=r"is no generated text[\s\S]*ML638|ML638"):
        edit_kernel(model, "k0", "", data, data)
    with pytest.raises(ArgumentError, match="has no kernel 'k9'"):
        edit_kernel(model, "k9", "", data, data)
    with pytest.raises(ArgumentError, match="ML653"):
        edit_kernel(model, "k1", "", data, data, runs=0)
    with pytest.raises(InputError, match="ML662"):
        edit_kernel(model, "k1", "text")


# ---------------------------------------------------------------- the panel's questions
def test_the_panel() -> None:
    model = load(triple())
    model.profile(X, runs=1, warmup=0)

    def ask(what: str, **args: Any) -> Any:
        data = answering.answer(model, what, args).data
        json.dumps(data, allow_nan=False)
        return data

    text = ask("text", kernel="k0")
    assert text["source"] == model.kernels["k0"].source
    assert not text["edited"]
    assert text["lines"]
    with pytest.raises(ArgumentError, match="no edit of k0 was tried"):
        ask("keep", kernel="k0")
    wrong = ask("edit", kernel="k0", source=numbers(text["source"], "3", "4"))
    assert (wrong["state"], wrong["can_keep"], wrong["check"]["ok"]) == ("wrong", False, False)
    bad = ask("edit", kernel="k0", source=text["source"] + "nonsense")
    assert bad["errors"][0]["line"] == len(text["source"].splitlines()) + 1
    assert bad["check"] is None
    source = text["source"].replace("return 0;", "/* mine */ return 0;")
    good = ask("edit", kernel="k0", source=source)
    assert (good["state"], good["can_keep"], good["runs"]) == ("measured", True, 20)
    assert good["before_ns"] > 0
    assert "runs your k0" in ask("keep", kernel="k0")["message"]
    now = ask("text", kernel="k0")
    assert (now["source"], now["edited"]) == (source, True)
    assert "as the compiler made it" in ask("discard", kernel="k0")["message"]
    assert ask("text", kernel="k0") == text
    assert "never ran it" in ask("discard", kernel="k0")["message"]
    for wrong_args in ({"kernel": "k9"}, {}):
        with pytest.raises(ArgumentError):
            ask("text", **wrong_args)
    with pytest.raises(ArgumentError, match="source: expected text, got 3"):
        ask("edit", kernel="k0", source=3)
