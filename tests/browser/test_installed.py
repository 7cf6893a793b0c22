"""The wheel in a JupyterLab and in a Notebook 7 that were there before, outside of the checkout and
without Node; the source distribution too. Each environment takes minutes: ``--all`` runs these."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from safetensors.numpy import save_file

from tests.browser.documents import write_notebook
from tests.browser.page import THEMES, GraphView, LabPage
from tests.browser.server import LabServer, start_lab
from tests.packages import (
    IS_BUILT,
    NOT_BUILT,
    ROOT,
    Environment,
    files_of,
    make_sdist,
    make_wheel,
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not IS_BUILT, reason=NOT_BUILT),
]

BUILD = """
import maxlab
from maxlab.graph import Graph, TensorType, ops

with Graph("double", input_types=[TensorType(maxlab.float32, ["n"])]) as graph:
    graph.output(ops.gelu(graph.inputs[0].tensor * 2))
graph
"""

RUN = """
import shutil
import numpy as np
import maxlab
from maxlab.graph import Graph, TensorType, ops

assert shutil.which("node") is None
with Graph("double", input_types=[TensorType(maxlab.float32, ["n"])]) as graph:
    graph.output(ops.relu(graph.inputs[0].tensor * 2))
(y,) = maxlab.engine.InferenceSession().load(graph)(np.array([-1, 1, 3], np.float32))
print(maxlab.__file__, y.to_numpy().tolist(), len(graph.to_html()) > 100_000)
"""

# Of Notebook's own, which has it without maxlab too: it asks for the settings of a plugin that it
# does not have.
NOTEBOOKS_OWN = "Cannot read properties of undefined (reading 'schema')"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout."""
    return make_wheel(tmp_path_factory.mktemp("wheel"))


@dataclass
class Place:
    """An environment in which a Jupyter was before the wheel came, and that Jupyter, running."""

    environment: Environment
    server: LabServer


def _place(wheel: Path, folder: Path, app: Literal["jupyterlab", "notebook"]) -> Iterator[Place]:
    environment = Environment(folder / "venv")
    environment.install(app)
    environment.install(str(wheel))
    root = folder / "root"
    root.mkdir()
    save_file({"w": np.ones((4, 5), np.float32)}, root / "weights.safetensors")
    shutil.copy(ROOT / "maxlab" / "lab" / "templates" / "mlp.mlgraph", root / "mlp.mlgraph")
    server = start_lab(root, folder, python=environment.python, app=app, programs=environment.path)
    yield Place(environment, server)
    server.stop()


@pytest.fixture(scope="module")
def lab_place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """JupyterLab."""
    yield from _place(wheel, tmp_path_factory.mktemp("lab"), "jupyterlab")


