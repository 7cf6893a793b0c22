"""Graphs saved in a notebook are drawn and can be explored with no kernel that knows them."""

from __future__ import annotations

import json

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.documents import GRAPH_MIME, WIDGET_MIME, encoder, packed, write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser


def test_opens_with_a_kernel_that_never_saw_it(lab: LabPage, server: LabServer, theme: str) -> None:
    saved = {
        WIDGET_MIME: {"model_id": "0" * 32, "version_major": 2, "version_minor": 0},
        GRAPH_MIME: packed(encoder()),
        "text/html": "<b>not this</b>",
        "text/plain": "graph encoder",
    }
    lab.open_notebook(write_notebook(server.root, f"saved-{theme}.ipynb", [saved]))
    view = lab.view()
    lab.shot(f"saved-{theme}")
    view.execute("unfold-all")
    assert sum(node["label"] == "gelu" for node in view.nodes()) == 6
    view.execute("fold-all")
    assert "gelu" not in view.labels()
    if not any(node["count"] == 6 for node in view.nodes()):
        view.expand(next(node["id"] for node in view.nodes() if node["kind"] == "scope"))
    assert any(node["count"] == 6 for node in view.nodes()), view.nodes()
    lab.shot(f"saved-folded-{theme}")
    assert lab.errors == []


def test_a_trusted_output_whose_widget_is_gone(open_new: OpenLab, server: LabServer) -> None:
    lab = open_new("light")
    lab.open_notebook(write_notebook(server.root, "gone.ipynb", []))
    bundle = {
        WIDGET_MIME: {"model_id": "0" * 32, "version_major": 2, "version_minor": 0},
        GRAPH_MIME: packed(encoder(layers=2)),
        "text/plain": "graph encoder",
    }
    lab.run_code(
        "import IPython.display, json\n"
        f"IPython.display.display(json.loads({json.dumps(bundle)!r}), raw=True)"
    )
    view = lab.view()
    assert view.nodes()
    assert "model not found" not in lab.page.locator(".jp-Notebook").inner_text()


def test_a_live_widget_keeps_its_place(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    lab.open_notebook(write_notebook(server.root, "live.ipynb", []))
    lab.run_code(
        "import IPython.display, ipywidgets, json\n"
        "slider = ipywidgets.IntSlider(description='heads')\n"
        f"document = json.loads({json.dumps(encoder(layers=1))!r})\n"
        f"bundle = {{**slider._repr_mimebundle_(), {GRAPH_MIME!r}: document}}\n"
        "IPython.display.display(bundle, raw=True)"
    )
    lab.page.locator(".jupyter-widgets", has_text="heads").first.wait_for()
    lab.page.wait_for_timeout(800)
    assert lab.page.evaluate("() => window.__maxlabTest?.views.length ?? 0") == 0


def test_what_cannot_be_read_says_why(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("dark")
    outputs = [
        {GRAPH_MIME: {"encoding": "zip", "data": ""}, "text/plain": "a"},
        {GRAPH_MIME: {"format": "maxlab.graph", "version": 99}, "text/plain": "b"},
    ]
    lab.open_notebook(write_notebook(server.root, "broken.ipynb", outputs))
    lab.allowed += ["deflate+base64", "version 1 of the document"]
    words = lab.page.locator(".jp-Notebook:visible")
    words.get_by_text("deflate+base64").wait_for()
    words.get_by_text("version 1 of the document").first.wait_for()
    lab.shot("broken-dark")
