"""The palette: what it tells of its entries, layers and their weights, kernels of cells, and
entries that are dragged out of it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand, graph_text
from tests.browser.test_ports import START, Wires

pytestmark = pytest.mark.browser

KERNEL = """%%kernel mine
// @op scaled(x: float32[n, m]) -> (y: float32[n, m])
// @both
store(y, i, 3 * load(x, i));"""


def start(open_lab: OpenLab, server: LabServer, name: str, theme: str) -> Wires:
    lab = open_lab(theme)
    lab.open_notebook(write_notebook(server.root, f"{name}.ipynb", []))
    lab.run_code(START)
    lab.view()
    lab.show_output_of("graph")
    wires = Wires(lab)
    wires.hand.root.get_by_role("button", name="Edit (E)").click()
    wires.hand.said("editing")
    return wires


def palette(hand: Hand, query: str, name: str) -> Locator:
    """The entry ``name`` of the palette, opened and narrowed by ``query``."""
    hand.strip.get_by_role("combobox").focus()
    hand.root.get_by_role("option").first.wait_for()
    hand.press("Control+a")
    hand.type(query)
    option = hand.root.get_by_role("option", name=re.compile(f"^{re.escape(name)}:"))
    option.wait_for()
    return option


def to_option(hand: Hand, option: Locator) -> None:
    """Go down the list to an entry by keys."""
    for _ in range(40):
        if option.get_attribute("aria-selected") == "true":
            return
        hand.press("ArrowDown")
    raise AssertionError("the entry is not reached")


def test_entries_by_the_keyboard(open_lab: OpenLab, server: LabServer) -> None:
    wires = start(open_lab, server, "palette-keys", "light")
    lab, hand, view = wires.lab, wires.hand, wires.lab.view()
    lab.run_code("%load_ext maxlab\nnet = graph")
    lab.run_code(KERNEL)
    lab.show_output_of("graph")

    # What is known of an entry stands beside the list, its example becomes a cell.
    view.click("exp")
    palette(hand, "softmax", "softmax")
    about = hand.root.get_by_role("group", name="About softmax")
    about.get_by_text("ops.softmax(").wait_for()
    assert "axis = -1" in about.inner_text()
    assert lab.barriers(".jp-MaxLab-editing") == []
    lab.shot("palette-light")
    hand.press("Tab", "Tab")
    assert "Copy the example" in hand.focused()
    hand.press("Tab")
    assert "Insert the example" in hand.focused()
    hand.press("Escape")
    hand.press("Alt+Enter")
    hand.said("inserted the example")
    lab.page.wait_for_function(
        """() => window.jupyterapp.shell.currentWidget.content.activeCell
            .model.sharedModel.getSource().includes('ops.softmax(')"""
    )
    lab.execute("notebook:run-cell")
    assert [output["output_type"] for output in lab.outputs()].count("error") == 0
    lab.run_code("graph = net")  # the example has called its own so

    # A layer with its weights as inputs, chosen by keys alone.
    lab.show_output_of("graph")
    hand.item("exp").focus()
    hand.press("Enter")
    option = palette(hand, "nn.Linear", "nn.Linear")
    to_option(hand, option)
    hand.press("Enter")
    hand.form.wait_for()
    hand.type("5")
    lab.shot("palette-layer-form")
    weights = hand.form.get_by_label("weights")
    for _ in range(12):
        hand.press("Tab")
        if weights.evaluate("e => e === document.activeElement"):
            break
    hand.press("i")
    assert weights.input_value() == "inputs of the graph"
    hand.press("Enter")
    hand.said("added nn.Linear")
    text = graph_text(lab)
    assert "linear_weight" in text
    assert "tensor<5x8xf32>" in text or "[5, 8]" in text

    # A kernel that a cell declares is there, in a graph that was built before.
    lab.show_output_of("graph")
    hand.item("exp").focus()
    hand.press("Enter")
    to_option(hand, palette(hand, "kernel", "kernel scaled"))
    hand.root.get_by_role("group", name="About kernel scaled").get_by_text("mine").wait_for()
    lab.shot("palette-kernel")
    hand.press("Enter")
    hand.form.wait_for()
    hand.press("Enter")
    hand.said("added kernel scaled")
    assert "scaled" in graph_text(lab)

    # What was chosen last stands first, in a page that was loaded again too.
    kept = lab.page.evaluate("() => JSON.parse(localStorage.getItem('maxlab:recent'))")
    assert kept[:2] == ["kernel scaled", "nn.Linear"]
    lab.page.reload()
    lab.page.wait_for_function("() => window.jupyterapp")
    lab.page.evaluate("async () => { await window.jupyterapp.restored; }")
    assert lab.page.evaluate("() => JSON.parse(localStorage.getItem('maxlab:recent'))") == kept


def box_of(locator: Locator) -> tuple[float, float]:
    box = locator.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def empty_place(wires: Wires) -> tuple[float, float]:
    """A point of the drawing, in the page, with nothing near it."""
    stage = wires.hand.root.locator(".jp-MaxLab-stage").bounding_box()
    assert stage is not None
    rects = [node["rect"] for node in wires.lab.view().nodes()]
    for down in range(60, int(min(stage["height"], 860 - stage["y"])) - 20, 20):
        for right in range(200, int(stage["width"]) - 120, 20):
            x, y = stage["x"] + right, stage["y"] + down
            if all(
                not (-40 < x - r["x"] < r["w"] + 40 and -40 < y - r["y"] < r["h"] + 40)
                for r in rects
            ) and wires.lab.page.evaluate(
                "([x, y]) => document.elementFromPoint(x, y)?.tagName === 'CANVAS'", [x, y]
            ):
                return x, y
    raise AssertionError("the drawing has no empty place")


def test_entries_are_dragged_out(open_lab: OpenLab, server: LabServer) -> None:
    wires = start(open_lab, server, "palette-drag", "dark")
    lab, hand, view, mouse = wires.lab, wires.hand, wires.lab.view(), wires.mouse
    before = graph_text(lab)
    lab.show_output_of("graph")
    view.click("exp")

    def take(name: str) -> None:
        lab.show_output_of("graph")
        view.settle()
        option = palette(hand, name, name)
        mouse.move(*box_of(option))
        mouse.down()

    # What fits is marked; what does not says why before the drop, and Escape lets go.
    take("argmax")
    mouse.move(*wires.operand("matmul", 1, 2), steps=8)
    wires.label.get_by_text("argmax").wait_for()
    wires.label.get_by_text(re.compile("dtype|int64|differ")).wait_for()
    lab.shot("palette-drag-refused-dark")
    hand.press("Escape")
    mouse.up()
    assert hand.root.get_by_role("option").first.is_visible()
    assert graph_text(lab) == before

    # Onto an edge.
    take("tanh")
    x, y = wires.result("relu")
    mouse.move(x, y + 16, steps=8)
    wires.label.get_by_text("put on this edge, gives float32[n, 8]").wait_for()
    lab.shot("palette-drag-dark")
    mouse.up()
    hand.said("put tanh on the edge")
    text = graph_text(lab)
    assert text.index("mo.relu") < text.index("mo.tanh") < text.index("mo.matmul")

    # Onto a port: it reads what is there. Onto an empty place: it is put down there.
    take("cos")
    mouse.move(*wires.result("relu"), steps=8)
    wires.label.get_by_text("reads relu, gives float32[n, 8]").wait_for()
    mouse.up()
    hand.said("added cos")
    assert re.search(r"mo.cos\(%v\d+\)", graph_text(lab))
    lab.show_output_of("graph")
    view.settle()
    there = empty_place(wires)
    take("sin")
    mouse.move(*there, steps=8)
    wires.label.get_by_text("put down here").wait_for()
    mouse.up()
    hand.said("added sin")
    assert "mo.sin" in graph_text(lab)


def test_palette_in_a_narrow_window(open_lab: OpenLab, server: LabServer) -> None:
    wires = start(open_lab, server, "palette-narrow", "light")
    lab, hand = wires.lab, wires.hand
    lab.page.set_viewport_size({"width": 900, "height": 900})
    lab.show_output_of("graph")
    lab.view().click("exp")
    palette(hand, "layer", "nn.LayerNorm")
    hand.root.locator(".jp-MaxLab-detailCode", has_text="graph").wait_for()
    lab.shot("palette-narrow")
    outside = hand.root.evaluate(
        """view => [...view.querySelectorAll('.jp-MaxLab-paletteDrop, .jp-MaxLab-detail button')]
            .filter(e => e.getBoundingClientRect().right > view.getBoundingClientRect().right + 1)
            .length"""
    )
    assert outside == 0
