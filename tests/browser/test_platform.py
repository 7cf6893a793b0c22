"""The canvas at 200 % zoom, by fingers, in forced colours and without motion; its cards, and what
is laid beside a graph in pictures of it."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import CDPSession

import maxlab
from maxlab.dtype import DType
from maxlab.graph import Editor, Graph, TensorType, ops
from tests.browser.page import SHOTS, GraphView, LabPage
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand
from tests.browser.test_editor import open_document

pytestmark = pytest.mark.browser

F32 = DType.float32

# Controls below the last element that `selector` finds which cannot be pressed, each where it is
# when it was scrolled to: they are cut by the window or the view, or something lies over them.
LOOK = """(selector) => {
  const views = [...document.querySelectorAll('.jp-MaxLab-view')];
  const view = views.find(e => e.getClientRects().length > 0);
  const root = selector === '' ? view : [...view.querySelectorAll(selector)].pop();
  const room = view.getBoundingClientRect();
  const cut = [];
  let seen = 0;
  for (const one of root.querySelectorAll('button, input, [role=option], [role=tab]')) {
    if (one.getClientRects().length === 0) continue;
    one.scrollIntoView({ block: 'nearest' });
    const box = one.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    seen += 1;
    const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    const top = document.elementFromPoint(x, y);
    const isOutside = box.left < room.left - 0.5 || box.right > room.right + 0.5
        || y < room.top || y > room.bottom;
    if (isOutside || top === null || !one.contains(top)) {
      const name = one.getAttribute('aria-label') ?? one.textContent;
      cut.push(`${name} at ${Math.round(x)}, ${Math.round(y)}`);
    }
  }
  return seen === 0 ? ['nothing to press'] : cut;
}"""


def noted() -> Graph:
    """A graph with a pinned operation, comments at an operation and elsewhere, and a draft."""
    types = [TensorType(F32, ["n", 8]), TensorType(F32, [8, 4])]
    with Graph("noted", input_types=types) as graph:
        x, w = (value.tensor for value in graph.inputs)
        graph.output(ops.softmax(ops.relu(x @ w)), ops.exp(x))
    editor = Editor(graph)
    at = {op.name: op.id for op in graph.function.ops}
    editor.place(at["mo.exp"], 420, 210)
    editor.comment("try <b>gelu</b> here", on=at["mo.relu"])
    editor.comment("both are read by the head", x=420, y=330)
    editor.draft("matmul", ["a0", None], "rhs is missing")
    return graph


def opened(lab: LabPage, server: LabServer, name: str) -> tuple[Hand, GraphView]:
    """The graph as a document of its own, that is edited."""
    lab.close_all()
    noted().save(server.root / f"{name}.mlgraph")
    open_document(lab, f"{name}.mlgraph")
    hand, view = Hand(lab), lab.visible_view()
    view.settle()
    return hand, view


@contextmanager
def devtools(lab: LabPage) -> Iterator[CDPSession]:
    """The developer tools of the page."""
    session = lab.context.new_cdp_session(lab.page)
    yield session
    session.detach()


def picture(tools: CDPSession, name: str) -> None:
    """A screenshot of the window as it is: Playwright's own would give it its size back."""
    found = tools.send("Page.captureScreenshot", {"format": "png"})
    SHOTS.mkdir(exist_ok=True)
    (SHOTS / f"{name}.png").write_bytes(base64.b64decode(found["data"]))


def rect_of(view: GraphView, item: str) -> dict[str, float]:
    found: dict[str, float] = next(n["rect"] for n in view.nodes() if item in (n["id"], n["label"]))
    return found


# ---------------------------------------------------------------- zoom
def test_all_is_within_reach_at_200_percent(shared: LabPage, server: LabServer) -> None:
    hand, view = opened(shared, server, "zoomed")
    page = shared.page
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    with devtools(shared) as tools:
        size = {"width": 450, "height": 450, "deviceScaleFactor": 2, "mobile": False}
        tools.send("Emulation.setDeviceMetricsOverride", size)
        page.wait_for_function("() => innerWidth === 450 && devicePixelRatio === 2")
        hand.item("relu").focus()
        hand.press("f")
        view.settle()
        page.wait_for_timeout(300)
        looked: dict[str, list[str]] = {"editor": page.evaluate(LOOK, "")}
        picture(tools, "platform-zoom-editor")

        hand.strip.get_by_role("button", name="More ways to edit").click()
        hand.root.get_by_role("menu").wait_for()
        looked["menu"] = page.evaluate(LOOK, "[role=menu]")
        picture(tools, "platform-zoom-menu")
        hand.press("Escape")

        hand.strip.get_by_role("combobox").click()
        hand.root.get_by_role("option").first.wait_for()
        looked["palette"] = page.evaluate(LOOK, ".jp-MaxLab-paletteDrop")
        picture(tools, "platform-zoom-palette")
        hand.press("Escape")

        hand.item("relu").focus()
        hand.press("Enter", "i")
        hand.root.get_by_text("Inspector").first.wait_for()
        page.wait_for_timeout(300)
        looked["inspector"] = page.evaluate(LOOK, ".jp-MaxLab-panel")
        picture(tools, "platform-zoom-inspector")
        hand.press("i", "F2")
        hand.form.wait_for()
        looked["form"] = page.evaluate(LOOK, "")
        picture(tools, "platform-zoom-form")
        hand.press("Escape")
        tools.send("Emulation.clearDeviceMetricsOverride")
    assert {name: cut for name, cut in looked.items() if cut} == {}


