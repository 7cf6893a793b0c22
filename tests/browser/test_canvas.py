"""The canvas of a graph that is edited: what failed is marked, toolbars are one stop of Tab, and
the camera stays with what a person looks at."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator

from tests.browser.documents import write_notebook
from tests.browser.page import VIEWPORT, GraphView, LabPage
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand

pytestmark = pytest.mark.browser

START = """
import numpy as np
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
F32 = DType.float32
types = [TensorType(F32, ["n", 8]), TensorType(DType.int64, ["k"]), TensorType(F32, [8, 8])]
with Graph("net", input_types=types) as graph:
    x, at, w = (value.tensor for value in graph.inputs)
    rows = ops.gather(ops.relu(x), at, axis=0)
    graph.output(ops.softmax(rows @ w))
near, far = np.array([0, 1]), np.array([0, 99])
graph
"""


def open_graph(lab: LabPage, server: LabServer, name: str) -> tuple[Hand, GraphView]:
    """A graph that is edited, in a notebook of its own; what was open is closed."""
    lab.close_all()
    lab.open_notebook(write_notebook(server.root, f"{name}.ipynb", []))
    lab.run_code(START)
    view = lab.view()
    lab.show_output_of("graph")
    hand = Hand(lab)
    hand.root.get_by_role("button", name="Edit (E)").click()
    hand.said("editing")
    return hand, view


def run_with(hand: Hand, rows: str) -> None:
    hand.press("x")
    hand.form.wait_for()
    hand.form.get_by_label("input1").fill(rows)
    hand.press("Enter")


def test_what_a_run_failed_at_is_marked_until_it_is_mended(
    shared: LabPage, server: LabServer
) -> None:
    hand, view = open_graph(shared, server, "canvas-failing")
    marked = hand.root.get_by_role("treeitem").filter(has_text="the run failed here: gather")
    hand.item("relu").focus()
    for mend in ("run", "edit"):
        run_with(hand, "far")
        hand.said("99")
        marked.wait_for()
        assert "99" in marked.inner_text()
        rect = next(n["rect"] for n in view.nodes() if n["label"] == "gather")
        shared.page.mouse.move(rect["x"] + rect["w"] / 2, rect["y"] + rect["h"] / 2)
        hand.root.get_by_role("tooltip").get_by_text("the run failed here").wait_for()
        shared.shot(f"canvas-failed-{mend}")
        shared.page.mouse.move(5, 5)
        hand.item("gather").focus()
        if mend == "run":
            run_with(hand, "near")
            hand.said("ran; it gives")
            hand.press("Escape")
        else:
            hand.press("Shift+D")
            hand.said("added")
        marked.wait_for(state="detached")


def in_toolbar(lab: LabPage) -> str:
    """The name of the control of a toolbar that has the keyboard; empty where none has."""
    found: str = lab.page.evaluate(
        "() => { const e = document.activeElement; return e.closest('[role=toolbar]') === null"
        " ? '' : e.getAttribute('aria-label'); }"
    )
    return found


def stops(toolbar: Locator) -> list[str]:
    """The names of the controls of a toolbar to which Tab comes."""
    found: list[str] = toolbar.locator("button, input").evaluate_all(
        "all => all.filter(e => e.tabIndex >= 0 && e.getClientRects().length > 0)"
        ".map(e => e.getAttribute('aria-label'))"
    )
    return found


def settle(strip: Locator) -> None:
    """Wait until as many controls of a toolbar are seen in 20 frames as in the one before."""
    strip.evaluate(
        """bar => new Promise(done => {
            let last = -1, same = 0;
            const look = () => {
                const all = [...bar.querySelectorAll('button, input')];
                const seen = all.filter(e => e.getClientRects().length > 0).length;
                same = seen === last ? same + 1 : 0;
                last = seen;
                same < 20 ? requestAnimationFrame(look) : done();
            };
            look();
        })"""
    )


def test_toolbars_are_one_stop_of_tab_and_fit(shared: LabPage, server: LabServer) -> None:
    hand, _view = open_graph(shared, server, "canvas-toolbars")
    bar = hand.root.get_by_role("toolbar", name="Graph tools")
    for width in (1440, 900):
        shared.page.set_viewport_size({"width": width, "height": 900})
        more = hand.strip.get_by_role("button", name="More ways to edit")
        shared.page.wait_for_function(
            "() => document.querySelector('.jp-MaxLab-strip').offsetHeight <= 70"
        )
        settle(hand.strip)
        for toolbar in (bar, hand.strip):
            assert len(stops(toolbar)) == 1, stops(toolbar)
        # Arrows, Home and End go through all of it; what cannot be done now is not passed over.
        hand.strip.get_by_role("combobox").focus()
        names: list[str] = []
        while not names or in_toolbar(shared) != names[0]:
            names.append(in_toolbar(shared))
            hand.press("ArrowRight")
        assert len(names) == hand.strip.locator("button:visible, input:visible").count()
        assert any(name.startswith("Do the step") for name in names)
        hand.press("ArrowLeft")
        assert in_toolbar(shared) == names[-1]
        hand.press("Home")
        assert in_toolbar(shared) == names[0]
        # Tab leaves it.
        hand.press("ArrowRight", "Tab")
        assert in_toolbar(shared) == ""
        shared.shot(f"canvas-strip-{width}")
    # What has no room is in a menu.
    more.focus()
    hand.press("Enter")
    menu = hand.root.get_by_role("menu")
    menu.wait_for()
    shared.shot("canvas-strip-more")
    assert shared.barriers(".jp-MaxLab-menu") == []
    hand.press("End")
    assert hand.focused().startswith("Save the graph")
    hand.press("Escape")
    assert in_toolbar(shared) == "More ways to edit"
    assert shared.barriers(".jp-MaxLab-editing") == []


def moved(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> tuple[float, float]:
    """How far all that is drawn before and after has moved, which is as far."""
    was = {n["id"]: n["rect"] for n in before}
    rects = [(was[n["id"]], n["rect"]) for n in after if n["id"] in was]
    found = [[new[side] - old[side] for old, new in rects] for side in ("x", "y")]
    assert all(max(ways) - min(ways) < 2 for ways in found), found
    return found[0][0], found[1][0]


def on_stage(hand: Hand, view: GraphView) -> list[dict[str, Any]]:
    """What is drawn, with its places on the stage: the notebook around it may be scrolled."""
    stage = box_of(hand)
    return [
        n | {"rect": n["rect"] | {side: n["rect"][side] - stage[side] for side in ("x", "y")}}
        for n in view.nodes()
    ]


def box_of(hand: Hand) -> Any:
    """The place and the size of the stage in the window."""
    stage = hand.root.locator(".jp-MaxLab-stage").bounding_box()
    assert stage is not None
    return stage


def test_the_camera_keeps_what_is_looked_at(shared: LabPage, server: LabServer) -> None:
    shared.page.set_viewport_size({"width": 1440, "height": 900})
    hand, view = open_graph(shared, server, "canvas-camera")
    hand.item("softmax").focus()
    hand.press("1")
    view.settle()
    stage = box_of(hand)
    # The last operation stands at the lower edge: what comes below it is out of sight.
    rect = next(n["rect"] for n in view.nodes() if n["label"] == "softmax")
    shared.page.mouse.move(stage["x"] + 12, stage["y"] + stage["height"] / 2)
    shared.page.mouse.down()
    down = stage["y"] + stage["height"] - rect["y"] - rect["h"] - 6
    shared.page.mouse.move(stage["x"] + 12, stage["y"] + stage["height"] / 2 + down, steps=4)
    shared.page.mouse.up()
    view.settle()
    hand.item("softmax").focus()
    hand.press("Enter")
    view.settle()
    before = on_stage(hand, view)
    hand.press("a")
    hand.option("tanh").wait_for()
    hand.type("tanh")
    hand.press("Enter")
    hand.said("added tanh")
    view.settle()
    after = on_stage(hand, view)
    made = next(n["rect"] for n in after if n["label"] == "tanh")
    height = box_of(hand)["height"]
    assert made["y"] > 0
    assert made["y"] + made["h"] <= height - 10
    # No further than that took, and all together.
    dx, dy = moved(before, [n for n in after if n["label"] != "output"])
    assert made["y"] + made["h"] >= height - 30
    assert abs(dx) < 2
    assert dy < 0
    shared.shot("canvas-camera")
    # What is taken back moves nothing.
    hand.press("u")
    hand.said("undone")
    view.settle()
    left = [n for n in on_stage(hand, view) if n["label"] != "output"]
    assert max(map(abs, moved(after, left))) < 2
    assert re.search(r"mo\.softmax", str(shared.run_code("print(graph)")[0]["text"]))


@pytest.mark.parametrize("way", ["mouse", "keys"])
def test_what_goes_in_and_comes_out_is_selected_beside_operations(
    shared: LabPage, server: LabServer, way: str
) -> None:
    """An input or an output is drawn as selected and inspected; the ids of the selection, which
    Python sees, are those of operations alone."""
    shared.page.set_viewport_size({"width": 1440, "height": 1300})  # the whole drawing is in sight
    hand, view = open_graph(shared, server, f"canvas-ends-{way}")
    hand.press("e")
    for kind, name, words in (
        ("node", "relu", "relu"),
        ("output", "output", "graph output"),
        ("input", "input0", "graph input"),
    ):
        node = next(n for n in view.nodes() if n["kind"] == kind and n["label"] == name)
        item = hand.root.locator(f"[role=treeitem][data-key='{node['id']}']")
        if way == "mouse":
            view.click(node["id"])
        else:
            item.focus()
            hand.press("Enter")
            view.settle()
        assert item.get_attribute("aria-selected") == "true", kind
        assert words in view.inspector(), kind
        assert view.read("view.selection") == ([node["id"]] if kind == "node" else [])
    assert hand.root.locator("[role=treeitem][aria-selected=true]").count() == 1
    shared.page.set_viewport_size(VIEWPORT)