@pytest.fixture(scope="module")
def notebook_place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Notebook 7."""
    yield from _place(wheel, tmp_path_factory.mktemp("notebook"), "notebook")


@pytest.fixture
def notebook(browser: Browser, notebook_place: Place) -> Iterator[LabPage]:
    """A notebook in Notebook 7 that shows a graph."""
    server = notebook_place.server
    page = LabPage.at(browser, server, f"notebooks/{write_notebook(server.root, 'a.ipynb', [])}")
    page.allowed.append(NOTEBOOKS_OWN)
    page.wait_for_kernel()
    page.run_code(BUILD)
    page.view()
    yield page
    faults = page.faults()
    page.close()
    server.shut_down_kernels()
    assert faults == []


def work_with(page: LabPage, view: GraphView) -> None:
    """Select an operation, and profile the graph."""
    view.click("gelu")
    assert "activation" in view.inspector()
    view.execute("profile")
    view.wait_for(
        "view.nodes().some(node => node.label === 'gelu' && node.heat !== '')", timeout=120
    )


def test_a_graph_runs_without_node_and_without_the_checkout(lab_place: Place) -> None:
    where, *answer = lab_place.environment.run("-c", RUN).split(maxsplit=1)
    assert Path(where).is_relative_to(lab_place.environment.folder)
    assert answer == ["[0.0, 2.0, 6.0] True\n"]


def test_jupyterlab(browser: Browser, lab_place: Place) -> None:
    """A cell is run, its graph seen, an operation chosen and the graph profiled."""
    server = lab_place.server
    page = LabPage.open(browser, server)
    page.open_notebook(write_notebook(server.root, "a.ipynb", []))
    page.run_code(BUILD)
    work_with(page, page.view())
    page.shot("installed-jupyterlab")
    assert page.faults() == []
    page.close()


def test_notebook_runs_a_graph(notebook: LabPage) -> None:
    """Every plugin is active, a graph is seen, chosen from and profiled, as in JupyterLab."""
    assert [name for name, is_on in notebook.plugins("maxlab").items() if not is_on] == []
    work_with(notebook, notebook.view())
    notebook.shot("installed-notebook")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_notebook_at_900_px(notebook: LabPage, theme: str) -> None:
    """The view fits into the page."""
    notebook.execute("apputils:change-theme", {"theme": THEMES[theme]})
    notebook.page.wait_for_function(
        "(n) => document.body.dataset.jpThemeName === n", arg=THEMES[theme]
    )
    notebook.page.set_viewport_size({"width": 900, "height": 900})
    view = notebook.view()
    notebook.shot(f"installed-notebook-900-{theme}")
    box = notebook.page.locator(".jp-MaxLab-view").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 900
    assert len(view.labels()) == 4


def test_notebook_has_room_for_what_a_tab_of_jupyterlab_shows(notebook: LabPage) -> None:
    """Its main area has one document: diagnostics, panels and graphs stand below it."""
    page = notebook.page
    notebook.execute("maxlab:open-diagnostics")
    page.get_by_role("region", name="Diagnostics dashboard").wait_for()
    notebook.shot("installed-notebook-diagnostics")
    notebook.execute("maxlab:move-panel", {"panel": "timeline"})
    page.locator(".jp-MaxLab-panelTab:visible").wait_for()
    notebook.shot("installed-notebook-panel")
    notebook.execute("maxlab:open-chart", {"chart": "cpu"})
    page.locator(".jp-MaxLab-chartPanel:visible").wait_for()
    notebook.execute("maxlab:show-graphs")
    page.locator(".jp-MaxLab-graphs").get_by_text("graph", exact=True).first.click()
    page.locator(".jp-MaxLab-graphTab .jp-MaxLab-view:visible").wait_for()
    assert len(notebook.view(1).labels()) == 4
    notebook.shot("installed-notebook-graph")


def opened(tree: LabPage, name: str) -> Page:
    """The page that a double click on a file of the list opens."""
    with tree.context.expect_page() as found:
        tree.page.locator(".jp-DirListing-item", has_text=name).dblclick()
    return found.value


def test_files_open_from_the_list_of_notebook(browser: Browser, notebook_place: Place) -> None:
    """Each in a page of its own, with what JupyterLab opens it with."""
    server = notebook_place.server
    tree = LabPage.at(browser, server, "tree")
    tree.allowed.append(NOTEBOOKS_OWN)
    weights = opened(tree, "weights.safetensors")
    weights.get_by_role("button", name="w", exact=True).wait_for()
    graph = opened(tree, "mlp.mlgraph")
    graph.wait_for_function("() => window.__maxlabTest?.views[0]?.nodes().length > 0")
    graph.screenshot(
        path=tree.shot("installed-notebook-tree").with_name("installed-notebook-document.png")
    )
    with tree.context.expect_page() as found:
        tree.execute("maxlab:new-graph")
    found.value.get_by_role("button", name=re.compile("Add an input")).first.wait_for()
    assert tree.faults() == []
    tree.close()
    server.shut_down_kernels()


def test_the_source_distribution_needs_no_node(
    wheel: Path, lab_place: Place, tmp_path: Path
) -> None:
    """A wheel that pip builds of it, where there is no Node, holds what the checkout's holds."""
    sdist = make_sdist(tmp_path / "sdist")
    made = tmp_path / "wheel"
    lab_place.environment.run("-m", "pip", "wheel", "-q", "--no-deps", "-w", str(made), str(sdist))
    (again,) = made.glob("*.whl")
    assert files_of(again) == files_of(wheel)
    assert again.stat().st_size == pytest.approx(wheel.stat().st_size, rel=0.01)
    assert not os.path.exists(lab_place.environment.folder / "home" / "node_modules")