# ---------------------------------------------------------------- fingers
class Fingers:
    """What fingers do on the drawing."""

    def __init__(self, lab: LabPage, tools: CDPSession) -> None:
        self.lab, self._tools = lab, tools

    def _send(self, type: str, *points: tuple[float, float]) -> None:
        touches = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(points)]
        self._tools.send("Input.dispatchTouchEvent", {"type": type, "touchPoints": touches})

    def tap(self, x: float, y: float) -> None:
        self._send("touchStart", (x, y))
        self._send("touchEnd")

    def drag(self, *ways: tuple[tuple[float, float], tuple[float, float]]) -> None:
        """Move one finger along each way, from its first point to its second."""
        self._send("touchStart", *(start for start, _ in ways))
        for part in (0.2, 0.4, 0.6, 0.8, 1):
            points = [(a + (c - a) * part, b + (d - b) * part) for (a, b), (c, d) in ways]
            self._send("touchMove", *points)
        self._send("touchEnd")


def test_fingers_pan_pinch_select_and_connect(shared: LabPage, server: LabServer) -> None:
    hand, view = opened(shared, server, "touched")
    with devtools(shared) as tools:
        fingers = Fingers(shared, tools)
        stage = hand.root.locator(".jp-MaxLab-stage").bounding_box()
        assert stage is not None
        empty = stage["x"] + 30, stage["y"] + stage["height"] / 2

        # One finger moves the drawing by as much as it moves.
        before = rect_of(view, "relu")
        fingers.drag((empty, (empty[0] + 60, empty[1] - 40)))
        view.settle()
        after = rect_of(view, "relu")
        assert abs(after["x"] - before["x"] - 60) <= 12  # the first of it says that it is a drag
        assert abs(after["y"] - before["y"] + 40) <= 12

        # Two move it apart: what was between them stays there.
        before, middle = after, (after["x"] + after["w"] / 2, after["y"] + after["h"] / 2)
        near, far = 60, 120
        fingers.drag(
            ((middle[0] - near, empty[1]), (middle[0] - far, empty[1])),
            ((middle[0] + near, empty[1]), (middle[0] + far, empty[1])),
        )
        view.settle()
        after = rect_of(view, "relu")
        assert 1.5 < after["w"] / before["w"] < 2.1
        assert abs(after["x"] + after["w"] / 2 - middle[0]) < 12
        shared.shot("platform-touch-pinched")

        # A tap selects, and says nothing of what it was over before.
        hand.press("f")
        view.settle()
        at = rect_of(view, "relu")
        fingers.tap(at["x"] + at["w"] / 2, at["y"] + at["h"] / 2)
        view.settle()
        assert view.read("view.selection") == [
            next(n["id"] for n in view.nodes() if n["label"] == "relu")
        ]
        assert not hand.root.get_by_role("tooltip").is_visible()

        # From a port of what is selected an edge is dragged: to the missing side of the draft.
        draft = next(n for n in view.nodes() if n["label"] == "matmul" and n["id"] != "n0")["rect"]
        at = rect_of(view, "input1")
        fingers.tap(at["x"] + at["w"] / 2, at["y"] + at["h"] / 2)
        view.settle()
        at = rect_of(view, "input1")
        start = at["x"] + at["w"] / 2 + 9, at["y"] + at["h"] + 9  # a finger aims less well
        fingers.drag((start, (draft["x"] + draft["w"] * 0.62, draft["y"] + 3)))
        hand.said("is whole")
        view.settle()
        shared.shot("platform-touch-connected")

        # A box is drawn with a finger after its button.
        hand.root.get_by_role("button", name="Select with a box").click()
        first, last = rect_of(view, "relu"), rect_of(view, "softmax")
        left = min(first["x"], last["x"]) - 6
        right = max(first["x"] + first["w"], last["x"] + last["w"]) + 6
        fingers.drag(((right, first["y"] + 4), (left, last["y"] + last["h"] + 4)))
        view.settle()
        shared.shot("platform-touch-box")
        chosen = view.read("view.selection")
        names = {n["id"]: n["label"] for n in view.nodes()}
        assert {names[one] for one in chosen} >= {"relu", "softmax"}


