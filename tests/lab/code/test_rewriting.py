"""What is written to a cell for one edit of its graph, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from maxlab.dtype import DType
from maxlab.graph import Editor, TensorType
from maxlab.graph.graph import LIVE
from maxlab.lab.code import CodeError, rewritten
from maxlab.lab.code.cells import RunCell
from maxlab.lab.code.checking import why_not
from maxlab.lab.code.text import Replacement, Source, replaced, smallest, utf16
from tests.lab.code.cells import NAMESPACE, run

F32 = "TensorType(DType.float32, ['n', 8])"
WITH = f"""with Graph("net", input_types=[{F32}]) as graph:
    x = graph.inputs[0].tensor
    h = ops.relu(x * 2)  # größe
    y = ops.softmax(h)
    graph.output(ops.exp(y))
"""
# n0 constant, n1 mul, n2 relu, n3 softmax, n4 exp, n5 output


def difference(text: str, new: str) -> tuple[list[str], list[str]]:
    """The lines that went and came."""
    old, made = text.splitlines(), new.splitlines()
    return [s.strip() for s in old if s not in made], [s.strip() for s in made if s not in old]


Edit = Callable[[Editor], Any]


HEAD, X, H, Y, OUT, _ = (line.strip() for line in f"{WITH}\n".split("\n")[:6])
NEW_X = "mul = x * 2"
TYPED = HEAD.replace("['n', 8]", "[3, 8]")
MORE = HEAD.replace("])]", "]), TensorType(DType.float32, [8])]")
THREE, EIGHT = TensorType(DType.float32, [3, 8]), TensorType(DType.float32, [8])


@pytest.mark.parametrize(
    ("edit", "gone", "came"),
    [
        (lambda e: e.replace("n2", "tanh"), [H], [H.replace("relu", "tanh")]),
        (lambda e: e.set_attribute("n3", "axis", 0), [Y], ["y = ops.softmax(h, axis=0)"]),
        (lambda e: e.remove("n3"), [Y], ["y = h"]),
        (lambda e: e.remove("n2"), [H], ["h = x * 2  # größe"]),
        (
            lambda e: e.insert("sigmoid", "n3", 0),
            [Y],
            ["sigmoid = ops.sigmoid(h)", "y = ops.softmax(sigmoid)"],
        ),
        (
            lambda e: e.insert("sigmoid", "n2", 0),
            [H],
            ["h = ops.relu(ops.sigmoid(x * 2))  # größe"],
        ),
        (
            lambda e: e.insert("mul", "n4", 0, 3.0),
            [OUT],
            ["mul = ops.mul(y, 3.0)", "graph.output(ops.exp(mul))"],
        ),
        (lambda e: e.connect("n4", 0, "v2"), [OUT], ["graph.output(ops.exp(h))"]),
        (
            lambda e: e.connect("n4", 0, "v1"),
            [H, OUT],
            [NEW_X, "h = ops.relu(mul)  # größe", "graph.output(ops.exp(mul))"],
        ),
        (lambda e: e.add("tanh", "v2"), [], ["tanh = ops.tanh(h)"]),
        (lambda e: e.set_outputs("v4", "v2"), [OUT], ["graph.output(ops.exp(y), h)"]),
        (
            lambda e: e.rename("v2", "hidden"),
            [H, Y],
            [H.replace("h =", "hidden ="), "y = ops.softmax(hidden)"],
        ),
        (lambda e: e.set_type("input0", THREE), [HEAD], [TYPED]),
        (lambda e: e.add_input(EIGHT), [HEAD], [MORE]),
    ],
)
def test_one_edit(edit: Edit, gone: list[str], came: list[str]) -> None:
    found = rewritten(WITH, edit, NAMESPACE)
    assert difference(WITH, found.new_text) == (gone, came)
    assert found.is_checked


F8 = "TensorType(DType.float32, [8])"
READS = {
    "x = graph.inputs[0].tensor\n    y = graph.inputs[1].tensor\n    z = graph.inputs[2].tensor": (
        "x = graph.inputs[0].tensor\n    z = graph.inputs[1].tensor"
    ),
    "x, y, z = graph.inputs": "x, z = graph.inputs",
    "x, y, z = (v.tensor for v in graph.inputs)": "x, z = (v.tensor for v in graph.inputs)",
}


def net(reads: str, types: str) -> str:
    return f"""with Graph("net", input_types=[{types}]) as graph:
    {reads}
    h = ops.tanh(x) * y
    graph.output(h + z)
