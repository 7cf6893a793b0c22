"""The gallery: its files are as they are generated, and each loads, runs and says something."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from maxlab import engine
from maxlab.errors import ArgumentError
from maxlab.graph import Editor, Graph
from maxlab.ir import SymbolicDim
from maxlab.lab import templates
from maxlab.lab.lessons import check

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"height": 6, "width": 7}


def generator() -> ModuleType:
    """``scripts/gen_templates.py``."""
    spec = importlib.util.spec_from_file_location(
        "gen_templates", ROOT / "scripts/gen_templates.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_files_are_as_they_are_generated() -> None:
    made = generator().texts()
    assert [name.removesuffix(".mlgraph") for name in made] == list(templates.NAMES)
    for name, text in made.items():
        assert templates.text(name.removesuffix(".mlgraph")) == text, name


@pytest.mark.parametrize("name", templates.NAMES)
def test_each_loads_runs_and_says_something(name: str) -> None:
    graph = templates.graph(name)
    assert graph.document.text() == templates.text(name)
    rng = np.random.default_rng(0)
    arrays = []
    for value in graph.inputs:
        shape = [
            SIZES.get(dim.name, 3) if isinstance(dim, SymbolicDim) else int(dim)
            for dim in value.tensor.shape
        ]
        arrays.append(rng.standard_normal(shape).astype(np.float32))
    for output in engine.InferenceSession().load(graph)(*arrays):
        assert np.isfinite(output.to_numpy()).all()
    document = graph.document
    assert document.lesson is not None
    assert document.lesson.title
    assert document.lesson.says
    if document.goal is None:
        known = {op.id for op in graph.function.ops}
        assert len(document.comments) >= 2
        assert all(comment.on in known for comment in document.comments)
    else:
        assert document.lesson.hints
        assert not all(met(graph))


def met(graph: Graph) -> list[bool]:
    """Which parts of its goal a lesson's graph has."""
    goal = graph.document.goal
    assert goal is not None
    return [part.met for part in check(graph, goal)]


def given(graph: Graph, number: int = 0) -> tuple[str, str]:
    """The ids of an output and of the operation that makes it."""
    output = graph.function.output
    assert output is not None
    value = output.operands[number]
    return value.id, "" if value.op is None else value.op.id


def test_the_lessons_are_solved_by_what_their_hints_say() -> None:
    graph = templates.graph("lesson-1-first-step")
    editor = Editor(graph)
    (doubled,) = editor.add("mul", "x", 2.0)
    editor.set_outputs(*editor.add("relu", doubled))
    assert all(met(graph))

    graph = templates.graph("lesson-2-shapes")
    editor = Editor(graph)
    (turned,) = editor.add("transpose", "w", 0, 1)
    editor.set_outputs(*editor.add("matmul", given(graph)[0], turned))
    assert all(met(graph))

    graph = templates.graph("lesson-3-softmax")
    editor = Editor(graph)
    grown, exp = given(graph)
    (total,) = editor.add("sum", grown)
    editor.set_outputs(*editor.add("div", grown, total))
    assert met(graph) == [True, True, True, False], "large scores are not safe yet"
    (largest,) = editor.add("max", "x")
    editor.insert("sub", exp, 0, largest)
    assert all(met(graph))

    graph = templates.graph("lesson-4-shortcut")
    editor = Editor(graph)
    (bent,) = editor.replace(given(graph)[1], "tanh")
    editor.set_outputs(*editor.add("add", "x", bent))
    assert all(met(graph))


def test_what_the_templates_compute() -> None:
    x = np.array([[1.0, 2, 3, 4, 5, 1000]], np.float32)
    (made,) = engine.InferenceSession().load(templates.graph("softmax"))(x)
    assert made.to_numpy().round(3).tolist() == [[0, 0, 0, 0, 0, 1]]
    points = np.array([[0.1, 0], [3, 1], [1, 9]], np.float32)
    nearest, _ = engine.InferenceSession().load(templates.graph("nearest"))(points)
    assert nearest.to_numpy().tolist() == [0, 1, 2]


def test_another_name_is_refused() -> None:
    for name in ("none", "../templates/mlp", ""):
        with pytest.raises(ArgumentError, match="ML825"):
            templates.text(name)
