"""Graphs saved in a notebook are drawn and can be explored with no kernel that knows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.browser.documents import GRAPH_MIME, WIDGET_MIME, encoder, packed
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser


def write_notebook(folder: Path, name: str, outputs: list[dict[str, Any]]) -> str:
    """The name of a new notebook with one cell that has these MIME bundles as outputs."""
    kind = {"output_type": "execute_result", "execution_count": 1, "metadata": {}}
    cell = {
        "cell_type": "code",
        "id": "graph",
        "source": "graph",
        "execution_count": 1,
        "metadata": {},
        "outputs": [{**kind, "data": data} for data in outputs],
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": [cell]}
    (folder / name).write_text(json.dumps(book))
    return name


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
    view.expand("encoder")
    assert [node["count"] for node in view.nodes() if node["label"].startswith("layers")] == [6]
    lab.shot(f"saved-folded-{theme}")
    assert lab.errors == []


def test_a_trusted_output_whose_widget_is_gone(lab: LabPage, server: LabServer, theme: str) -> None:
    lab.open_notebook(write_notebook(server.root, f"gone-{theme}.ipynb", []))
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


def test_a_live_widget_keeps_its_place(lab: LabPage, server: LabServer, theme: str) -> None:
    lab.open_notebook(write_notebook(server.root, f"live-{theme}.ipynb", []))
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


def test_what_cannot_be_read_says_why(lab: LabPage, server: LabServer, theme: str) -> None:
    outputs = [
        {GRAPH_MIME: {"encoding": "zip", "data": ""}, "text/plain": "a"},
        {GRAPH_MIME: {"format": "maxlab.graph", "version": 99}, "text/plain": "b"},
    ]
    lab.open_notebook(write_notebook(server.root, f"broken-{theme}.ipynb", outputs))
    words = lab.page.locator(".jp-Notebook:visible")
    words.get_by_text("deflate+base64").wait_for()
    words.get_by_text("version 1 of the document").first.wait_for()
    lab.shot(f"broken-{theme}")
