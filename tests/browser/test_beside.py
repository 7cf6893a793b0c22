"""Two graphs side by side in a notebook: one selection, one camera, and a list of differences."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import maxlab
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

def build(is_new, name):
    with Graph(name, input_types=[TensorType(DType.float32, ["batch", 64])]) as graph:
        x = graph.inputs[0].tensor
        for layer in range(2):
            h = ops.tanh(ops.exp(x))
            if is_new and layer == 0:
                h = ops.relu(h)
            if not is_new and layer == 1:
                h = ops.abs(h)
            h = ops.softmax(h, axis=0 if is_new and layer else -1)
            x = ops.sqrt(h) + x
        x = ops.cast(x, DType.bfloat16 if is_new else DType.float16)
        graph.output(x)
    return graph
"""
SHOW = 'maxlab.diff(build(False, "first"), build(True, "second"))'

ROWS = ".jp-MaxLab-difference"

# The middle of a drawing.
STAGE = """(() => {
  const r = [...view.element.querySelectorAll('.jp-MaxLab-stage')].pop().getBoundingClientRect();
  return [r.x + r.width / 2, r.y + r.height / 2];
})()"""


def ids(view: GraphView, label: str) -> list[str]:
    """The ids of the operations with this label, from the first to the last."""
    found = [node["id"] for node in view.nodes() if node["label"] == label]
    return sorted(found, key=lambda name: int(name[1:]))


def place(view: GraphView, id: str) -> tuple[float, float]:
    """Where the top of an operation is, from the left and top of the drawing, in the middle."""
    [node] = [node for node in view.nodes() if node["id"] == id]
    stage = view.read(STAGE)
    rect: dict[str, Any] = node["rect"]
    return rect["x"] + rect["w"] / 2 - stage[0], rect["y"] - stage[1]


def near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two places are the same but for a pixel."""
    return all(abs(a - b) < 1.5 for a, b in zip(one, other, strict=True))


def test_two_graphs_side_by_side(shared: LabPage, server: LabServer) -> None:
    shared.open_notebook(write_notebook(server.root, "beside.ipynb", []))
    shared.run_code(BUILD)
    shared.run_code(SHOW)
    second, first = shared.view(0), shared.view(1)
    shared.show_output_of(SHOW)
    first.settle()
    second.settle()
    assert (first.read("view.name"), second.read("view.name")) == ("first", "second")
    rows = shared.page.locator(ROWS)
    assert rows.locator(".jp-MaxLab-differenceName").all_text_contents()[0] == "relu"
    shared.shot("beside-light")

    # What is selected in one is selected in the other, at the same height.
    for one, other in ((second, first), (first, second)):
        for n in (0, 1):
            one.click(ids(one, "exp")[n])
            one.settle()
            other.settle()
            assert other.read("view.selection") == [ids(other, "exp")[n]]
            assert near(place(one, ids(one, "exp")[n]), place(other, ids(other, "exp")[n]))

    # A wheel and a hand over one of them move both.
    [stage] = [view.read(STAGE) for view in (first,)]
    zoom = second.read("view.zoom")
    shared.page.mouse.move(stage[0], stage[1])
    shared.page.mouse.wheel(0, -300)
    second.wait_for(f"view.zoom > {1.2 * zoom}")
    assert first.read("view.zoom") == second.read("view.zoom")
    tanh = ids(first, "tanh")[0], ids(second, "tanh")[0]
    before = place(second, tanh[1])
    shared.page.mouse.down()
    shared.page.mouse.move(stage[0] + 60, stage[1] + 40, steps=4)
    shared.page.mouse.up()
    first.settle()
    moved = place(second, tanh[1])
    assert moved[0] - before[0] > 30
    assert moved[1] - before[1] > 20

    # The list steps through the differences, by keys, buttons and clicks.
    step = shared.page.get_by_role("button", name="Next difference")
    step.click()
    second.wait_for("view.selection.length === 1")
    assert second.read("view.selection") == ids(second, "relu")
    assert first.read("view.selection") == []
    shared.page.locator(".jp-MaxLab-differenceRows").focus()
    names = rows.locator(".jp-MaxLab-differenceName").all_text_contents()
    gone = names.index("abs")
    for _ in range(gone):
        shared.page.keyboard.press("ArrowDown")
    [abs_id] = ids(first, "abs")
    first.wait_for(f"view.selection[0] === '{abs_id}'")
    first.settle()
    second.settle()
    assert second.read("view.selection") == []
    rows.nth(names.index("cast", gone)).click()
    shared.page.locator(".jp-MaxLab-differenceRows").focus()
    shared.page.keyboard.press("Home")
    second.wait_for(f"view.selection[0] === '{ids(second, 'relu')[0]}'")
    assert "1 of" in shared.page.locator(".jp-MaxLab-differencePlace").inner_text()
    shared.page.keyboard.press("End")
    assert rows.last.get_attribute("aria-selected") == "true"
    assert shared.barriers(".jp-MaxLab-view") == []
    shared.shot("beside-light")

    shared.set_theme("dark")
    rows.nth(gone).click()
    second.settle()
    first.settle()
    shared.shot("beside-dark")
    shared.page.set_viewport_size({"width": 900, "height": 900})
    second.settle()
    shared.page.wait_for_function(
        "() => document.querySelector('.jp-MaxLab-body.jp-mod-beside.jp-mod-stacked') !== null"
    )
    shared.shot("beside-900")
