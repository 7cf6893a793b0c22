"""A graph changed by hand in a notebook, by the keyboard alone and by the mouse alone."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

START = """
import numpy as np
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
with Graph("net", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
    graph.output(ops.exp(graph.inputs[0].tensor))
graph
"""

RESULT = """
import json
from maxlab import engine
made = engine.InferenceSession().load(graph)(x)[0].to_numpy()
w = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32) * np.float32(0.5)
v = np.random.default_rng(2).standard_normal((16, 4)).astype(np.float32) * np.float32(0.1)
hidden = np.maximum(x @ w, 0) @ v
want = np.exp(hidden - hidden.max(-1, keepdims=True))
want /= want.sum(-1, keepdims=True)
print(json.dumps([list(made.shape), float(np.abs(made - want).max())]))
"""


def graph_text(lab: LabPage) -> str:
    outputs = lab.run_code("print(graph)")
    return str(outputs[0]["text"])


def start(open_lab: OpenLab, server: LabServer, name: str, theme: str = "light") -> LabPage:
    lab = open_lab(theme)
    lab.open_notebook(write_notebook(server.root, f"{name}.ipynb", []))
    lab.run_code(START)
    lab.view()
    return lab


class Hand:
    """What a person does with a view: places are found by what they are called."""

    def __init__(self, lab: LabPage) -> None:
        self.lab = lab
        self.keyboard = lab.page.keyboard
        self.root = lab.page.locator(".jp-MaxLab-view:visible").first
        self.strip = self.root.get_by_role("toolbar", name="Edit the graph")
        self.form = self.root.locator(".jp-MaxLab-changeForm")

    def said(self, text: str) -> None:
        """Wait until the strip says ``text``."""
        self.strip.locator(".jp-MaxLab-stripSaid", has_text=text).wait_for()

    def option(self, name: str) -> Locator:
        """The operation of the palette's list."""
        return self.root.get_by_role("option", name=re.compile(f"^{name}:"))

    def item(self, name: str) -> Locator:
        """The item of the accessible tree whose name begins with ``name``."""
        return self.root.get_by_role("treeitem").filter(has_text=name).first

    def focused(self) -> str:
        """The accessible text of what has the keyboard."""
        found: str = self.lab.page.evaluate(
            "() => document.activeElement?.getAttribute('aria-label') "
            "?? document.activeElement?.textContent ?? ''"
        )
        return found

    def press(self, *keys: str) -> None:
        for key in keys:
            self.keyboard.press(key)

    def type(self, text: str) -> None:
        self.keyboard.insert_text(text)

    def choose(self, query: str) -> None:
        """Select the first item that the search finds."""
        self.press("/")
        self.press("Control+a")
        self.type(query)
        self.root.get_by_role("row").nth(1).wait_for()
        self.press("Enter", "Escape")

    def shot(self, name: str) -> None:
        self.lab.shot(f"editing-{name}")


def add(hand: Hand, name: str, **fields: str) -> None:
    """Add an operation that reads what is selected, by keys."""
    hand.press("a")
    hand.root.get_by_role("option").first.wait_for()
    hand.type(name)
    hand.option(name).wait_for()
    hand.press("Enter")
    if fields:
        hand.form.wait_for()
        fill(hand, **fields)
    hand.said(f"added {name}")


def fill(hand: Hand, **fields: str) -> None:
    """Type into the fields of the form, by keys, from where it has the keyboard."""
    seen: list[str] = []
    for key in ["Tab"] * 8 + ["Shift+Tab"] * 12:
        name = hand.lab.page.evaluate(
            "() => document.activeElement?.labels?.[0]?.firstChild?.textContent ?? ''"
        )
        if name in fields and name not in seen:
            hand.press("Control+a")
            hand.type(fields[name])
            seen.append(name)
        if len(seen) == len(fields):
            break
        hand.press(key)
    assert sorted(seen) == sorted(fields)
    hand.press("Enter")


