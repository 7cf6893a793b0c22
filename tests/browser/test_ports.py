"""A graph is connected by hand: ports are dragged with the mouse, and listed for the keyboard."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand, graph_text

pytestmark = pytest.mark.browser

START = """
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
types = [TensorType(DType.float32, dims) for dims in (["n", 8], [8, 4], ["n", 8])]
with Graph("net", input_types=types) as graph:
    x, w, y = (value.tensor for value in graph.inputs)
    graph.output(ops.tanh(ops.relu(x) @ w), ops.exp(y))
graph
"""


class Wires:
    """What a person does with ports: where they are follows from where their items are drawn."""

    def __init__(self, lab: LabPage) -> None:
        self.lab = lab
        self.hand = Hand(lab)
        self.mouse = lab.page.mouse
        self.label = self.hand.root.locator(".jp-MaxLab-portLabel")

    def rect(self, label: str) -> dict[str, float]:
        view = self.lab.view()
        view.settle()
        rect: dict[str, float] = next(n["rect"] for n in view.nodes() if n["label"] == label)
        return rect

    def result(self, label: str) -> tuple[float, float]:
        """The middle of the result port of an item."""
        r = self.rect(label)
        return r["x"] + r["w"] / 2, r["y"] + r["h"]

    def operand(self, label: str, number: int = 0, count: int = 1) -> tuple[float, float]:
        """The middle of an operand's port of an item."""
        r = self.rect(label)
        step = max(16, min(28, r["w"] / (count + 1)))
        return r["x"] + r["w"] / 2 + (number - (count - 1) / 2) * step, r["y"]

    def take(self, at: tuple[float, float], inside: float) -> None:
        """Point at an item, then press its port; ``inside`` leads from the port into the item."""
        x, y = at
        self.mouse.move(x, y + inside)
        self.mouse.move(x, y)
        self.label.wait_for()
        self.mouse.down()

    def drag(self, at: tuple[float, float], inside: float, to: tuple[float, float]) -> None:
        self.take(at, inside)
        self.mouse.move(*to, steps=6)


def start(open_lab: OpenLab, server: LabServer, name: str, theme: str = "light") -> Wires:
    lab = open_lab(theme)
    # Too narrow for the side panel, which would open over what is dragged to.
    lab.page.set_viewport_size({"width": 900, "height": 900})
    lab.open_notebook(write_notebook(server.root, f"{name}.ipynb", []))
    lab.run_code(START)
    lab.view()
    lab.show_output_of("graph")
    wires = Wires(lab)
    wires.hand.root.get_by_role("button", name="Edit (E)").click()
    wires.hand.said("editing")
    return wires


def test_ports_are_connected_by_the_mouse(open_lab: OpenLab, server: LabServer) -> None:
    wires = start(open_lab, server, "ports")
    lab, hand = wires.lab, wires.hand
    before = graph_text(lab)
    lab.show_output_of("graph")

    # A port says its name and what it has.
    x, y = wires.operand("matmul", 1, 2)
    wires.mouse.move(x, y + 12)
    wires.mouse.move(x, y)
    wires.label.get_by_text("rhs").wait_for()
    assert "f32[8, 4]" in wires.label.inner_text()
    lab.shot("ports-hover")

    # From a result to an operand that takes it; what fits is marked on the way.
    wires.drag(wires.result("exp"), -8, wires.operand("matmul", 0, 2))
    wires.label.get_by_text("gives float32[n, 4]").wait_for()
    lab.shot("ports-drag")
    wires.mouse.up()
    hand.said("reads exp")
    assert re.search(r"mo.matmul\(%v\d+, %a1\)", graph_text(lab))
    lab.show_output_of("graph")
    hand.strip.get_by_role("button", name="Undo the last step").click()
    hand.said("undone")
    assert graph_text(lab) == before

    # What does not fit says why at the port, before and after the drop; nothing changes.
    lab.show_output_of("graph")
    wires.drag(wires.result("exp"), -8, wires.operand("matmul", 1, 2))
    wires.label.get_by_text("the inner dims differ").wait_for()
    wires.mouse.up()
    wires.mouse.move(5, 5)
    wires.label.get_by_text("the inner dims differ").wait_for()
    lab.shot("ports-refused")
    assert graph_text(lab) == before

    # Escape lets go.
    lab.show_output_of("graph")
    wires.drag(wires.result("exp"), -8, wires.operand("matmul", 0, 2))
    hand.press("Escape")
    wires.mouse.up()
    assert graph_text(lab) == before

    # The end of an edge is taken to another value.
    lab.show_output_of("graph")
    r = wires.rect("relu")
    wires.take((r["x"] + r["w"] / 2, r["y"]), 8)
    wires.mouse.move(*wires.result("input2"), steps=6)
    wires.mouse.up()
    hand.said("reads input2")
    assert "mo.relu(%a2)" in graph_text(lab)
    lab.show_output_of("graph")
    hand.strip.get_by_role("button", name="Undo the last step").click()
    hand.said("undone")

    # An empty place offers what fits on the value.
    view = lab.view()
    hand.press("f")
    view.settle()
    stage = hand.root.locator(".jp-MaxLab-stage").bounding_box()
    assert stage is not None
    wires.drag(wires.result("exp"), -8, (stage["x"] + 30, stage["y"] + 30))
    wires.mouse.up()
    hand.root.get_by_text("It reads exp").wait_for()
    hand.option("softmax").wait_for()
    lab.shot("ports-offer")
    hand.type("softmax")
    hand.press("Enter")
    hand.said("added softmax")
    assert "mo.softmax" in graph_text(lab)


