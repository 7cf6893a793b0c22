"""Finding operations by a query, pictures in files and overlays of one's own, in a notebook."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from xml.etree import ElementTree as ET

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


def pasted(shared: LabPage) -> list[list[str]]:
    """What the clipboard holds, as the rows of a table."""
    text: str = shared.page.evaluate("() => navigator.clipboard.readText()")
    return list(csv.reader(io.StringIO(text, newline="")))


def test_tables_are_copied(shared: LabPage, opened: GraphView) -> None:
    shared.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(shared, "op=matmul")
    shared.page.keyboard.press("Control+c")
    heads, *rows = pasted(shared)
    assert heads == ["id", "Operation", "Scope", "Shape", "Time [ns]", "estimated by"]
    assert [row[1] for row in rows] == ["matmul", "matmul"]
    assert all(float(row[4]) > 0 for row in rows)
    found = shared.page.locator(FOUND)
    found.get_by_role("button", name="Copy as CSV").click()
    found.get_by_text("Copied").wait_for()
    shared.shot("query-copied")
    opened.execute("leave-search")

    opened.execute("panel-compile")
    table = shared.page.locator(".jp-MaxLab-view:visible table[aria-label='Units of the compiler']")
    table.wait_for()
    name = table.locator("tbody th button").first
    name.focus()
    shared.page.keyboard.press("Control+c")
    heads, *rows = pasted(shared)
    assert heads == ["unit", "kernels", "result", "why", "time [ms]", "lines"]
    assert rows[0][0] == name.inner_text()
    assert float(rows[0][4]) >= 0
    shared.shot("compile-table")
    # Text that is marked is what is copied.
    cell = table.locator("tbody td").first
    cell.evaluate("cell => getSelection().selectAllChildren(cell)")
    shared.page.keyboard.press("Control+c")
    assert pasted(shared) == [[cell.inner_text()]]
    cell.evaluate("() => getSelection().removeAllRanges()")


SVG = "{http://www.w3.org/2000/svg}"


def saved(shared: LabPage, command: str, path: Path) -> Path:
    """What ``command`` hands to the browser's downloads."""
    with shared.page.expect_download() as download:
        shared.execute(command)
    download.value.save_as(path / download.value.suggested_filename)
    return path / download.value.suggested_filename


def test_pictures_of_a_graph_are_saved(shared: LabPage, opened: GraphView, tmp_path: Path) -> None:
    opened.execute("leave-search")
    svg = saved(shared, "maxlab:export-svg", tmp_path)
    assert svg.name == "queried.svg"
    picture = ET.fromstring(svg.read_text("utf-8"))
    texts = ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]
    assert {"matmul", "relu", "first", "second"} <= set(texts)
    assert any("f32[rows, 64]" in text for text in texts)
    # What the colours mean stands below, as in the view.
    assert any(text.startswith("kernel time · ") for text in texts)
    assert {"10%", "100%"} <= set(texts)
    assert not [node for node in picture.iter() if "href" in str(node.attrib)]
    # A browser draws it with no fault, in the size that it says.
    shared.page.evaluate(
        """async text => {
            const image = new Image();
            image.src = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }));
            await image.decode();
            if (image.naturalWidth < 100) throw new Error(`${image.naturalWidth} pixels`);
        }""",
        svg.read_text("utf-8"),
    )
    part = saved(shared, "maxlab:export-svg-view", tmp_path)
    stage = shared.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-stage").bounding_box()
    assert stage is not None
    width = ET.fromstring(part.read_text("utf-8")).get("width", "")
    assert abs(float(width) - stage["width"]) <= 1
    png = saved(shared, "maxlab:export-png", tmp_path).read_bytes()
    assert png.startswith(b"\x89PNG")