# ---------------------------------------------------------------- forced colours, less motion
# How much of a frame around an item of the drawing is drawn on, and in which colours.
RING = """([label, isOverlay]) => {
  const view = window.__maxlabTest.graphViews.find(v => v.element.getClientRects().length > 0);
  const item = view.scene.items.find(one => one.label === label);
  const { k, tx, ty } = view.stage.camera;
  const [scene, overlay] = view.element.querySelectorAll('.jp-MaxLab-stage > canvas');
  const canvas = isOverlay ? overlay : scene;
  const dpr = canvas.width / canvas.clientWidth;
  const context = canvas.getContext('2d');
  const x = (item.x + item.w / 5) * k + tx, y = item.y * k + ty;
  // Across the upper border of the item, from well outside of it to inside.
  const { data } = context.getImageData(x * dpr, (y - 8) * dpr, 1, 12 * dpr);
  const colors = new Set();
  for (let n = 0; n < data.length; n += 4) {
    colors.add(data[n + 3] < 128 ? 'none' : `${data[n]},${data[n + 1]},${data[n + 2]}`);
  }
  return [...colors];
}"""


def test_marks_are_lines_in_forced_colours_and_nothing_glides(
    shared: LabPage, server: LabServer
) -> None:
    page = shared.page
    hand, view = opened(shared, server, "forced")
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    try:
        view.settle()
        hand.item("relu").focus()
        hand.press("Enter")
        view.settle()
        page.wait_for_timeout(200)
        # What is selected has a ring, which others have not; the keyboard's place has another.
        chosen = set(page.evaluate(RING, ["relu", True])) - {"none"}
        assert chosen
        assert set(page.evaluate(RING, ["softmax", True])) <= {"none"}
        # A draft has a border that is drawn otherwise, and says so in words.
        assert hand.root.get_by_role("treeitem").filter(has_text="draft: rhs is missing").count()
        shared.shot("platform-forced")
        # Edges and borders are drawn in colours that the page is not.
        scene = page.evaluate(RING, ["relu", False])
        assert len(set(scene)) > 1
        # The ring of the keyboard on a button is a line of the system.
        hand.strip.get_by_role("combobox").focus()
        hand.press("ArrowRight")
        style: dict[str, str] = page.evaluate(
            """() => {
                const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
                return { outlineStyle, outlineWidth };
            }"""
        )
        assert style["outlineStyle"] != "none"
        assert float(style["outlineWidth"].removesuffix("px")) >= 1

        # Without motion the camera and the drawing are where they go in the next frame.
        moving: list[bool] = page.evaluate(
            """async () => {
                const view = window.__maxlabTest.graphViews.find(
                    v => v.element.getClientRects().length > 0);
                const seen = [];
                for (const command of ['fit', 'zoom-in', 'zoom-out', 'actual-size', 'fit']) {
                    view.execute(command);
                    seen.push(view.stage.isMoving);
                }
                view.setDirection('right');
                await view.layoutDone();
                seen.push(view.stage.isMoving);
                view.setDirection('down');
                await view.layoutDone();
                return seen;
            }"""
        )
        assert not any(moving)
        gliding: list[str] = page.evaluate(
            """() => [...document.querySelectorAll('.jp-MaxLab-view, .jp-MaxLab-view *')]
                .filter(one => {
                    const { transitionDuration, animationName } = getComputedStyle(one);
                    return parseFloat(transitionDuration) > 0 || animationName !== 'none';
                }).map(one => one.className)"""
        )
        assert gliding == []
    finally:
        page.emulate_media(forced_colors="none", reduced_motion="no-preference")


