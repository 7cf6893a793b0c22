"""The context menu of a view under a cell: what it says of nodes, modules, edges and the page
between them, by the right button and by the keyboard; nothing of the notebook's own menu is in it.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import maxlab
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.nn import Module

class Block(Module):
    def __call__(self, x):
        y = ops.tanh(x * 2.0)
        return ops.exp(y) + ops.sqrt(y)

x_type = TensorType(DType.float32, ["batch", 16], device=DeviceRef.CPU())
with Graph("menus", input_types=[x_type]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.relu(Block()(x)))
graph
"""


@pytest.fixture(scope="module")
def drawn(shared_page: LabPage, server: LabServer) -> GraphView:
    lab = shared_page
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.open_notebook(write_notebook(server.root, "menus.ipynb", []))
    lab.run_code(BUILD)
    view = lab.view()
    view.execute("unfold-all")
    view.settle()
    return view


def entries(lab: LabPage) -> Locator:
    """The entries of the open menu."""
    return lab.page.locator(".lm-Menu:visible .lm-Menu-itemLabel")


def opened(lab: LabPage) -> list[str]:
    """What the open menu says."""
    entries(lab).first.wait_for()
    return [text for text in entries(lab).all_inner_texts() if text]


def point_at(lab: LabPage, view: GraphView, label: str) -> None:
    """Press the right button on an item."""
    view.read("view.element.scrollIntoView({ block: 'center' })")
    view.execute("fit")
    view.settle()
    rect = next(n["rect"] for n in view.nodes() if n["label"] == label)
    lab.page.mouse.click(rect["x"] + rect["w"] / 2, rect["y"] + 8, button="right")


def node(view: GraphView, label: str) -> str:
    found: str = next(n["id"] for n in view.nodes() if n["label"] == label)
    return found


def copied(lab: LabPage) -> str:
    found: str = lab.page.evaluate("() => navigator.clipboard.readText()")
    return found


def test_on_a_node(shared: LabPage, drawn: GraphView) -> None:
    point_at(shared, drawn, "exp")
    said = opened(shared)
    shared.shot("menu-node")
    assert said[:3] == ["Copy the name", "Copy the path", "Copy file and line"]
    for wanted in ("Show its values", "Show what it reads", "Show it alone", "Hide it", "Export"):
        assert wanted in said
    assert not any("Cell" in entry for entry in said), said
    assert drawn.read("view.selection") == [node(drawn, "exp")]
    entries(shared).filter(has_text="Copy the path").click()
    shared.page.wait_for_function("async () => (await navigator.clipboard.readText()) !== ''")
    assert copied(shared).endswith(".exp")
    point_at(shared, drawn, "exp")
    entries(shared).filter(has_text="Copy file and line").click()
    shared.page.wait_for_function(
        "async () => /:\\\\d+$/.test(await navigator.clipboard.readText())"
    )
    point_at(shared, drawn, "exp")
    entries(shared).filter(has_text="Hide it").click()
    drawn.settle()
    assert "exp" not in {n["label"] for n in drawn.nodes()}
    drawn.execute("show-all")
    drawn.settle()


def test_copy_as_python(shared: LabPage, drawn: GraphView) -> None:
    point_at(shared, drawn, "exp")
    entries(shared).filter(has_text="Export").hover()
    entries(shared).filter(has_text="Copy as Python").wait_for()
    shared.shot("menu-export")
    entries(shared).filter(has_text="Copy as Python").click()
    said = shared.page.locator(".jp-MaxLab-live", has_text="of Python").first
    said.wait_for(state="attached")
    program = copied(shared)
    assert program.startswith("from maxlab.dtype import DType\n")
    assert "\ndef block(x):" in program
    assert "    graph.output(ops.relu(block(x)))\n" in program


def test_by_the_keyboard(shared: LabPage, drawn: GraphView) -> None:
    drawn.execute("fit")
    drawn.click("relu")
    shared.page.keyboard.press("Shift+F10")
    assert "Show what it reads" in opened(shared)
    shared.page.keyboard.press("Escape")
    assert drawn.read("view.selection") == [node(drawn, "relu")]


def test_on_a_module_and_on_the_page(shared: LabPage, drawn: GraphView) -> None:
    drawn.execute("fold-all")
    drawn.settle()
    box = next(n["label"] for n in drawn.nodes() if n["label"].lower().startswith("block"))
    point_at(shared, drawn, box)
    said = opened(shared)
    assert "Fold or unfold" in said
    assert "Copy file and line" not in said
    entries(shared).filter(has_text="Fold or unfold").click()
    drawn.settle()
    assert "exp" in {n["label"] for n in drawn.nodes()}
    room = shared.page.locator(".jp-MaxLab-stage").last.bounding_box()
    assert room is not None
    shared.page.mouse.click(room["x"] + 6, room["y"] + room["height"] / 2, button="right")
    said = opened(shared)
    assert "Fit the graph" in said
    assert "Copy the name" not in said
    shared.page.keyboard.press("Escape")


def test_on_an_edge(shared: LabPage, drawn: GraphView) -> None:
    drawn.execute("unfold-all")
    drawn.execute("fit")
    drawn.settle()
    rects = {n["label"]: n["rect"] for n in drawn.nodes()}
    above, below = rects["mul"], rects["tanh"]
    x = above["x"] + above["w"] / 2
    y = (above["y"] + above["h"] + below["y"]) / 2
    shared.page.mouse.click(x, y + 6, button="right")
    assert opened(shared)[0] == "Copy the type"
    entries(shared).filter(has_text="Go to where it leads").click()
    drawn.settle()
    assert drawn.read("view.selection") == [node(drawn, "tanh")]
