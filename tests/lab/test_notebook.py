"""A notebook run by a real kernel: what its file holds afterwards, and how large it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from maxlab.lab.protocol import GRAPH_MIME, WIDGET_MIME
from maxlab.lab.snapshot import unpack

ROOT = Path(__file__).resolve().parents[2]

BUILD = """
import numpy as np
from tests.lab.graphs import layered, load, registry
graph = layered(6)
model = load(graph, weights_registry=registry())
"""
VIEWS = ["graph", "model", "model.profile(np.ones((2, 3, 16), np.float32), runs=2)"]
BOXES = """
import ipywidgets
from maxlab.lab import GraphView
left, right = GraphView(graph), GraphView(model)
link = ipywidgets.jslink((left, "selection"), (right, "selection"))
ipywidgets.HBox([left, right])
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, int]:
    """An executed notebook with ten views, and the bytes of its file with all widget state."""
    cells = [BUILD, *VIEWS, BOXES, *VIEWS, "graph", "model"]
    made = [nbformat.v4.new_code_cell(c.strip()) for c in cells]  # type: ignore[no-untyped-call]
    book = nbformat.v4.new_notebook(cells=made)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    )
    client.execute()
    path = tmp_path_factory.mktemp("notebook") / "views.ipynb"
    nbformat.write(book, path)  # type: ignore[no-untyped-call]
    return book, path.stat().st_size


def outputs(book: Any) -> list[dict[str, Any]]:
    """The displayed data of each cell."""
    return [o["data"] for c in book.cells for o in c["outputs"] if "data" in o]


def test_every_view_has_all_forms(notebook: tuple[Any, int]) -> None:
    shown = outputs(notebook[0])
    assert len(shown) == 9
    for data in shown:
        assert WIDGET_MIME in data
        assert "text/plain" in data
        if "HBox" not in data["text/plain"]:
            assert unpack(data[GRAPH_MIME])["name"] == "layered"


def test_models_have_their_c_and_profiles_their_times(notebook: tuple[Any, int]) -> None:
    _, model, profile, *_ = (unpack(d[GRAPH_MIME]) for d in outputs(notebook[0])[:3])
    assert all(k["source"] for k in model["kernels"])
    assert model["profile"] is None
    assert len(profile["profile"]["kernels"]) == len(profile["kernels"])


def test_places_are_cells_or_files(notebook: tuple[Any, int]) -> None:
    document = unpack(outputs(notebook[0])[0][GRAPH_MIME])
    assert {n["source"]["file"] for n in document["nodes"]} == {"tests/lab/graphs.py"}


def test_ten_views_are_a_small_file(notebook: tuple[Any, int]) -> None:
    book, size = notebook
    state = book.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    views = [s for s in state.values() if "_esm" in s["state"]]
    assert len(views) == 10
    assert size < 300_000, size


def test_a_notebook_whose_cells_take_long_is_executed_without_a_page() -> None:
    cell = """
import time
from maxlab.progress import working
with working("wait"):
    time.sleep(0.7)
"done"
"""
    made = nbformat.v4.new_code_cell(cell.strip())  # type: ignore[no-untyped-call]
    book = nbformat.v4.new_notebook(cells=[made])  # type: ignore[no-untyped-call]
    NotebookClient(
        book, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    assert outputs(book)[-1]["text/plain"] == "'done'"
