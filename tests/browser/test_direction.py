"""A graph that runs from left to right: its keys, folds and pictures; a reload keeps it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.browser.documents import GRAPH_MIME, encoder, packed, write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser


def rects(view: GraphView) -> dict[str, dict[str, Any]]:
    """Where each item is on the page, by its label; of equal labels the first."""
    found: dict[str, dict[str, Any]] = {}
    for node in view.nodes():
        found.setdefault(node["label"], node["rect"])
    return found


def test_left_to_right_is_kept(shared: LabPage, server: LabServer) -> None:
    saved = {GRAPH_MIME: packed(encoder(3, "turned")), "text/plain": "graph turned"}
    shared.open_notebook(write_notebook(server.root, "direction.ipynb", [saved]))
    view = shared.view()
    shared.execute("maxlab:unfold-all")
    view.settle()
    place = rects(view)
    assert place["layer_norm"]["y"] < place["matmul"]["y"] < place["gelu"]["y"]

    shared.execute("maxlab:toggle-direction")
    view.settle()
    place = rects(view)
    assert place["layer_norm"]["x"] < place["matmul"]["x"] < place["gelu"]["x"]
    assert abs(place["layer_norm"]["y"] - place["gelu"]["y"]) < place["gelu"]["h"]
    assert shared.page.evaluate(
        "() => window.jupyterapp.commands.isToggled('maxlab:toggle-direction')"
    )

    # Arrow keys go where they point: to the reader on the right, to the producer on the left.
    view.execute("focus-graph")
    view.click("n2")
    view.execute("go-right")
    view.settle()
    assert view.read("view.selection") == ["n3"]
    shared.page.keyboard.press("ArrowLeft")
    view.settle()
    assert view.read("view.selection") == ["n2"]

    # What folds stays on the same way.
    shared.execute("maxlab:fold-all")
    view.settle()
    assert "gelu" not in view.labels()
    shared.execute("maxlab:unfold-all")
    view.settle()
    assert rects(view)["matmul"]["x"] < rects(view)["gelu"]["x"]

    with shared.page.expect_download() as download:
        shared.execute("maxlab:export-svg")
    picture = ET.fromstring(download.value.path().read_text("utf-8"))
    assert float(picture.attrib["width"]) > 2 * float(picture.attrib["height"])
    shared.shot("left-to-right")

    shared.page.reload()
    shared.page.locator(".jp-MaxLab-canvas").first.wait_for()
    view = shared.view()
    view.settle()
    shared.execute("maxlab:unfold-all")
    view.settle()
    assert rects(view)["matmul"]["x"] < rects(view)["gelu"]["x"]
    shared.execute("maxlab:toggle-direction")
    view.settle()
    assert rects(view)["matmul"]["y"] < rects(view)["gelu"]["y"]