def test_a_network_by_the_keyboard_alone(open_lab: OpenLab, server: LabServer) -> None:
    lab = start(open_lab, server, "by-keys")
    hand = Hand(lab)
    before = graph_text(lab)
    lab.show_output_of("graph")
    lab.page.evaluate("() => document.activeElement?.blur()")
    hand.root.get_by_role("treeitem").first.focus()
    hand.press("Home")
    hand.press("e")
    hand.said("editing")
    hand.shot("strip")

    # + Constant stands in the strip, which Tab reaches.
    hand.strip.get_by_role("button", name="Add a constant").focus()
    hand.press("Enter")
    fill(hand, name="w", type="float32[8, 16]", scale="0.5", seed="1")
    hand.said("added the constant w")
    hand.strip.get_by_role("button", name="Add a constant").focus()
    hand.press("Enter")
    fill(hand, name="v", type="float32[16, 5]", seed="2")
    hand.said("added the constant v")

    hand.choose("op=exp")
    hand.press("Shift+R")
    hand.root.get_by_role("option").first.wait_for()
    hand.shot("palette")
    hand.type("matmul")
    hand.option("matmul").wait_for()
    hand.press("Enter")
    hand.form.wait_for()
    fill(hand, rhs="w")
    hand.said("replaced exp by matmul")
    add(hand, "relu")
    add(hand, "matmul", rhs="v")

    add(hand, "softmax")
    hand.press("o")
    hand.said("the graph gives softmax")
    hand.shot("built")

    # A shape error is made, told where it was made, and mended.
    hand.choose("constant v")
    hand.press("x")
    hand.form.wait_for()
    fill(hand, input0="x")
    hand.said("ran; it gives")
    card = hand.root.get_by_role("region", name="What the run gave")
    assert "float32[3, 5]" in card.inner_text()
    hand.shot("ran")
    hand.choose("op=matmul")
    hand.press("F2")
    hand.form.wait_for()
    fill(hand, **{"operand 1": "v"})
    wrong = hand.form.get_by_role("alert")
    wrong.wait_for()
    assert "ML2" in wrong.inner_text()
    hand.shot("refused")
    hand.press("Control+a")
    hand.type("w")
    hand.press("Escape")

    after = graph_text(lab)
    assert "mo.softmax" in after
    found = lab.run_code(RESULT.replace("(16, 4)", "(16, 5)"))
    shape, error = json.loads(found[0]["text"])
    assert shape == [3, 5]
    assert error < 1e-5

    # Undo all, redo all.
    lab.show_output_of("graph")
    hand.item("softmax").focus()
    undo = hand.strip.get_by_role("button", name="Undo the last step")
    steps = 0
    while undo.get_attribute("aria-disabled") != "true":
        hand.press("u")
        hand.said("undone")
        steps += 1
        hand.lab.page.wait_for_timeout(50)
        assert steps < 20
    assert graph_text(lab) == before
    lab.show_output_of("graph")
    hand.item("exp").focus()
    for _ in range(steps):
        hand.press("Shift+U")
    hand.lab.page.wait_for_function(
        """() => document.querySelector('[data-command="edit-redo"]')
            .getAttribute('aria-disabled') === 'true'"""
    )
    assert graph_text(lab) == after