# ---------------------------------------------------------------- cards
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_cards_are_read_and_lie_within_the_drawing(
    shared: LabPage, server: LabServer, theme: str
) -> None:
    shared.set_theme(theme)
    shared.page.set_viewport_size({"width": 900, "height": 900})
    hand, view = opened(shared, server, f"cards-{theme}")
    note = hand.root.get_by_role("note", name="Comment on relu: try <b>gelu</b> here")
    note.wait_for()
    hand.item("relu").focus()
    hand.press("x")
    hand.form.wait_for()
    hand.press("Enter")
    hand.said("ran; it gives")
    card = hand.root.get_by_role("region", name="What the run gave")
    text = card.inner_text()
    for part in ("output0", "output1", "float32[", "random, seed 0"):
        assert part in text, part
    hand.item("relu").focus()
    hand.press("f")
    view.settle()
    shared.page.wait_for_timeout(250)
    shared.shot(f"platform-cards-{theme}")
    box, stage = card.bounding_box(), hand.root.locator(".jp-MaxLab-stage").bounding_box()
    assert box is not None
    assert stage is not None
    assert stage["x"] <= box["x"]
    assert box["x"] + box["width"] <= stage["x"] + stage["width"] + 1
    assert box["y"] + box["height"] <= stage["y"] + stage["height"] + 1
    beside = note.bounding_box()
    assert beside is not None
    for node in view.nodes():
        rect = node["rect"]
        apart = (
            beside["x"] + beside["width"] <= rect["x"] + 1
            or rect["x"] + rect["w"] <= beside["x"] + 1
            or beside["y"] + beside["height"] <= rect["y"] + 1
            or rect["y"] + rect["h"] <= beside["y"] + 1
        )
        assert apart, f"the comment covers {node['label']}"
    assert shared.barriers(".jp-MaxLab-comments") == []
    assert shared.barriers(".jp-MaxLab-ran") == []
    # Keys reach a comment, and Escape the card.
    note.focus()
    hand.press("Enter")
    field = hand.root.get_by_role("textbox", name="Comment on relu")
    field.wait_for()
    hand.press("Escape")
    hand.item("relu").focus()
    hand.press("Escape")
    card.wait_for(state="hidden")
    shared.set_theme("light")


# ---------------------------------------------------------------- pictures
def spots(view: GraphView) -> dict[str, tuple[float, float]]:
    """Where items and comments are, from the operation relu, in the units of the drawing."""
    scale = float(view.read("view.zoom"))
    origin = rect_of(view, "relu")
    return {
        node["label"]: (
            (node["rect"]["x"] - origin["x"]) / scale,
            (node["rect"]["y"] - origin["y"]) / scale,
        )
        for node in view.nodes()
    }


def test_pictures_and_pages_have_places_pins_and_comments(
    shared: LabPage, server: LabServer, tmp_path: Path
) -> None:
    hand, view = opened(shared, server, "pictured")
    seen = spots(view)
    page = shared.page
    hand.item("relu").focus()
    with page.expect_download() as download:
        shared.execute("maxlab:export-svg")
    text = download.value.path().read_text("utf-8")
    root = ET.fromstring(text)
    words = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "try <b>gelu</b> here" in words
    assert "both are read by the head" in words
    # The pin is three rounds on the corner of exp, in the colour of what is chosen.
    named = {one.text: one for one in root.iter("{http://www.w3.org/2000/svg}text")}
    exp, relu = named["exp"], named["relu"]
    across = float(exp.attrib["x"]) - float(relu.attrib["x"])
    wide = {label: rect_of(view, label)["w"] / float(view.read("view.zoom")) for label in seen}
    middle = {label: seen[label][0] + wide[label] / 2 for label in seen}
    assert abs(across - (middle["exp"] - middle["relu"])) < 2
    down = float(exp.attrib["y"]) - float(relu.attrib["y"])
    assert abs(down - seen["exp"][1]) < 2
    with page.expect_download() as download:
        shared.execute("maxlab:export-png")
    picture = download.value.path()
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    (tmp_path / "pictured.svg").write_text(text, "utf-8")
    other = shared.context.new_page()
    try:
        other.goto((tmp_path / "pictured.svg").as_uri())
        other.screenshot(path=SHOTS / "platform-export-svg.png")
        # A page of its own shows the document as the canvas does.
        graph = maxlab.open(server.root / "pictured.mlgraph")
        assert isinstance(graph, Graph)
        target = graph.to_html(tmp_path / "pictured.html")
        other.goto(Path(target).as_uri())
        other.get_by_role("note", name="Comment on relu: try <b>gelu</b> here").wait_for()
        other.wait_for_function("() => window.__maxlabTest.views[0].nodes().length > 0")
        alone = GraphView(LabPage(server, other, shared.context), 0)
        alone.settle()
        there = spots(alone)
        assert seen.keys() == there.keys()
        for label, (x, y) in seen.items():
            assert abs(there[label][0] - x) < 2, label
            assert abs(there[label][1] - y) < 2, label
        pinned: list[str] = other.evaluate(
            "() => window.__maxlabTest.graphViews[0].stage.marks.pinned.map(one => one.label)"
        )
        assert pinned == ["exp"]
        other.screenshot(path=SHOTS / "platform-export-html.png")
    finally:
        other.close()
