"""``%%maxprof`` in an IPython shell: the cell's own runs are timed, and nothing is run again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from IPython.utils.capture import capture_output

from maxlab import engine, profiler, trace
from maxlab.analysis.recording import Recording
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, NotebookError
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab.maxprof.magic import USAGE, options_of
from tests.shells import shell_with_maxlab


def load(name: str = "small") -> engine.Model:
    with Graph(name, input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(ops.softmax(graph.inputs[0].tensor * 2.0))
    return engine.InferenceSession(num_threads=1).load(graph)


@pytest.fixture(scope="module")
def loaded() -> Iterator[Any]:
    with shell_with_maxlab() as shell:
        yield shell


@pytest.fixture
def shell(loaded: Any) -> Any:
    loaded.reset(new_session=False)
    loaded.user_ns.update(model=load(), x=np.ones(64, np.float32))
    return loaded


def run(shell: Any, code: str) -> tuple[Any, str, list[Any]]:
    """The value of a cell, what it printed, and what it displayed."""
    with capture_output() as captured:
        done = shell.run_cell(code, store_history=True)
    done.raise_error()
    return done.result, captured.stdout, captured.outputs


def test_the_cell_runs_once_and_is_timed(shell: Any) -> None:
    cell = (
        "%%maxprof -o found\ncount = 0\nfor _ in range(3):\n    y = model(x)[0]\n    count += 1\ny"
    )
    value, printed, shown = run(shell, cell)
    ns = shell.user_ns
    assert ns["count"] == 3
    assert value is ns["y"]
    found: Recording = ns["found"]
    assert [(m.profile.model, m.calls) for m in found.models] == [(ns["model"], 3)]
    assert found.profile is ns["model"].last_profile
    assert found.profile.runs == 3
    assert found.profile.overhead is None
    head, line = printed.splitlines()[:2]
    assert re.search(r"in kernels of 3 runs, .+ around them, .+ in Python$", head)
    assert re.search(
        r"^  small \(n = 64\): 3 runs of .+, kernels .+, most in k0 \w+ \(\d+%\)$", line
    )
    assert any("Profile('small', 1 kernel, 3 runs)" in o.data["text/plain"] for o in shown)
    assert trace.run_recorder is None


def test_the_parts_add_up(shell: Any) -> None:
    run(shell, "%%maxprof -o found -n 4\nfor _ in range(5):\n    model(x)")
    found: Recording = shell.user_ns["found"]
    assert found.calls == 20
    assert 0 < found.kernel_ns <= found.call_ns <= found.wall_ns
    assert found.python_ns + found.call_ns <= found.wall_ns
    [model] = found.models
    assert model.kernel_ns == model.profile.stamps.spent.sum()
    assert model.call_ns == model.profile.timed_samples_ns.sum()


def test_models_that_the_cell_loads(shell: Any) -> None:
    shell.user_ns["load"] = load
    _, printed, _ = run(shell, "%%maxprof -o found\nother = load('other')\nother(x)\nmodel(x)")
    found: Recording = shell.user_ns["found"]
    assert {m.profile.name for m in found.models} == {"small", "other"}
    assert 0 < found.load_ns < found.wall_ns
    assert "loading models" in printed


def test_sizes_are_told_apart(shell: Any) -> None:
    cell = "%%maxprof -o found\nmodel(x)\nmodel(x[:10])\nmodel(x[:10])\nNone"
    _, printed, _ = run(shell, cell)
    found: Recording = shell.user_ns["found"]
    assert {m.profile.dims["n"]: m.calls for m in found.models} == {64: 1, 10: 2}
    assert found.models[0].call_ns >= found.models[1].call_ns
    assert "(n = 10): 2 runs" in printed


def test_ops_know_the_line_of_the_notebook(shell: Any) -> None:
    shell.user_ns.update(Graph=Graph, types=[TensorType(DType.float32, ["n"])], ops=ops)
    body = (
        "with Graph('g', input_types=types) as graph:\n    graph.output(ops.exp(graph.inputs[0]))"
    )
    with capture_output():
        done = shell.run_cell(f"%%maxprof\n{body}", store_history=True)
    done.raise_error()
    op = next(op for op in shell.user_ns["graph"].function.ops if op.name == "mo.exp")
    assert op.loc is not None
    assert op.loc.line == 3
    assert op.loc.text.strip() == "graph.output(ops.exp(graph.inputs[0]))"
    assert op.loc.file == f"cell [{done.execution_count}]"


def test_a_line(shell: Any) -> None:
    value, printed, shown = run(shell, "%maxprof -n 2 model(x)")
    assert len(value) == 1
    assert "2 runs" in printed
    assert shown
    value, printed, shown = run(shell, "%maxprof -- -1")
    assert value == -1
    assert re.match(r".+: no model ran\n", printed)
    assert shown == []


def test_magics_inside(shell: Any) -> None:
    value, _, _ = run(shell, "%%maxprof\n%env MAXLAB_NOTHING=1\nmodel(x)\n{'a': 1}")
    assert value == {"a": 1}


def test_spans_are_recorded(shell: Any) -> None:
    assert not profiler.is_enabled()
    shell.user_ns["Tracer"] = profiler.Tracer
    run(shell, "%%maxprof -o found\nwith Tracer('mine'):\n    model(x)")
    assert not profiler.is_enabled()
    made = shell.user_ns["found"].profile.timeline
    rows = dict(zip((made.names[n] for n in made.name_index), made.depth.tolist(), strict=True))
    assert rows["small"] == rows["mine"] + 1


def test_errors_of_the_cell_go_through(shell: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        run(shell, "%%maxprof -o found\nmodel(x)\n1 / 0")
    assert trace.run_recorder is None
    assert "found" not in shell.user_ns
    with pytest.raises(SyntaxError):
        run(shell, "%%maxprof\nfor")


@pytest.mark.parametrize(
    ("line", "is_cell", "words"),
    [
        ("-x", True, "unrecognized arguments: -x"),
        ("-o", True, "expected one argument"),
        ("-o 3x", True, "the name of a variable, got '3x'"),
        ("-n 0", True, "a number of 1 or more, got '0'"),
        ("-n many", True, "got 'many'"),
        ("model(x)", True, "no option: 'model(x)'"),
        ("-n 3", False, "nothing to run"),
        ("", False, "nothing to run"),
    ],
)
def test_options_that_cannot_be_read(line: str, is_cell: bool, words: str) -> None:
    with pytest.raises(NotebookError, match=r"ML820") as caught:
        options_of(line, is_cell=is_cell)
    assert words in caught.value.what


def test_options() -> None:
    found = options_of("-o result --runs=3 f(-1, '-o')", is_cell=False)
    assert (found.out, found.runs, found.code) == ("result", 3, "f(-1, '-o')")
    for option in ("-o, --out", "-n, --runs"):
        assert option in USAGE


def test_a_cell_that_awaits(shell: Any) -> None:
    with pytest.raises(NotebookError, match="ML823"):
        run(shell, "%%maxprof\nimport asyncio\nawait asyncio.sleep(0)")


def test_one_inside_of_another(shell: Any) -> None:
    with pytest.raises(ArgumentError, match="ML852"):
        run(shell, "%%maxprof\n%maxprof model(x)")
    assert trace.run_recorder is None
    run(shell, "%%maxprof\nmodel(x)")
