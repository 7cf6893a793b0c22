"""The hints of cells and imported files, read in a real kernel."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from maxlab.lab.hints.table import rows
from maxlab.lab.hints.texts import cell_source, checksum, differs_from_loaded, read_code
from maxlab.lab.protocol import HintsMessage, reader
from tests.lab.kernels import Kernel

ROOT = Path(__file__).resolve().parents[2]

BEGIN = """
import json, os, sys
import numpy as np
import maxlab
from maxlab import engine, ops
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from maxlab.lab.hints import channel
def graph(name="g", shape=("n", 4)):
    return Graph(name, input_types=[TensorType(DType.float32, list(shape))])
ones = np.ones((4, 4), np.float32)
"""
OPENING = {"comm_id": "p0", "target_name": "maxlab.hints", "data": {"protocol": 2}}
TAKE = "json.dumps([s for s in channel._channel.sources.take().values()])"


class Hinted(Kernel):
    """A kernel that is asked for hints."""

    def hints(self, start: str = "") -> list[dict[str, Any]]:
        """The hints of cells whose ids, and of files whose names, begin with ``start``."""
        found: list[dict[str, Any]] = json.loads(self.run("", expression=TAKE))
        for source in found:
            reader.check(
                {"type": "hints", "protocol": 2, "revision": 0, "sources": [source]},
                HintsMessage,
                closed=True,
            )
        return [s for s in found if (s["cell"] or os.path.basename(s["path"])).startswith(start)]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hinted]:
    """A kernel in an empty folder."""
    made = Hinted(tmp_path_factory.mktemp("hints"))
    made.run(BEGIN, "begin")
    made.run("channel.serve()")
    made.send("comm_open", OPENING)
    yield made
    made.close()


def line(call: dict[str, Any]) -> str:
    """What a call says in short: its values, and how often the line was run."""
    values = [f"{v['name'] or '_'}: {' | '.join(v['types'])}" for v in call["values"]]
    turns = f" x{call['turns']}" if call["turns"] > 1 else ""
    return ", ".join(values) + turns


def lines(sources: list[dict[str, Any]]) -> list[str]:
    """``cell:line values`` of every call, with the cell that ran where that is another one."""
    return [
        f"{source['cell'] or os.path.basename(source['path'])}:{found['line']} "
        + (f"<{call['cell']}> " if call["cell"] != source["cell"] else "")
        + line(call)
        for source in sorted(sources, key=lambda s: (s["cell"], s["path"]))
        for found in source["lines"]
        for call in found["calls"]
    ]


F4 = "float32[n, 4]"
CASES: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "names": (
        [
            (
                "a",
                (
                    "with graph() as g:\n"
                    "    x = g.inputs[0].tensor\n"
                    "    y = ops.relu(x @ ones + 1)\n"
                    "    y += 2; z = -y\n"
                    "    a, b = y * 3, ops.sum(y, axis=1)\n"
                    "    y.T\n"
                    "    total = [None]; total[0] = y + a\n"
                    "    top, at = ops.top_k(y, k=2, axis=1)\n"
                    "    g.output((w := a - 1), b)"
                ),
            )
        ],
        [
            f"a:3 y: {F4}",
            f"a:4 y: {F4}, z: {F4}",
            f"a:5 a: {F4}, b: float32[n, 1]",
            "a:6 _: float32[4, n]",
            f"a:7 total[0]: {F4}",
            "a:8 top: float32[n, 2], at: int64[n, 2]",
            f"a:9 w: {F4}",
        ],
    ),
    "loops": (
        [
            (
                "a",
                (
                    "with graph() as g:\n"
                    "    x = g.inputs[0].tensor\n"
                    "    for i in range(12): x = ops.relu(x @ ones + i)\n"
                    "    parts = [x * i for i in range(3)]\n"
                    "    for i in range(2):\n"
                    "        x = ops.concat([x, x], axis=1)\n"
                    "    g.output(x, *parts)"
                ),
            )
        ],
        [
            f"a:3 x: {F4} x12",
            f"a:4 _: {F4} x3",
            "a:6 x: float32[n, 8] | float32[n, 16] x2",
        ],
    ),
    "a function called from two cells": (
        [
            ("a", "def f(x):\n    return x @ ones\ndef unused(x):\n    return x + 1"),
            ("b", "with graph('one') as one:\n    one.output(f(one.inputs[0].tensor) + 1)"),
            ("c", "with graph('two', (2, 4)) as two:\n    two.output(f(two.inputs[0].tensor))"),
        ],
        [
            f"a:2 <b> _: {F4}",
            "a:2 <c> _: float32[2, 4]",
            f"b:2 _: {F4}",
            "c:2 _: float32[2, 4]",
        ],
    ),
    "lines that only call functions": (
        [
            (
                "a",
                (
                    "def inner(x):\n"
                    "    return x @ ones\n"
                    "def outer(x):\n"
                    "    y = inner(x)\n"
                    "    return inner(y)\n"
                    "def two(x):\n"
                    "    return ops.relu(x), ops.sum(x, axis=1)\n"
                    "class Net(maxlab.nn.Module):\n"
                    "    def __call__(self, x):\n"
                    "        return x * 3\n"
                    "with graph() as g:\n"
                    "    x = g.inputs[0].tensor\n"
                    "    for _ in range(3):\n"
                    "        x = outer(x)\n"
                    "    a, b = two(x)\n"
                    "    c = Net()(a)\n"
                    "    d = outer(c) + 1\n"
                    "    unread = outer(d)\n"
                    "    g.output(d, b)"
                ),
            )
        ],
        [
            f"a:2 _: {F4} x10",
            f"a:4 y: {F4} x5",
            f"a:5 _: {F4} x5",
            f"a:7 _: {F4}, _: float32[n, 1]",
            f"a:10 _: {F4}",
            f"a:14 x: {F4} x3",
            f"a:15 _: {F4}, _: float32[n, 1]",
            f"a:16 c: {F4}",
            f"a:17 d: {F4}",
            f"a:18 unread: {F4}",
        ],
    ),
    "a cell that runs again": (
        [
            ("a", "def f(x):\n    return x @ ones"),
            ("b", "with graph() as g:\n    g.output(f(g.inputs[0].tensor) + 1)\nkept = g"),
            ("b", "with graph() as g:\n    g.output(f(g.inputs[0].tensor))"),
            ("a", "def f(x):\n    return x @ ones"),
        ],
        [f"a:2 <b> _: {F4}", f"b:2 _: {F4}"],
    ),
    "a function whose cell has another text": (
        [
            ("a", "def f(x):\n    return x @ ones"),
            ("b", "with graph() as g:\n    y = f(g.inputs[0].tensor) + 1"),
            ("a", "def f(x):\n    # now described\n    return x @ ones"),
        ],
        [f"b:2 y: {F4}"],
    ),
    "a syntax error keeps what was made": (
        [
            ("a", "with graph() as g:\n    y = -g.inputs[0].tensor"),
            ("a", "with graph( as g:\n    y"),
        ],
        [f"a:2 y: {F4}"],
    ),
    "a run that makes nothing": (
        [("a", "with graph() as g:\n    y = -g.inputs[0].tensor"), ("a", "1")],
        [],
    ),
    "two cells with the same text": (
        [
            ("a", "with graph('p') as p:\n    y = -p.inputs[0].tensor"),
            ("b", "with graph('p', [7]) as q:\n    y = -q.inputs[0].tensor"),
            ("c", "with graph('p', [7]) as r:\n    y = -r.inputs[0].tensor"),
        ],
        [f"a:2 y: {F4}", "b:2 y: float32[7]", "c:2 y: float32[7]"],
    ),
    "one graph built in two cells": (
        [
            ("a", "g = graph()\nwith g:\n    y = -g.inputs[0].tensor"),
            ("b", "with g:\n    z = y * y"),
            ("b", "with g:\n    z = y * y * y"),
        ],
        [f"a:3 y: {F4}", f"b:2 z: {F4}"],
    ),
    "a graph that was opened": (
        [
            ("a", "with graph() as g:\n    y = -g.inputs[0].tensor\n    g.output(y)"),
            ("b", "g.save('opened.mlgraph')\nagain = maxlab.open('opened.mlgraph')"),
            ("c", "with again:\n    z = again.inputs[0].tensor * 3"),
        ],
        [f"a:2 y: {F4}", f"c:2 z: {F4}"],
    ),
    "two graphs of one cell": (
        [
            (
                "a",
                (
                    "def build(n):\n"
                    "    with graph(f'g{n}', [n]) as g:\n"
                    "        y = -g.inputs[0].tensor\n"
                    "    return g\n"
                    "both = [build(2), build(3)]"
                ),
            )
        ],
        ["a:3 y: float32[2]", "a:3 y: float32[3]"],
    ),
    "subgraphs, branches and loops": (
        [
            (
                "a",
                (
                    "with graph() as g:\n"
                    "    x = g.inputs[0].tensor\n"
                    "    sub = g.add_subgraph('sub', input_types=[x.type])\n"
                    "    with sub:\n"
                    "        sub.output(sub.inputs[0].tensor * 2)\n"
                    "    (y,) = ops.call(sub, x)\n"
                    "    def body(i, v):\n"
                    "        return i + 1, v * 3\n"
                    "    i, z = ops.while_loop([ops.constant(0, DType.int64, x.device), x],\n"
                    "                          lambda i, v: i < 3, body)\n"
                    "    g.output(y, z)"
                ),
            )
        ],
        [
            f"a:5 _: {F4}",
            f"a:8 _: int64[], _: {F4}",
            f"a:9 i: int64[], z: {F4}",
            "a:10 _: bool[]",
        ],
    ),
    "magics": (
        [
            ("a", "\n\n%%time\n\nwith graph() as g:\n    y = -g.inputs[0].tensor"),
            ("b", "%%capture out\n\nwith graph() as h:\n    y = -h.inputs[0].tensor"),
            (
                "c",
                "\n%pwd\nwith graph() as i:\n    !true\n    y = -i.inputs[0].tensor",
            ),
            ("d", "k = graph()\nwith k:\n    %time y = -k.inputs[0].tensor"),
            ("e", "%%timeit -n1 -r1\nwith graph() as m:\n    y = -m.inputs[0].tensor"),
        ],
        [f"a:6 y: {F4}", f"b:4 y: {F4}", f"c:5 y: {F4}", f"d:3 y: {F4}"],
    ),
    "line ends, tabs and other letters": (
        [
            (
                "a",
                (
                    "with graph() as g:\r\n"
                    "\tgröße = g.inputs[0].tensor; 名 = größe + größe\r\n"
                    "\tΩ = 名 @ ones  # größer 🎉\r\n"
                    "\tg.output(Ω)"
                ),
            )
        ],
        [f"a:2 名: {F4}", f"a:3 Ω: {F4}"],
    ),
    "statements of several lines": (
        [
            (
                "a",
                (
                    "with graph() as g:\n"
                    "    y = ops.relu(\n"
                    "        g.inputs[0].tensor\n"
                    "        * 2\n"
                    "    )\n"
                    "    g.output(y)"
                ),
            )
        ],
        [f"a:2 y: {F4}", f"a:3 _: {F4}"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_line_says_what_it_made(kernel: Hinted, case: str) -> None:
    cells, wanted = CASES[case]
    start = f"{list(CASES).index(case)}-"
    for cell, text in cells:
        kernel.run(text, start + cell)
    found = [told.replace(start, "") for told in lines(kernel.hints(start))]
    assert found == wanted


def test_a_line_has_the_text_of_its_statement(kernel: Hinted) -> None:
    text = "with graph() as g:\r\n    y = ops.exp(\n        g.inputs[0].tensor\n    )"
    kernel.run(text, "statement")
    (source,) = kernel.hints("statement")
    (found,) = source["lines"]
    assert (found["line"], found["first"], found["last"]) == (2, 2, 4)
    assert found["text"] == "    y = ops.exp(\n        g.inputs[0].tensor\n    )"
    assert (source["length"], source["crc"]) == checksum(text.replace("\r\n", "\n"))


TIMED = """
with graph("timed") as g:
    x = g.inputs[0].tensor
    for _ in range(3):
        x = ops.softmax(x @ ones)
    y = ops.sum(x)
    g.output(y)
