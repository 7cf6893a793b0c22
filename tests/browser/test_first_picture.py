"""What a graph looks like before anybody has touched it, and what keeps its place afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.conftest import ROOT
from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

GRAPHS = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

def long(count, name):
    with Graph(name, input_types=[TensorType(DType.float32, ["rows", 64])]) as graph:
        x = graph.inputs[0].tensor
        skip = x
        for number in range(count // 5):
            y = ops.tanh(x + skip)
            z = ops.sigmoid(x)
            x, skip = y * z + skip, y if number % 3 else z
        graph.output(x)
    return graph

def looped():
    scalar = TensorType(DType.float32, [], device=DeviceRef.CPU())
    with Graph("looped", input_types=[scalar]) as graph:
        x = graph.inputs[0].tensor
        (y,) = ops.while_loop([x], lambda v: v < 100.0, lambda v: [ops.sqrt(v * 3.0) + v])
        graph.output(ops.exp(ops.tanh(y)))
    return graph

def dense():
    x_type = TensorType(DType.float32, ["batch", 256], device=DeviceRef.CPU())
    w = np.linspace(-1, 1, 256 * 256, dtype=np.float32).reshape(256, 256)
    with Graph("dense", input_types=[x_type]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(12):
            x = ops.softmax(ops.tanh(x))
        x = x @ ops.constant(w, DType.float32, DeviceRef.CPU())
        for _ in range(12):
            x = ops.softmax(ops.tanh(x))
        graph.output(x)
    return graph
"""

# Paints one more frame, and notes every text of it with its size and where it stands.
TEXTS = """async ([index]) => {
  const view = window.__maxlabTest.graphViews[index];
  const proto = CanvasRenderingContext2D.prototype;
  const fillText = proto.fillText;
  const found = [];
  proto.fillText = function (text, x, y, ...rest) {
    const width = this.measureText(text).width;
    const left = this.textAlign === 'center' ? x - width / 2 : x;
    const px = Number(/([\\d.]+)px/.exec(this.font)[1]);
    found.push({ text, px, left, right: left + width, y });
    return fillText.call(this, text, x, y, ...rest);
  };
  view.stage.redraw();
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  proto.fillText = fillText;
  const { width, height } = view.stage;
  return found.filter(t => t.left >= 0 && t.right <= width && t.y >= 5 && t.y <= height - 5);
}"""

PLACES = """[...window.__maxlabTest.graphViews[argument].scene.items]
  .map(({ key, x, y, w, h }) => [key, x, y, w, h])"""


def texts(view: GraphView) -> list[dict[str, Any]]:
    """Every text that is drawn whole inside of the drawing: its words, size and place."""
    view.settle()
    found: list[dict[str, Any]] = view.lab.page.evaluate(TEXTS, [view.index])
    return found


def stage(view: GraphView) -> dict[str, float]:
    """Where the drawing is in the page."""
    box: dict[str, float] = view.read(
        "(({x, y, width, height}) => ({x, y, w: width, h: height}))"
        "(view.element.querySelector('.jp-MaxLab-stage').getBoundingClientRect())"
    )
    return box


def is_inside(rect: dict[str, float], frame: dict[str, float]) -> bool:
    """Whether a rectangle is in a frame, to the pixel."""
    return (
        rect["x"] >= frame["x"] - 1
        and rect["y"] >= frame["y"] - 1
        and rect["x"] + rect["w"] <= frame["x"] + frame["w"] + 1
        and rect["y"] + rect["h"] <= frame["y"] + frame["h"] + 1
    )


def show(lab: LabPage, source: str) -> GraphView:
    """The view of what a new cell shows."""
    before = lab.page.evaluate("() => window.__maxlabTest?.views.length ?? 0")
    lab.run_code(source)
    view = lab.view(before)
    lab.page.locator(".jp-MaxLab-view").last.scroll_into_view_if_needed()
    return view


@pytest.fixture
def lab(shared: LabPage, server: LabServer) -> LabPage:
    """A notebook of this module, in which the graphs can be made."""
    if not shared.page.evaluate("() => window.jupyterapp.shell.currentWidget?.context?.path"):
        shared.open_notebook(write_notebook(server.root, "first_picture.ipynb", []))
        shared.run_code(GRAPHS)
    return shared


