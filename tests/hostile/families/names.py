"""Names of graphs, dims, weights, constants and subgraphs, in everything that prints them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET

import numpy as np

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.ir.printer import generic
from maxlab.lab.documents import document_of
from maxlab.lab.svg import draw
from tests.hostile.harness import WEIRD, Case, Family, WrongResultError

PIECES = (
    "..", ".", "/", "\\", "a", "Z", " ", "\n", "\r", "\t", "\0", "\x01", "\x1b[2J", "\x7f", "\x85",
    "\u2028", "\ufeff", "\ufffe", "\ud800", "\U0001f600", "é", "<b>", "&amp;", "&", "]]>", "'", '"',
    "`", "$(x)", "%s", "{0}", "%%", "*/", "//", "#include", "-->", "__", "0", "-", "+", "n", "None",
    "C:", "con", "~", "x" * 300, "名", "\u202e", ";", "@", "!", "?x",
)  # fmt: skip
USES = ("graph", "dim", "weight", "subgraph", "constant", "pages", "compiled")


def _case(use: str, name: object) -> Case:
    def run(folder: Path) -> None:
        _use(use, name, folder)

    return Case(f"{use} named {name!r:.80}", run)


def _use(use: str, name: object, folder: Path) -> None:
    """Build a graph with ``name`` in one place, and print, save and read it."""
    given: str = name  # type: ignore[assignment]
    title = given if use in ("graph", "pages", "compiled") else "named"
    dim = given if use == "dim" else "n"
    kind = TensorType(DType.float32, [dim, 4], DeviceRef.CPU())
    with Graph(title, input_types=[kind]) as graph:
        x = graph.inputs[0].tensor
        if use == "weight":
            x = x @ Weight(given, DType.float32, [4, 4], DeviceRef.CPU())
        if use == "subgraph":
            inner = graph.add_subgraph(given, lambda y: y * 2, [kind])
            x = ops.call(inner, x)[0].tensor
        if use == "constant":
            x = x + ops.constant_external(given, TensorType(DType.float32, [4], DeviceRef.CPU()))
        graph.output(x + 1)
    str(graph), repr(graph)
    if use == "compiled":
        model = engine.InferenceSession(num_threads=1).load(graph)
        (y,) = model(np.ones((2, 4), np.float32))
        if not np.array_equal(y.to_numpy(), np.full((2, 4), 2.0)):
            raise WrongResultError(f"1 + 1 is {y.to_numpy()}")
        return
    if use == "pages":
        ET.fromstring(draw(document_of(graph)))
        graph.to_html(folder / "page.html")
    for file in (folder / "graph.mlir", folder / "graph.mlgraph"):
        graph.save(file)
        again = Graph(graph.name, path=file)
        if generic(again.function) != generic(graph.function):
            raise WrongResultError(f"{file.name} reads back as another graph")
    if sorted(p.name for p in folder.parent.iterdir() if p != folder and p.name.startswith(".m")):
        raise WrongResultError("a file was written outside of the folder")


def _draw(random: Random) -> Case:
    name = "".join(random.choices(PIECES, k=random.randrange(1, 4)))
    return _case(random.choice(USES), name)


SEEDS = [
    *(_case(use, name) for use in USES for name in ("..", "", "a\0b", "\ud800", "a\nb", "/etc/x")),
    *(_case("graph", name) for name in WEIRD if not isinstance(name, str)),
]

FAMILIES = (Family("names", SEEDS, _draw, 2000),)
