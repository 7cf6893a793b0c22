"""Finding operations by a query, pictures in files and overlays of one's own, in a notebook."""

from __future__ import annotations

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import numpy as np
from maxlab import engine, nn
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

CPU = DeviceRef.CPU()

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def __call__(self, x):
        w = ops.constant(np.full((64, self.width), 0.1, np.float32), DType.float32, CPU)
        return ops.relu(x @ w)

class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(64), Layer(32)

    def __call__(self, x):
        return self.second(self.first(x))

with Graph("queried", input_types=[TensorType(DType.float32, ["rows", 64], device=CPU)]) as graph:
    graph.output(Both()(graph.inputs[0].tensor))
model = engine.InferenceSession().load(graph)
profile = model.profile(np.ones((8, 64), np.float32))
profile
"""

SEARCH = ".jp-MaxLab-view:visible .jp-MaxLab-searchInput"
COUNT = ".jp-MaxLab-view:visible .jp-MaxLab-searchCount"
FOUND = ".jp-MaxLab-view:visible .jp-MaxLab-found"


@pytest.fixture(scope="module")
def opened(shared_page: LabPage, server: LabServer) -> GraphView:
    """The view of the profile, in a notebook."""
    shared_page.open_notebook(write_notebook(server.root, "query.ipynb", []))
    shared_page.run_code(BUILD)
    return shared_page.view()


def ask(shared: LabPage, query: str) -> None:
    """Type ``query`` into the search of the view."""
    box = shared.page.locator(SEARCH)
    box.click()
    box.fill("")
    shared.page.keyboard.type(query)


def test_a_query_finds_by_fields(shared: LabPage, opened: GraphView) -> None:
    count = shared.page.locator(COUNT)
    ask(shared, "op=matmul & in(second)")
    assert count.inner_text() == "1"
    ask(shared, "op=/mat|rel/ & !in(second) & rank=2")
    assert count.inner_text() == "2"


def test_source_is_searched_when_asked(shared: LabPage, opened: GraphView) -> None:
    ask(shared, "np.full")
    assert shared.page.locator(COUNT).inner_text() == "none"
    ask(shared, 'source:"relu(x @ w)" & op=relu')
    assert shared.page.locator(COUNT).inner_text() == "2"


def test_results_are_a_list_that_selects(shared: LabPage, opened: GraphView) -> None:
    ask(shared, "op=relu")
    rows = shared.page.locator(f"{FOUND} [role=row][data-key]")
    assert rows.count() == 2
    shared.page.keyboard.press("ArrowDown")
    shared.page.keyboard.press("Enter")
    opened.settle()
    assert len(opened.read("view.selection")) == 1