model = engine.InferenceSession().load(g)
profile = model.profile(np.ones((5, 4), np.float32), runs=3)
"""


def test_times_are_those_of_the_view(kernel: Hinted) -> None:
    kernel.run(TIMED, "timed")
    (source,) = kernel.hints("timed")
    calls = [found["calls"][0] for found in source["lines"]]
    share = "[sum(r.share or 0 for i in ids for r in profile.find(f'id={i}')) for ids in %s]"
    ids = [[op["id"] for op in call["ops"]] for call in calls]
    wanted = json.loads(kernel.run("", expression=f"str({share % ids})"))
    assert [call["turns"] for call in calls] == [3, 1]
    assert [call["time"]["share"] for call in calls] == pytest.approx(wanted, rel=1e-4)
    assert calls[0]["time"]["least_ns"] <= calls[0]["time"]["most_ns"]
    kinds = kernel.run("", expression=f"maxlab.lab.live.find({calls[0]['graph']!r}).name")
    assert kinds == "timed"
    assert all(op["kernel"] and op["kernel_name"] for op in calls[0]["ops"])
    # Of a graph that was changed since, they would be those of another one.
    kernel.run("with g: more = y + 1", "more")
    (source,) = kernel.hints("timed")
    assert [found["calls"][0]["time"] for found in source["lines"]] == [None, None]


def test_nan_and_failures_are_marked_until_their_cell_runs_again(kernel: Hinted) -> None:
    build = (
        "with graph('roots') as g:\n"
        "    root = ops.sqrt(g.inputs[0].tensor - 1)\n"
        "    g.output(root @ ones)\n"
        "model = engine.InferenceSession().load(g)\n"
    )

    def marks() -> list[tuple[int, str, str]]:
        return [
            (found["line"], mark["kind"], mark["code"])
            for source in kernel.hints("bad")
            for found in source["lines"]
            for mark in found["marks"]
        ]

    kernel.run(build, "bad")
    assert marks() == []
    kernel.run("maxlab.first_nonfinite(model, np.zeros((2, 4), np.float32))", "look")
    assert marks() == [(2, "nan", "")]
    kernel.run("maxlab.first_nonfinite(model, np.full((2, 4), 3, np.float32))", "look")
    assert marks() == []
    tripwire = "with maxlab.tripwire(model): model(np.zeros((2, 4), np.float32))"
    kernel.run(tripwire, "look")
    assert sorted(marks()) == [(2, "nan", ""), (2, "nan", "ML663")]
    kernel.run("1", "look")
    kernel.run(build, "bad")
    assert marks() == []
    kernel.run(build.replace("root @ ones", "root @ ones @ np.ones(7)"), "bad")
    assert [(at, kind) for at, kind, _ in marks()] == [(3, "failed")]
    assert kernel.errors[-1] == "ShapeError"
    kernel.run(build, "bad")
    assert marks() == []


def test_what_a_cell_raises_is_told_while_hints_are_read(kernel: Hinted) -> None:
    """Python parses the cell for the report, and hints are read of it; some versions can parse on
    one thread alone, and would say nothing of the error."""
    kernel.run(
        "import gc, threading, time\n"
        "from maxlab.lab import following\n"
        "following.PERIOD = 0\n"
        "def slow(*_):\n"  # in the middle of a parse other threads go on, and read all anew
        "    if threading.current_thread() is not threading.main_thread(): return\n"
        "    channel._channel.sources.texts._cells.clear()\n"
        "    channel._channel.wake()\n"
        "    time.sleep(1e-4)\n"
        "def begin():\n"
        "    gc.callbacks.append(slow)\n"
        "    gc.set_threshold(100)\n"
    )
    rest = "\n".join(f"    x{n} = f(y[{n}], z={n}) + 1" for n in range(100))
    told = len(kernel.errors)
    try:
        for turn in range(5):
            kernel.run(f"begin()\n1 / 0\nif {turn}:\n{rest}", f"told-{turn}")
    finally:
        kernel.run("gc.callbacks.clear(); gc.set_threshold(700); following.PERIOD = 0.1")
    assert kernel.errors[told:] == ["ZeroDivisionError"] * 5


def test_a_failure_in_a_function_is_marked_at_its_line(kernel: Hinted) -> None:
    kernel.run("def f(x):\n    return x @ np.ones((7, 7), np.float32)", "fail-a")
    kernel.run("with graph() as g: f(g.inputs[0].tensor)", "fail-b")
    (source,) = kernel.hints("fail")
    (found,) = source["lines"]
    assert (source["cell"], found["line"], found["calls"]) == ("fail-a", 2, [])
    assert "fix" in found["marks"][0]
    kernel.run("1", "fail-b")
    assert kernel.hints("fail") == []


LAYER = """import numpy as np

