"""What is proposed for the cells of a notebook, by what the kernel knows of their runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.kernels import Kernel

BEGIN = """
import json
import maxlab
from maxlab.dtype import DType
from maxlab.graph import Editor, Graph, TensorType, ops
from maxlab.lab.code.bases import by_hand
from maxlab.lab.questions.answering import handlers

ROW = [TensorType(DType.float32, [4, 8])]

def edit(graph, name, new):
    found = [op.id for op in graph.function.ops if op.name == f"mo.{name}"]
    with by_hand(graph):
        Editor(graph).replace(found[0], new)
"""
ASK = "json.dumps(handlers()['write'][1](g, {'way': 'rewrite'}).data)"
PLAIN = """with Graph("net", input_types=ROW) as g:
    h = ops.relu(g.inputs[0].tensor)  # größe
    g.output(ops.exp(h))"""
FUNCTION = """def head(x):
    return ops.exp(ops.relu(x))
g = Graph("net", head, ROW)"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel in an empty folder."""
    made = Kernel(tmp_path_factory.mktemp("cells"))
    made.run(BEGIN, "begin")
    yield made
    made.close()


def asked(kernel: Kernel, cells: list[tuple[str, str]], more: str = "") -> dict[str, Any]:
    """The answer to ``write`` after ``cells`` ran, and relu was exchanged for tanh by hand."""
    kernel.errors.clear()
    for cell, text in cells:
        kernel.run(text, cell)
    assert kernel.errors == []
    kernel.run(f"{more}\nedit(g, 'relu', 'tanh')")
    assert kernel.errors == []
    found: dict[str, Any] = json.loads(kernel.run("", expression=ASK))
    return found