def test_by_the_mouse(open_lab: OpenLab, server: LabServer) -> None:
    """Select, add, put on an edge, replace by the menu, remove and undo; only names are typed."""
    lab = start(open_lab, server, "by-mouse", "dark")
    hand, view = Hand(lab), lab.view()
    before = graph_text(lab)
    lab.show_output_of("graph")
    hand.root.get_by_role("button", name="Edit (E)").click()
    hand.said("editing")
    view.click("exp")
    palette = hand.strip.get_by_role("combobox")
    palette.click()
    hand.option("softmax").click()
    hand.said("added softmax")
    view.settle()
    hand.strip.get_by_role("button", name="Let the graph give").click()
    hand.said("the graph gives softmax")
    assert graph_text(lab).count("mo.") > before.count("mo.")

    lab.show_output_of("graph")
    view.settle()
    edge = view.read(
        """(() => {
            const [a, b] = ['exp', 'softmax'].map(
                label => view.nodes().find(node => node.label === label).rect);
            // Above the name of what flows, which stands in the middle.
            return { x: a.x + a.w / 2, y: a.y + a.h + (b.y - a.y - a.h) / 5 };
        })()"""
    )
    lab.page.mouse.click(edge["x"], edge["y"])
    palette.click()
    hand.root.get_by_text("On the edge, it reads exp").wait_for()
    hand.shot("edge-dark")
    hand.option("tanh").click()
    hand.said("put tanh on the edge")
    view.settle()
    text = graph_text(lab)
    assert text.index("mo.exp") < text.index("mo.tanh") < text.index("mo.softmax")

    lab.show_output_of("graph")
    view.settle()
    rect = next(n["rect"] for n in view.nodes() if n["label"] == "tanh")
    lab.page.mouse.click(rect["x"] + rect["w"] / 2, rect["y"] + 10, button="right")
    menu = lab.page.locator(".lm-Menu")
    menu.get_by_text("Replace the operation").wait_for()
    lab.shot("editing-menu-dark")
    menu.get_by_text("Remove what is selected").click()
    hand.said("removed 1 item")
    view.settle()
    assert "mo.tanh" not in graph_text(lab)
    lab.show_output_of("graph")
    undo = hand.strip.get_by_role("button", name="Undo the last step")
    for _ in range(4):
        undo.click()
    lab.page.wait_for_function(
        """() => document.querySelector('[data-command="edit-undo"]')
            .getAttribute('aria-disabled') === 'true'"""
    )
    assert graph_text(lab) == before


def test_from_nothing(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    lab.open_notebook(write_notebook(server.root, "nothing.ipynb", []))
    lab.run_code('from maxlab.graph import Graph\ngraph = Graph("net")\ngraph')
    hand = Hand(lab)
    hand.root.get_by_role("button", name="Edit (E)").click()
    hand.said("editing")
    hand.strip.get_by_role("button", name="Add an input").click()
    fill(hand, type="float32[n, 4]")
    hand.said("added the input")
    lab.view().click("input0")
    add(hand, "softmax")
    hand.press("o")
    hand.said("the graph gives softmax")
    hand.press("x")
    hand.form.wait_for()
    hand.press("Enter")
    hand.said("ran; it gives")
    hand.press("Shift+S")
    hand.form.wait_for()
    hand.press("Enter")
    hand.said("saved net.mlgraph")
    hand.shot("from-nothing")
    found = lab.run_code("import maxlab\nprint(maxlab.open('net.mlgraph'))")
    assert found[0]["text"] == graph_text(lab)


def test_strip_in_a_narrow_window(open_lab: OpenLab, server: LabServer) -> None:
    lab = start(open_lab, server, "narrow-edit")
    lab.page.set_viewport_size({"width": 900, "height": 900})
    hand, view = Hand(lab), lab.view()
    lab.show_output_of("graph")
    hand.root.get_by_role("button", name="Edit (E)").click()
    hand.said("editing")
    view.click("exp")
    hand.strip.get_by_role("button", name="Change what is selected").click()
    hand.form.wait_for()
    assert lab.barriers(".jp-MaxLab-editing") == []
    hand.shot("narrow")
    outside = hand.root.evaluate(
        """view => [...view.querySelectorAll('.jp-MaxLab-strip > *, .jp-MaxLab-changeForm *')]
            .filter(e => e.getBoundingClientRect().right > view.getBoundingClientRect().right + 1)
            .length"""
    )
    assert outside == 0
    hand.press("Escape")
    hand.strip.get_by_role("combobox").click()
    hand.root.get_by_role("option").first.wait_for()
    hand.shot("narrow-palette")