def layer(x):
    y = x + x
    return y @ np.ones((4, 4), np.float32)
"""


def test_files_that_were_imported_have_hints(kernel: Hinted) -> None:
    file = Path(kernel.run("", expression="os.getcwd()")) / "imported_layer.py"
    file.write_bytes(LAYER.replace("\n", "\r\n").encode())
    use = "with graph() as g: imported_layer.layer(g.inputs[0].tensor)"

    def found() -> list[str]:
        return lines(kernel.hints("imported_layer"))

    kernel.run(f"import imported_layer\n{use}", "use")
    wanted = [f"imported_layer.py:{{}} <use> y: {F4}", f"imported_layer.py:{{}} <use> _: {F4}"]
    assert found() == [wanted[0].format(4), wanted[1].format(5)]
    (before,) = kernel.hints("imported_layer")
    assert (before["path"], before["crc"]) == (str(file), checksum(LAYER)[1])
    # What is in the file by now was not imported.
    file.write_text(f"# moved\n{LAYER}", "utf-8")
    kernel.run(use, "use")
    (after,) = kernel.hints("imported_layer")
    assert (after["crc"], lines([after])) == (before["crc"], lines([before]))
    kernel.run(f"import importlib; importlib.reload(imported_layer)\n{use}", "use")
    assert found() == [wanted[0].format(5), wanted[1].format(6)]


@pytest.mark.parametrize("has_bytecode", [True, False])
def test_files_that_changed_before_they_were_seen_have_none(
    kernel: Hinted, has_bytecode: bool
) -> None:
    name = f"changed_layer_{has_bytecode}".lower()
    file = Path(kernel.run("", expression="os.getcwd()")) / f"{name}.py"
    file.write_text(LAYER, "utf-8")
    kernel.run(f"sys.dont_write_bytecode = {not has_bytecode}; import {name}", "use")
    assert Path(cache_from_source(str(file))).exists() == has_bytecode
    file.write_text(f"# moved\n{LAYER}", "utf-8")
    kernel.run(f"with graph() as g: {name}.layer(g.inputs[0].tensor)", "use")
    assert kernel.hints(name) == []


def test_functions_of_a_file_are_compared_with_its_text(tmp_path: Path) -> None:
    text = """