RELU, TANH = "ops.relu", "ops.tanh"
WRITTEN: dict[str, tuple[list[tuple[str, str]], str]] = {
    "one cell": ([("a", PLAIN)], "a"),
    "the first of two with the same text": ([("b", PLAIN), ("c", f"{PLAIN}\nlast = g")], "c"),
    "the second of two with the same text": ([("d", PLAIN), ("e", PLAIN)], "e"),
    "line ends of Windows": ([("f", PLAIN.replace("\n", "\r\n"))], "f"),
    "tabs": ([("g", PLAIN.replace("    ", "\t"))], "g"),
    "names of other letters": (
        [("h", PLAIN.replace(" h =", " größe =").replace("(h)", "(größe)"))],
        "h",
    ),
    "a star import": ([("i", f"from maxlab.graph.ops import *\n{PLAIN}")], "i"),
    "magics on other lines": ([("j", f"%pwd\n!true\n{PLAIN}\n%pwd")], "j"),
    "empty lines around": ([("k", f"\n\n{PLAIN}\n\n")], "k"),
    "a decorator of another function": (
        [("l", f"@staticmethod\ndef other(x):\n    return x\n{PLAIN}")],
        "l",
    ),
    "exec of another thing": ([("m", f"exec('z = 1')\n{PLAIN}")], "m"),
    "a function of the cell": ([("n", FUNCTION)], "n"),
    "a function that a cell before had too": (
        [("o", FUNCTION), ("p", FUNCTION.replace("net", "other"))],
        "p",
    ),
    "a cell that ran before with another text": (
        [("q", PLAIN.replace("exp", "sin")), ("q", PLAIN)],
        "q",
    ),
    "a cell after one that failed": ([("r", "%pwd"), ("r", PLAIN)], "r"),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_the_cell_that_ran_is_rewritten(kernel: Kernel, case: str) -> None:
    cells, cell = WRITTEN[case]
    text = cells[-1][1]
    answer = asked(kernel, cells)
    assert "refused" not in answer, answer
    assert answer["cell"] == cell
    assert answer["before"].rstrip("\n") == text.rstrip("\n")
    assert answer["after"].rstrip("\n") == text.replace(RELU, TANH).rstrip("\n")


LOOSE = PLAIN.replace(
    "    h = ops.relu(g.inputs[0].tensor)  # größe\n", "    x = g.inputs[0].tensor\n"
)
REFUSED: dict[str, tuple[list[tuple[str, str]], str, str, str]] = {
    "two cells with the same text and a function": (
        [("A", FUNCTION), ("B", FUNCTION)],
        "",
        "ML874",
        "the same text",
    ),
    "a function of another cell": (
        [
            ("C", "def part(x):\n    return ops.relu(x)"),
            ("D", "g = Graph('net', lambda x: ops.exp(part(x)), ROW)"),
        ],
        "",
        "ML873",
        "called elsewhere",
    ),
    "two cells that build one graph": (
        [
            ("E", "with Graph('net', input_types=ROW) as g:\n    h = ops.relu(g.inputs[0].tensor)"),
            ("F", "with g:\n    g.output(ops.exp(h))"),
        ],
        "edit(g, 'exp', 'sin')",
        "ML878",
        "the edits of one cell at a time",
    ),
    "exec": (
        [("G", "exec(\"g = Graph('net', lambda x: ops.exp(ops.relu(x)), ROW)\")")],
        "",
        "ML872",
        "not in a cell",
    ),
    "a decorator": (
        [("H", f"def same(f):\n    return f\n@same\n{FUNCTION}")],
        "",
        "ML873",
        "decorator",
    ),
    "a magic on the line": (
        [("I", PLAIN.replace("h = ", "%time h = "))],
        "",
        "ML872",
        "",
    ),
    "a magic of the cell": ([("J", f"%%time\n{PLAIN}")], "", "ML872", ""),
    "a magic that holds the cell": ([("K", f"%%capture out\n{PLAIN}")], "", "ML872", ""),
    "a module": (
        [
            (
                "L",
                """%%writefile own_head.py
from maxlab.graph import ops
def head(x):
    return ops.exp(ops.relu(x))""",
            ),
            ("M", "import own_head\ng = Graph('net', own_head.head, ROW)"),
        ],
        "",
        "ML872",
        "own_head.py",
    ),
    "a graph of a file": (
        [("N", f"{PLAIN}\ng.save('kept.mlgraph')\ng = maxlab.open('kept.mlgraph')")],
        "",
        "ML872",
        "of a file",
    ),
    "code that changed the graph since": (
        [("O", PLAIN)],
        "edit(g, 'exp', 'sin')\nEditor(g).insert('abs', g.function.output, 0)",
        "ML880",
        "code has changed the graph",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_is_written_by_guess(kernel: Kernel, case: str) -> None:
    cells, more, code, words = REFUSED[case]
    answer = asked(kernel, cells, more)
    refused = answer.get("refused")
    assert refused is not None, answer
    assert refused["code"] == code, refused
    assert words in f"{refused['says']}; {refused['fix']}"
    assert refused["fix"]
    assert (answer["cell"], answer["before"], answer["after"]) == ("", "", "")


@pytest.mark.parametrize("magic", ["%%capture out", "%%time"])
def test_a_cell_is_known_whose_text_ran_below_a_magic_before(kernel: Kernel, magic: str) -> None:
    cell = PLAIN.replace("größe", magic)  # a text that no other cell of this kernel has
    answer = asked(kernel, [("T", f"{magic}\n{cell}"), ("T", cell)])
    assert "refused" not in answer, answer
    assert answer["cell"] == "T"
    assert answer["after"] == cell.replace(RELU, TANH)


def test_what_is_taken_back_leaves_nothing_to_write(kernel: Kernel) -> None:
    answer = asked(kernel, [("P", PLAIN)], "edit(g, 'relu', 'silu'); edit(g, 'silu', 'relu')")
    assert answer["after"] == PLAIN.replace(RELU, TANH)
    undo = "editor.undo(); " * 3
    kernel.run(f"with by_hand(g):\n    editor = Editor(g, since=0); {undo}")
    answer = json.loads(kernel.run("", expression=ASK))
    assert "refused" in answer, answer
    assert answer["refused"]["code"] == "ML880"
    assert "nothing to write" in answer["refused"]["says"]


def test_a_graph_keeps_the_text_of_the_run_that_built_it(kernel: Kernel) -> None:
    """The page compares it with what the cell has: this one was edited and run since."""
    other = PLAIN.replace("exp", "sin")
    answer = asked(kernel, [("S", PLAIN), ("S2", "kept = g"), ("S", other)], "g = kept")
    assert (answer["cell"], answer["before"]) == ("S", PLAIN)


def test_lines_of_a_kernel_that_was_restarted_are_not_those_of_this_one(tmp_path: Path) -> None:
    first = Kernel(tmp_path)
    try:
        first.run(BEGIN, "begin")
        first.run(PLAIN, "a")
        first.run("g.save('before.mlgraph')")
    finally:
        first.close()
    again = Kernel(tmp_path)
    try:
        again.run(BEGIN, "begin")
        # The same cell, under the same number, with the same spans, and another text.
        answer = asked(
            again,
            [("a", PLAIN.replace("relu", "silu").replace("exp", "sin"))],
            "g = maxlab.open('before.mlgraph')",
        )
        assert answer["refused"]["code"] == "ML872"
        assert "of a file" in answer["refused"]["says"]
    finally:
        again.close()