"""


@pytest.mark.parametrize("reads", READS)
def test_an_input_that_is_gone_is_read_nowhere(reads: str) -> None:
    def edit(editor: Editor) -> None:
        editor.remove("n1")
        editor.remove_input("input1")

    text = net(reads, f"{F32},  # rows\n    {F8}, {F8}")
    found = rewritten(text, edit, NAMESPACE)
    wanted = net(READS[reads], f"{F32},  # rows\n    {F8}").replace(
        "ops.tanh(x) * y", "ops.tanh(x)"
    )
    assert found.new_text == wanted
    assert found.is_checked


ONE = "ops.constant(1, DType.int8, DeviceRef.CPU())"


@pytest.mark.parametrize(
    ("head", "new_head"),
    [
        ("lambda x, y: ops.tanh(x)", "lambda x: ops.tanh(x)"),
        ("lambda x, y: ops.tanh(y)", "lambda y: ops.tanh(y)"),
        (
            "lambda x, y: ops.constant(1, DType.int8, DeviceRef.CPU())",
            "lambda: ops.constant(1, DType.int8, DeviceRef.CPU())",
        ),
    ],
)
def test_a_parameter_of_an_input_that_is_gone_is_gone(head: str, new_head: str) -> None:
    text = f'graph = Graph("net", {head}, [{F8}, {F8}])\n'

    def edit(editor: Editor) -> None:
        for value in list(editor.graph.function.inputs):
            if not value.uses:
                editor.remove_input(value.id)

    found = rewritten(text, edit, NAMESPACE)
    types = ", ".join([F8] * (2 if "int8" not in head else 0))[: len(F8)]
    assert found.new_text == f'graph = Graph("net", {new_head}, [{types}])\n'
    assert found.is_checked


def test_all_inputs_of_a_function_but_one() -> None:
    text = f"""def forward(x, y):
    return ops.tanh(y),
with Graph("net", input_types=({F8}, {F8})) as graph:
    graph.output(*forward(*graph.inputs))
"""
    found = rewritten(text, lambda e: e.remove_input("input0"), NAMESPACE)
    assert found.new_text == text.replace("(x, y)", "(y)").replace(f"({F8}, {F8})", f"({F8},)")
    assert found.is_checked


def test_a_new_operation_that_gives_several_values_gets_a_line() -> None:
    def edit(editor: Editor) -> None:
        found = editor.add("top_k", "v3", k=2)
        editor.set_outputs("v4", found[1])

    found = rewritten(WITH, edit, NAMESPACE)
    assert difference(WITH, found.new_text) == (
        [OUT],
        ["_, top_k = ops.top_k(y, k=2)", "graph.output(ops.exp(y), top_k)"],
    )
    assert found.is_checked


CUT = WITH.replace("ops.relu(x * 2)", "x[0:2, ..., 1:5:2]")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("starts", (1, 1), "x[1:3, ..., 1:5:2]"),
        ("steps", (1, 3), "x[0:2, ..., 1:5:3]"),
        ("shape", [1, 2], "x[:1, ..., 1:5:2]"),
    ],
)
def test_bounds_of_a_slice(key: str, value: Any, wanted: str) -> None:
    found = rewritten(CUT, lambda e: e.set_attribute("n0", key, value), NAMESPACE)
    assert wanted in found.new_text, found.new_text
    assert found.says
    assert found.is_checked


REPEATED = """def layer(x):
    return ops.softmax(ops.tanh(x), axis=-1)