import functools
class Layer:
    size = 3
    @staticmethod
    def build(x): return [y + 1 for y in x]
    class Inner:
        @classmethod
        def make(cls): return 1
@functools.wraps(print)
def twice(x):
    def inner(): return x
    return inner
@functools.lru_cache
def cached(x):
    return x
"""
    file = tmp_path / "compared_layer.py"
    file.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("compared_layer", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = str(file)
    assert not differs_from_loaded(path, text + "\n# of no module that is loaded")
    sys.modules["compared_layer"] = module
    try:
        assert not differs_from_loaded(path, text)
        assert not differs_from_loaded(path, text + "\ndef another(): pass")
        for before, after in (
            ("import functools", "\nimport functools"),
            ("return 1", "return 2"),
            ("[y + 1", "[y + 2"),
            ("def cached", "def renamed"),
            ("return x\n    return inner", "\n    return inner"),
            ("class Layer:", "class Layer"),
        ):
            assert differs_from_loaded(path, text.replace(before, after)), before
    finally:
        del sys.modules["compared_layer"]


def test_a_page_is_told_what_changes_and_nothing_else(kernel: Hinted) -> None:
    kernel.send("comm_close", {"comm_id": "p0", "data": {}})
    kernel.run("with graph() as g1: y = -g1.inputs[0].tensor", "page-a")
    kernel.send("comm_open", {**OPENING, "comm_id": "p1"})
    (first,) = kernel.wait("p1", 1)
    reader.check(first, HintsMessage, closed=True)
    assert first["revision"] == 0
    assert f"page-a:1 y: {F4}" in lines(first["sources"])
    kernel.run("with graph() as g2: z = -g2.inputs[0].tensor", "page-b")
    second = kernel.wait("p1", 2)[1]
    assert (second["revision"], lines(second["sources"])) == (1, [f"page-b:1 z: {F4}"])
    kernel.run("1", "page-c")  # changes nothing
    kernel.run("g2 = None", "page-b")
    third = kernel.wait("p1", 3)[2]
    assert [(s["cell"], s["lines"]) for s in third["sources"]] == [("page-b", [])]
    # A page that closes is told no more, and no event of the kernel is listened to.
    kernel.send("comm_close", {"comm_id": "p1", "data": {}})
    count = "str(len(get_ipython().events.callbacks['post_run_cell']))"
    before = kernel.run("", expression=count)
    kernel.run("with graph() as g3: z = -g3.inputs[0].tensor", "page-d")
    assert len(kernel.comms["p1"]) == 3
    kernel.send("comm_open", {**OPENING, "comm_id": "p2"})
    kernel.wait("p2", 1)
    assert int(kernel.run("", expression=count)) == int(before) + 1
    kernel.send("comm_open", {**OPENING, "comm_id": "p3", "data": {"protocol": 1}})
    (refusal,) = kernel.wait("p3", 1)
    assert "ML863" in refusal["error"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x = a @ b", {(1, 4, 9): ["x"]}),
        ("x = y = a @ b", {(1, 8, 13): ["x"]}),
        ("x: T = f(a)", {(1, 7, 11): ["x"]}),
        ("self.h, q[0] = f(a)", {(1, 15, 19): ["self.h", "q[0]"]}),
        ("é = (f(a))", {(1, 6, 10): ["é"]}),
        ("x = f(\n a)", {(1, 4, 0): ["x"]}),
        ("x +=", {}),
        ("\0", {}),
        ("x = " + "(" * 500, {}),
    ],
)
def test_names_are_those_of_whole_expressions(text: str, wanted: dict[Any, Any]) -> None:
    assert read_code(text).names == wanted


def test_a_body_is_no_part_of_the_statement_that_has_it() -> None:
    code = read_code("with a as \\\n  b:\n    c\n    d(\n  )")
    spans = {n: (s.first, s.last) for n, s in code.statements.items()}
    assert spans == {1: (1, 2), 2: (1, 2), 3: (3, 3), 4: (4, 5), 5: (4, 5)}


def test_empty_cells_have_no_code() -> None:
    for text in ("", "\n\n", "%%time", "%%bash\nls | wc"):
        assert cell_source("c", 1, text, "").code.names == {}


def test_the_table_of_the_extension_is_that_of_ops() -> None:
    spec = importlib.util.spec_from_file_location("table", ROOT / "scripts/gen_ops_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.TARGET.read_text("utf-8") == module.text(), "run scripts/gen_ops_table.py"


def test_the_table_says_what_arguments_may_be() -> None:
    found = {row["name"]: row for row in rows()}
    assert len(found) == len(rows())
    assert found["Linear"]["module"] == "nn"
    assert found["MLP"]["parameters"][5]["default"] == "Linear"
    assert found["sort"]["parameters"][-1]["values"] == ["True", "False"]
    assert "DType.bfloat16" in found["cast"]["parameters"][1]["values"]
    assert all(row["says"].strip() for row in found.values())
    for row in found.values():
        for parameter in row["parameters"]:
            assert parameter["default"] in ("", *(parameter["values"] or [parameter["default"]])), (
                row["name"],
                parameter,
            )
