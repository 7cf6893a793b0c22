"""Nodes that are dragged, pinned and commented in a notebook, saved, and opened again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator

from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer
from tests.browser.test_editor import open_document, wait_until

pytestmark = pytest.mark.browser

START = """
import json
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
with Graph("net", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.softmax(ops.tanh(ops.exp(x)) + ops.relu(x)))
graph
"""

PLACES = """
print(json.dumps([[key, place.x, place.y, place.pinned]
                  for key, place in sorted(graph.document.places.items())]))
"""


class Canvas:
    """What a person does with a view by the mouse: places are found by what they are called."""

    def __init__(self, lab: LabPage) -> None:
        self.lab = lab
        self.root = lab.page.locator(".jp-MaxLab-view:visible").first
        self.said_by = self.root.locator(".jp-MaxLab-stripSaid")

    def said(self, text: str) -> None:
        self.said_by.filter(has_text=text).wait_for()

    def rect(self, label: str) -> dict[str, float]:
        """Where an item is on the page."""
        view = self.lab.visible_view()
        view.settle()
        found: dict[str, float] = next(n["rect"] for n in view.nodes() if n["label"] == label)
        return found

    def middle(self, label: str) -> tuple[float, float]:
        rect = self.rect(label)
        return rect["x"] + rect["w"] / 2, rect["y"] + rect["h"] / 2

    def drag(self, label: str, dx: float, dy: float, *, drop: bool = True) -> None:
        mouse = self.lab.page.mouse
        x, y = self.middle(label)
        mouse.move(x, y)
        mouse.down()
        for part in (0.3, 0.7, 1):
            mouse.move(x + dx * part, y + dy * part)
        if drop:
            mouse.up()

    def note(self, text: str) -> Locator:
        return self.root.get_by_role("note").filter(has_text=text)

    def places(self) -> list[Any]:
        found: list[Any] = json.loads(str(self.lab.run_code(PLACES)[0]["text"]))
        return found

    def shot(self, name: str) -> None:
        self.lab.shot(f"arranging-{name}")


def start(open_lab: OpenLab, server: LabServer, name: str, theme: str) -> Canvas:
    lab = open_lab(theme)
    lab.page.set_viewport_size({"width": 900, "height": 900})
    lab.open_notebook(write_notebook(server.root, f"{name}.ipynb", []))
    lab.run_code(START)
    lab.view()
    lab.show_output_of("graph")
    canvas = Canvas(lab)
    lab.page.evaluate("() => document.activeElement?.blur()")
    canvas.root.get_by_role("treeitem").first.focus()
    lab.page.keyboard.press("e")
    canvas.said("editing")
    return canvas


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_dragged_is_saved_and_opened_where_it_was_put(
    open_lab: OpenLab, server: LabServer, theme: str
) -> None:
    canvas = start(open_lab, server, f"dragged-{theme}", theme)
    lab = canvas.lab
    mouse, keyboard = lab.page.mouse, lab.page.keyboard
    before = canvas.rect("tanh")

    # Escape during a drag puts it back, and the kernel hears nothing.
    canvas.drag("tanh", -80, 20, drop=False)
    canvas.shot(f"drag-{theme}")
    keyboard.press("Escape")
    mouse.up()
    assert canvas.rect("tanh") == before
    assert canvas.places() == []

    lab.show_output_of("graph")
    before = canvas.rect("tanh")
    canvas.drag("tanh", -90, 30)
    canvas.said("moved 1 item")
    moved = canvas.rect("tanh")
    assert abs(moved["x"] - before["x"] + 90) < 2
    assert abs(moved["y"] - before["y"] - 30) < 2
    keyboard.press("Shift+P")
    canvas.said("pinned 1 item")
    keyboard.press("m")
    canvas.root.get_by_role("textbox", name="New comment on tanh").wait_for()
    keyboard.insert_text("try <b>gelu</b> here")
    keyboard.press("Enter")
    canvas.note("try <b>gelu</b> here").wait_for()
    assert canvas.note("try").locator("b").count() == 0
    canvas.shot(f"pinned-{theme}")

    # One step each, taken back and done again.
    for _ in range(3):
        keyboard.press("u")
    canvas.note("try").wait_for(state="detached")
    canvas.root.get_by_role("button", name="Undo the last step").and_(
        canvas.root.locator("[aria-disabled=true]")
    ).wait_for()
    back = canvas.rect("tanh")
    assert abs(back["x"] - before["x"]) < 2
    assert abs(back["y"] - before["y"]) < 2
    for _ in range(3):
        keyboard.press("Shift+U")
    canvas.note("try").wait_for()
    places = canvas.places()
    assert [pinned for *_, pinned in places] == [True]

    # Saved, and opened without a kernel.
    path = Path(server.root) / f"dragged-{theme}.mlgraph"
    lab.run_code(f"graph.save({str(path)!r})")
    saved = json.loads(path.read_text("utf-8"))["layout"]["places"]
    assert [[key, place["x"], place["y"]] for key, place in saved.items()] == [
        [key, x, y] for key, x, y, _ in places
    ]
    lab.show_output_of("graph")
    apart = {name: canvas.rect("tanh")[name] - canvas.rect("exp")[name] for name in ("x", "y")}
    lab.execute("docmanager:open", {"path": path.name})
    canvas.root = lab.page.locator(".jp-MaxLab-view:visible").last
    canvas.note("try").last.wait_for()
    opened = lab.visible_view()
    opened.settle()
    nodes = {node["label"]: node["rect"] for node in opened.nodes()}
    scale = nodes["tanh"]["w"] / moved["w"]
    for name in ("x", "y"):
        now = nodes["tanh"][name] - nodes["exp"][name]
        assert abs(now - apart[name] * scale) < 3 * max(scale, 1), name
    canvas.shot(f"opened-{theme}")


def test_what_is_dragged_in_a_document_is_saved_with_it(
    open_lab: OpenLab, server: LabServer
) -> None:
    """The document has a kernel of its own: its places are those of the graph that it edits."""
    path = Path(server.root) / "placed.mlgraph"
    with Graph("placed", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        graph.output(ops.tanh(ops.exp(graph.inputs[0].tensor)))
    graph.save(path)
    lab = open_lab("light")
    open_document(lab, path.name)
    canvas = Canvas(lab)
    before = canvas.rect("tanh")
    canvas.drag("tanh", 120, 40)
    canvas.said("moved 1 item")
    moved = canvas.rect("tanh")
    assert abs(moved["x"] - before["x"] - 120) < 2
    wait_until(lab, dirty=True)
    lab.execute("docmanager:save")
    wait_until(lab, dirty=False)
    places = json.loads(path.read_text("utf-8"))["layout"]["places"]
    assert [*places] == [op.id for op in graph.function.ops if op.name == "mo.tanh"]
    canvas.shot("document")