def minilm() -> str:
    """The code of the tutorial up to its graph."""
    notebook = json.loads((ROOT / "notebooks" / "02_minilm.ipynb").read_text("utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    end = next(n for n, cell in enumerate(cells) if cell.rstrip().endswith("\ngraph"))
    return "\n".join(cells[: end + 1])


def test_a_model_of_layers_fills_the_view(lab: LabPage) -> None:
    view = show(lab, minilm())
    drawn = texts(view)
    lab.shot("first-minilm")
    nodes, frame = view.nodes(), stage(view)
    runs = [node for node in nodes if node["count"] == 6]
    assert [run["expanded"] for run in runs] == [False], runs
    assert all(is_inside(node["rect"], frame) for node in nodes)
    left = min(node["rect"]["x"] for node in nodes)
    right = max(node["rect"]["x"] + node["rect"]["w"] for node in nodes)
    assert right - left > 0.5 * frame["w"], (right - left, frame)
    words = [text["text"] for text in drawn if text["px"] >= 10.9]
    for node in nodes:
        name = node["label"] + (f" ×{node['count']}" if node["count"] > 1 else "")
        assert name in words, (name, drawn)
    assert {"tokens", "mask"} <= {node["label"] for node in nodes}
    assert any(text["text"].startswith("f32[batch") for text in drawn), drawn


@pytest.mark.parametrize("count", [45, 2000])
def test_a_long_graph_opens_readable_and_fits(lab: LabPage, count: int) -> None:
    view = show(lab, f"long({count}, 'long-{count}')")
    drawn = texts(view)
    lab.shot(f"first-long-{count}")
    ops = {"add", "mul", "tanh", "sigmoid"}
    names = [text for text in drawn if text["text"] in ops]
    assert len(names) >= min(50, count), len(names)
    assert all(text["px"] >= 10.9 for text in names)
    assert not [text["text"] for text in drawn if text["text"].endswith("…")]
    view.execute("fit")
    nodes, frame = view.nodes(), stage(view)
    assert all(is_inside(node["rect"], frame) for node in nodes)
    width = max(n["rect"]["x"] + n["rect"]["w"] for n in nodes) - min(n["rect"]["x"] for n in nodes)
    assert width > 0.3 * frame["w"], (width, frame["w"])


def test_the_hottest_is_in_view_with_its_share(lab: LabPage) -> None:
    view = show(
        lab,
        "model = engine.InferenceSession(num_threads=2).load(dense())\n"
        "model.profile(np.ones((4096, 256), dtype=np.float32))",
    )
    drawn = texts(view)
    lab.shot("first-profile")
    nodes, frame = view.nodes(), stage(view)
    hottest = next(node for node in nodes if node["label"] == "matmul")
    assert hottest["heat"]
    assert is_inside(hottest["rect"], frame), (hottest, frame)
    share = hottest["heat"].split(" · ")[1]
    middle = hottest["rect"]["x"] + hottest["rect"]["w"] / 2 - frame["x"]
    lines = [
        text["px"]
        for text in drawn
        if text["text"].endswith(share) and text["left"] < middle < text["right"]
    ]
    assert lines, (hottest, drawn)
    assert min(lines) >= 10.9, lines
    legend = view.read(
        "(({x, y, width, height}) => ({x, y, w: width, h: height}))"
        "(view.element.querySelector('.jp-MaxLab-legend').getBoundingClientRect())"
    )
    covered = [
        node["label"]
        for node in nodes
        if is_inside(node["rect"], frame)
        and node["rect"]["x"] < legend["x"] + legend["w"]
        and legend["x"] < node["rect"]["x"] + node["rect"]["w"]
        and node["rect"]["y"] < legend["y"] + legend["h"]
        and legend["y"] < node["rect"]["y"] + node["rect"]["h"]
    ]
    assert covered == []


def test_a_header_covers_nothing(lab: LabPage) -> None:
    view = show(lab, "looped()")
    boxes = [node for node in view.nodes() if node["expanded"]]
    assert boxes
    for step in range(4):
        drawn, nodes, frame = texts(view), view.nodes(), stage(view)
        tops = [node["rect"]["y"] for node in nodes if not node["expanded"]]
        for box in (node for node in nodes if node["expanded"]):
            first = min(top for top in tops if top > box["rect"]["y"]) - frame["y"]
            titles = [
                text
                for text in drawn
                if text["text"] == box["label"]
                and box["rect"]["y"] <= text["y"] + frame["y"] <= first + frame["y"] + 5
                and 0 <= text["left"] + frame["x"] - box["rect"]["x"] < 60
            ]
            for title in titles:
                assert title["y"] + 0.5 * title["px"] <= first, (step, box, title, first)
        view.execute("zoom-out")
    lab.shot("first-loop")


def test_an_overlay_moves_nothing(lab: LabPage) -> None:
    view = show(lab, "long(60, 'tinted')")
    before = view.read(PLACES, view.index)
    tint = "new Map(view.nodes().map(node => [node.id, { tone: 'good', text: 'same' }]))"
    view.read(
        f"window.__maxlabTest.graphViews[argument].docking.setOverlay({tint}, 'all alike')",
        view.index,
    )
    view.settle()
    assert view.read(PLACES, view.index) == before


# Puts an item at the right and lower edge of the drawing, as it is after a pan.
AT_THE_EDGE = """(({ stage, scene }) => {
  const { x, y, w, h } = scene.byKey.get(argument[1]);
  stage.camera.set(1, stage.width - 8 - x - w, stage.height - 8 - y - h);
  stage.redraw();
})(window.__maxlabTest.graphViews[argument[0]])"""


def test_the_selected_op_stays_in_view(lab: LabPage) -> None:
    view = show(lab, "long(60, 'kept')")
    chosen = view.nodes()[20]["id"]

    def is_seen() -> bool:
        lab.page.wait_for_timeout(100)
        view.settle()
        rect = next(node["rect"] for node in view.nodes() if node["id"] == chosen)
        return is_inside(rect, stage(view))

    view.read(AT_THE_EDGE, [view.index, chosen])
    view.click(chosen)
    assert view.read("view.selection") == [chosen]
    assert is_seen(), "the side panel covers it"
    view.read(AT_THE_EDGE, [view.index, chosen])
    view.execute("toggle-dock")
    assert is_seen(), "the panels below cover it"
    view.read(AT_THE_EDGE, [view.index, chosen])
    lab.page.set_viewport_size({"width": 1200, "height": 900})
    assert is_seen(), "the window became narrower"
    lab.page.set_viewport_size({"width": 1440, "height": 900})


def camera(view: GraphView) -> list[float]:
    """Zoom and place of the camera."""
    place: list[float] = view.read(
        "(({ k, tx, ty }) => [k, tx, ty])(window.__maxlabTest.graphViews[argument].stage.camera)",
        view.index,
    )
    return place


def test_a_map_of_what_does_not_fit(lab: LabPage) -> None:
    view = show(lab, "long(30, 'small')")
    small = lab.page.locator(".jp-MaxLab-view").last.locator(".jp-MaxLab-minimap")
    view.execute("fit")
    assert small.count() == 0 or small.is_hidden()
    view = show(lab, "long(1000, 'mapped')")
    minimap = lab.page.locator(".jp-MaxLab-view").last.locator(".jp-MaxLab-minimap")
    minimap.wait_for()
    lab.shot("minimap")
    before = camera(view)
    box = minimap.bounding_box()
    assert box is not None
    lab.page.mouse.move(box["x"] + 8, box["y"] + 8)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + box["width"] - 8, box["y"] + box["height"] - 8, steps=4)
    lab.page.mouse.up()
    view.settle()
    after = camera(view)
    assert after[0] == before[0]
    assert after[1:] != before[1:]
    nodes, frame = view.nodes(), stage(view)
    farthest = max(nodes, key=lambda node: node["rect"]["x"])["rect"]
    assert frame["x"] < farthest["x"] < frame["x"] + frame["w"], (farthest, frame)
    view.execute("toggle-minimap")
    assert minimap.is_hidden()
    view.execute("toggle-minimap")
    assert minimap.is_visible()


def test_only_what_leads_to_an_op(lab: LabPage) -> None:
    view = show(lab, "long(30, 'parted')")
    every = view.nodes()
    chosen = next(node["id"] for node in every if node["label"] == "mul")
    view.read("view.select([argument])", chosen)
    view.settle()
    view.execute("producers")
    above = view.nodes()
    assert sorted(node["label"] for node in above) == ["mul", "sigmoid", "tanh"]
    crumb = lab.page.locator(".jp-MaxLab-view").last.locator(".jp-MaxLab-apart")
    assert f"{len(every) - 3} hidden" in crumb.inner_text()
    lab.shot("producers")
    crumb.get_by_role("button", name="Show all").click()
    view.settle()
    assert len(view.nodes()) == len(every)
    assert crumb.is_hidden()
    view.execute("consumers")
    below = {node["id"] for node in view.nodes()}
    assert chosen in below
    assert len(below) < len(every)
    view.execute("show-all")
    view.execute("hide")
    assert chosen not in {node["id"] for node in view.nodes()}
    view.execute("show-all")
    view.read("view.select([argument])", chosen)
    view.settle()
    view.execute("isolate")
    assert [node["id"] for node in view.nodes()] == [chosen]
    view.execute("show-all")
    assert len(view.nodes()) == len(every)