graph = Graph("net", lambda x: layer(layer(x)), [TensorType(DType.float32, ["n", 8])])
"""
LOOP = """with Graph("net", input_types=[TensorType(DType.float32, [8])]) as graph:
    x = graph.inputs[0].tensor
    for _ in range(3):
        x = ops.tanh(x)
    graph.output(x)
"""


def test_a_call_of_several_passes_a_parameter() -> None:
    found = rewritten(
        REPEATED, lambda e: e.set_attribute("n3", "axis", 0), NAMESPACE, way="parameter"
    )
    assert "def layer(x, axis=-1):" in found.new_text
    assert "layer(layer(x), axis=0)" in found.new_text
    assert found.is_checked


def test_one_turn_of_a_loop_is_overridden_behind_the_graph() -> None:
    found = rewritten(LOOP, lambda e: e.replace("n1", "exp"), NAMESPACE, way="override")
    assert found.new_text.startswith(LOOP.rstrip("\n"))
    assert "# maxlab: canvas edits\n" in found.new_text
    assert found.is_checked


TURN = "for _ in range(3):\n        x = ops.tanh(x)"
ONE_TURN = LOOP.replace("range(3)", "range(1)")
LISTED = LOOP.replace(TURN, "[x] = [ops.tanh(v) for v in [x]]")
DECORATED = "def same(f):\n    return f\n@same\n" + REPEATED.replace("layer(layer(x))", "layer(x)")
METHOD = "class Net:\n    def run(self, x):\n        return ops.tanh(x)\n" + LOOP.replace(
    TURN, "x = Net().run(x)"
)
NESTED = LOOP.replace(TURN, "def inner(v):\n        return ops.tanh(v)\n    x = inner(x)")
ANY = LOOP.replace(TURN, "exec('x = ops.tanh(x)')")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (REPEATED, "ML873", "called several times"),
        (LOOP, "ML873", "in a loop"),
        (ONE_TURN, "ML873", "in a loop"),
        (LOOP.replace("ops.tanh(x)", "(lambda v: ops.tanh(v))(x)"), "ML873", "in a lambda"),
        (LISTED, "ML873", "in a comprehension"),
        (DECORATED, "ML873", "decorator"),
        (METHOD, "ML873", "a method of a class"),
        (ANY, "ML872", "not in the cell"),
    ],
)
def test_what_is_refused(text: str, code: str, words: str) -> None:
    with pytest.raises(CodeError, match=words) as caught:
        rewritten(text, lambda e: e.replace("n0", "exp"), NAMESPACE)
    assert caught.value.code == code
    assert caught.value.fix


@pytest.mark.parametrize(
    "change",
    [
        ("    ", "\t"),
        ("\n", "\r\n"),
        ("    h =", "    z = x; h ="),
        ("  # größe\n    y", "; y"),
        ("with Graph", "from maxlab.graph.ops import *\nwith Graph"),
        ("h = ops", "größe = 𝛼 = h = ops"),
        ("ops.softmax(h)", "ops.softmax(\n        h,  # here\n    )"),
        ("ops.softmax(h)", "(h\n         ).softmax()"),
        ("y = ops.softmax(h)", "if x:\n        y = ops.softmax(h)\n    else:\n        y = h"),
    ],
)
def test_texts_of_all_kinds(change: tuple[str, str]) -> None:
    text = WITH.replace(*change)
    if "if x" in text:
        text = text.replace("if x", "if True")
    found = rewritten(text, lambda e: e.replace("n3", "tanh"), NAMESPACE)
    assert "tanh(" in found.new_text
    assert "softmax" not in found.new_text
    assert found.text == text
    assert difference(text, found.new_text)[1] != []


def test_a_cell_is_tried_only_where_it_can_do_no_harm() -> None:
    held = {**NAMESPACE, "open_it": open, "sizes": [4, 8], "other": run(WITH).graph, "w": [1.0]}
    assert why_not(WITH, held) == ""
    for line in (
        "open('x', 'w')",
        "open_it('x', 'w')",
        "import os",
        "from os import system",
        "x.y = 1",
        "sizes[0] = 1",
        "sizes.append(1)",
        "sizes += [1]",
        "other.output()",
        "with other:\n    pass",
        "ops.__dict__",
        "().__class__",
        "while True:\n    pass",
        "for _ in range(10 ** 9):\n    pass",
        "exec('1')",
        "getattr(ops, 'relu')",
        "ops.print('x')",
        "Graph.current.output()",
        "global z",
        "[open for _ in ()]",
        "lambda: open('x')",
        "(lambda f: f('x'))(open_it)",
    ):
        assert why_not(f"{line}\n{WITH}", held), line


def test_a_cell_with_weights_is_tried() -> None:
    text = "from maxlab.graph import Weight\n" + WITH.replace(
        "x * 2", 'x @ Weight("w", DType.float32, [8, 8])'
    )
    found = rewritten(text, lambda e: e.replace("n2", "tanh"), NAMESPACE)
    assert found.new_text == text.replace("ops.relu", "ops.tanh")
    assert found.is_checked


def test_graphs_that_were_there_before_are_no_graphs_of_the_cell() -> None:
    found = rewritten(WITH, lambda e: e.replace("n2", "tanh"), {**NAMESPACE, "_": run(WITH).graph})
    assert found.new_text == WITH.replace("relu", "tanh")


def test_what_is_not_run_says_so() -> None:
    text = "import json\n" + WITH
    found = rewritten(text, lambda e: e.replace("n2", "tanh"), NAMESPACE)
    assert not found.is_checked
    assert found.unchecked == "it imports json"
    assert found.new_text == text.replace("ops.relu", "ops.tanh")


def test_magics_stay_as_the_page_has_them() -> None:
    raw = "%matplotlib inline\n!ls\n" + WITH
    text = (
        "get_ipython().run_line_magic('matplotlib', 'inline')\nget_ipython().system('ls')\n" + WITH
    )
    cell = RunCell("a", 3, raw, text)
    start = text.index("ops.relu")
    edit = Replacement(start, start + 8, "ops.tanh")
    assert cell.in_raw(replaced(text, [edit]), (edit,)) == raw.replace("ops.relu", "ops.tanh")
    with pytest.raises(CodeError, match="line 1 is not as Python read it"):
        cell.in_raw("", (Replacement(0, 3, "x"),))
    with pytest.raises(CodeError, match="take lines together"):
        RunCell("a", 3, "x = !ls \\\n  -l\n", "x = get_ipython().getoutput('ls -l')\n").in_raw(
            "", ()
        )


def test_columns_of_bytes_letters_and_units() -> None:
    source = Source("𝛼 = é + 1\r\nx\x0c = 2\n")
    assert source.offset(1, 5) == 2
    assert source.text[source.offset(1, len("𝛼 = é".encode())) :].startswith(" + 1")
    assert [source.line(1), source.line(2)] == ["𝛼 = é + 1", "x\x0c = 2"]
    assert utf16(source.text, 1) == 2
    assert smallest("abcd", [Replacement(0, 4, "abXd")]) == [Replacement(2, 3, "X")]
    with pytest.raises(ValueError, match="overlap"):
        replaced("abcd", [Replacement(0, 2, ""), Replacement(1, 3, "")])


def test_scratch_graphs_are_not_listed() -> None:
    before = len(LIVE)
    found = rewritten(WITH, lambda e: e.replace("n2", "tanh"), NAMESPACE)
    assert found.is_checked
    assert len([g for g in LIVE if g.name == "trial"]) == 0
    assert len(LIVE) <= before + 1