def test_a_result_is_put_on_an_edge_in_the_dark(open_lab: OpenLab, server: LabServer) -> None:
    wires = start(open_lab, server, "ports-dark", "dark")
    lab, hand = wires.lab, wires.hand
    x, y = wires.result("relu")
    wires.drag(wires.result("exp"), -8, (x, y + 6))
    wires.label.get_by_text("put on this edge").wait_for()
    lab.shot("ports-drag-dark")
    wires.mouse.up()
    hand.said("put exp")
    assert re.search(r"mo.exp\(%v\d+\)", graph_text(lab))


def test_ports_are_connected_by_the_keyboard(open_lab: OpenLab, server: LabServer) -> None:
    wires = start(open_lab, server, "ports-keys")
    lab, hand = wires.lab, wires.hand
    lab.show_output_of("graph")
    hand.item("matmul").focus()
    hand.press("Enter", "Shift+C")
    picker = hand.root.locator(".jp-MaxLab-picker")
    picker.get_by_role("option", name="lhs: reads relu").wait_for()
    assert lab.barriers(".jp-MaxLab-picker") == []
    lab.shot("ports-picker")
    hand.press("Enter")
    picker.get_by_role("option", name=re.compile("^exp ")).wait_for()
    hand.type("exp")
    lab.shot("ports-picker-values")
    hand.press("Enter")
    hand.said("reads exp")
    assert re.search(r"mo.matmul\(%v\d+, %a1\)", graph_text(lab))
    assert hand.root.get_by_role("treeitem").first.is_visible()


def test_a_draft_is_made_and_mended(open_lab: OpenLab, server: LabServer) -> None:
    wires = start(open_lab, server, "drafts")
    lab, hand, view = wires.lab, wires.hand, wires.lab.view()
    before = graph_text(lab)

    # An operation that lacks an operand is put down unfinished; the graph runs.
    lab.show_output_of("graph")
    view.click("exp")
    hand.strip.get_by_role("combobox").click()
    hand.type("matmul")
    hand.option("matmul").click()
    hand.form.get_by_role("button", name="Put it down unfinished").click()
    hand.said("down unfinished")
    hand.root.get_by_role("treeitem").filter(has_text="draft: rhs is missing").wait_for()
    lab.shot("drafts")
    assert graph_text(lab) == before
    lab.show_output_of("graph")
    hand.strip.get_by_role("button", name="Compile what changed").click()
    hand.form.wait_for()
    hand.press("Enter")
    hand.said("ran; it gives")
    hand.press("Escape")

    # What reads an input that goes is kept as drafts, when the person says so.
    hand.item("input input1").focus()
    hand.press("Enter", "Delete")
    hand.said("matmul n1 reads input1")
    keep = hand.strip.get_by_role("button", name="Keep what reads it as 2 drafts")
    assert lab.barriers(".jp-MaxLab-editing") == []
    lab.shot("drafts-offered")
    keep.click()
    hand.said("removed 1 item")
    view.settle()
    hand.press("f")
    view.settle()
    lab.shot("drafts-kept")
    assert "mo.matmul" not in graph_text(lab)

    # An input that fits makes it whole.
    lab.show_output_of("graph")
    hand.strip.get_by_role("button", name="Add an input").click()
    hand.form.wait_for()
    hand.form.get_by_label("name").fill("fitting")
    hand.form.get_by_label("type").fill("float32[8, 4]")
    hand.press("Enter")
    hand.said("added the input")
    hand.press("f")
    view.settle()
    # Of the two, the one that was an operation of the graph became a draft last.
    kept = [n for n in view.nodes() if n["label"] == "matmul"]
    rect = max(kept, key=lambda node: int(node["id"][1:]))["rect"]
    step = max(16, min(28, rect["w"] / 3))
    x, y = rect["x"] + rect["w"] / 2 + step / 2, rect["y"]
    wires.drag(wires.result("fitting"), -8, (x, y))
    wires.mouse.up()
    hand.said("whole")
    assert "mo.matmul" in graph_text(lab)
    lab.show_output_of("graph")
    view.settle()
    lab.shot("drafts-mended")
