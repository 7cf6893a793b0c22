"""The dashboard beside a notebook: who holds what, which cell ran when, and charts that stand where
the user puts them; on a machine without a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Position

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer
from tests.browser.test_dashboard import LEGIBLE, START, View

pytestmark = pytest.mark.browser

FIRST_LINE = (
    "# a model to watch, of which the first line is longer than what is beside a chart's title"
)

MODEL = f"""
{FIRST_LINE}
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
with Graph("watched", input_types=[TensorType(DType.float32, ["n", 512])]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.softmax(ops.gelu(x @ ops.constant(np.eye(512, dtype=np.float32)))))
model = engine.InferenceSession().load(graph)
profile = model.profile(np.ones((256, 512), np.float32))
"""

NAME = "watched.ipynb"


@pytest.fixture(scope="module")
def recorded(browser: Browser, server: LabServer) -> Iterator[LabPage]:
    """JupyterLab with a notebook whose model ran while a monitor recorded, and its dashboard."""
    lab = LabPage.open(browser, server)
    lab.page.set_viewport_size({"width": 1440, "height": 1800})
    lab.open_notebook(write_notebook(server.root, NAME, []))
    lab.run_code(START)
    lab.run_code(MODEL)
    lab.run_code("maxlab.dashboard()")
    View(lab).wait("view.samples > 12")
    yield lab
    lab.run_code("monitor.stop()")
    lab.close()
    server.shut_down_kernels()


@pytest.fixture
def lab(recorded: LabPage, server: LabServer) -> Iterator[LabPage]:
    """That notebook in front, and its dashboard in sight."""
    recorded.errors.clear()
    recorded.open_notebook(NAME)
    recorded.page.evaluate(
        "() => document.querySelector('.jp-Notebook .jp-MaxLab-dash')?.scrollIntoView()"
    )
    yield recorded
    assert recorded.faults() == []


def kernel_pid(lab: LabPage) -> int:
    """The number of the notebook's kernel."""
    outputs: list[dict[str, Any]] = lab.run_code("import os\nos.getpid()")
    return int(outputs[0]["data"]["text/plain"])


def table_of(lab: LabPage) -> Locator:
    """The card that lists processes."""
    card = lab.page.locator(".jp-Notebook .jp-MaxLab-dash [data-quantity=processes]")
    card.wait_for(timeout=20_000)
    return card


def test_processes_say_what_they_hold_and_whose_they_are(lab: LabPage) -> None:
    pid = kernel_pid(lab)
    card = table_of(lab)
    heads = [text.strip() for text in card.locator("th:visible").all_inner_texts()]
    assert heads == ["process", "pid", "notebook", "CPU", "memory"]
    row = card.locator(f"tr[data-pid='{pid}']")
    row.wait_for()
    cells = row.locator("td").all_inner_texts()
    assert cells[2].strip() == NAME
    assert re.fullmatch(r"[\d.]+ %", cells[3].strip())
    assert re.fullmatch(r"[\d.]+ [KMG]iB", cells[4].strip())
    lab.shot("dashboard-processes")

    # Sorted by what is asked for, either way.
    for _ in range(2):
        card.get_by_role("button", name="pid").click()
        order = card.locator("th", has_text="pid").get_attribute("aria-sort")
        pids = [int(text) for text in card.locator("tbody td:nth-child(2)").all_inner_texts()]
        assert len(pids) > 1
        assert pids == sorted(pids, reverse=order == "descending")
    # Chosen once, it stays while samples come.
    View(lab).wait("view.samples > 20")
    assert card.locator("th", has_text="pid").get_attribute("aria-sort") == order


def test_disk_and_network_have_charts(lab: LabPage) -> None:
    charts = View(lab).charts()
    assert {"Disk", "Network"} <= set(charts)
    assert re.search(r"read [\d.]+ \w*B/s, written [\d.]+ \w*B/s", charts["Disk"])
    assert re.search(r"received [\d.]+ \w*B/s, sent [\d.]+ \w*B/s", charts["Network"])


def place_of(view: View, lanes: Locator, time: float) -> Position:
    """Where a time is drawn, in the element: it is not known where in the page that will rest."""
    shown = view.read("view.shown")
    at = (time - shown["start"]) / (shown["end"] - shown["start"])
    assert 0 < at < 1
    return {"x": at * lanes.evaluate("lanes => lanes.clientWidth"), "y": 8}


def zoom_to(lab: LabPage, view: View, lanes: Locator, start: float, took: float) -> None:
    """Zoom with the wheel until what took so long is a fourth of what is shown at least: of a
    recording of minutes, a cell can be so narrow that a pointer is on those beside it too."""
    lab.page.keyboard.down("Control")
    while (shown := view.read("view.shown.end - view.shown.start")) > 4 * took:
        # A pixel is longer than the cell at first: what is pointed at is aimed at anew each time.
        lanes.hover(position=place_of(view, lanes, start + took / 2))
        lab.page.mouse.wheel(0, -120)
        view.wait(f"view.shown.end - view.shown.start < {shown}")
    lab.page.keyboard.up("Control")


def test_a_mark_says_which_line_ran_and_shows_its_cell(lab: LabPage) -> None:
    view = View(lab)
    # Kernels that ended, such as those of other tests, have marks of the same names.
    own = f"view.marks.filter(mark => mark.pid === {kernel_pid(lab)})"
    # What is written of a cell comes with a later sample than its end.
    view.wait(f"{own}.some(mark => mark.name === 'In [2]' && mark.took !== null)")
    view.wait(f"['phase', 'op'].every(kind => {own}.some(mark => mark.kind === kind))")
    marks = view.read(own)
    cell = next(mark for mark in marks if mark["kind"] == "cell" and mark["name"] == "In [2]")
    assert cell["line"].startswith("# a model to watch")
    assert FIRST_LINE.startswith(cell["line"].rstrip("…"))
    # What the compiler and the model did in it: phases, and ops of the run that was timed.
    within = [
        mark for mark in marks if cell["start"] <= mark["start"] < cell["start"] + cell["took"]
    ]
    assert {"phase", "op"} <= {mark["kind"] for mark in within}
    # Held still: the window goes with the time, and what is pointed at with it.
    view.element.get_by_text("Pause", exact=True).click()
    view.element.get_by_text("Live", exact=True).wait_for()
    lanes = view.element.locator("[data-quantity=activity] .u-over")
    zoom_to(lab, view, lanes, cell["start"], cell["took"])
    place = place_of(view, lanes, cell["start"] + cell["took"] / 2)
    tops = "plots => plots.map(plot => Math.round(plot.getBoundingClientRect().top))"
    before = view.element.locator(".jp-MaxLab-plot").evaluate_all(tops)
    lanes.hover(position=place)
    words = view.element.locator("[data-quantity=activity] .jp-MaxLab-dashTime")
    words.filter(has_text="In [2]").wait_for()
    assert "# a model to watch" in words.inner_text()
    # What is read off moves no chart: the pointer would no longer be on it.
    assert view.element.locator(".jp-MaxLab-plot").evaluate_all(tops) == before
    # A readout that once was long keeps its room when it is short again. A sample may write over
    # it before it is drawn: then once more.
    grown = view.element.locator(".jp-MaxLab-plot").evaluate_all(
        """async (plots, before) => {
            const tops = () => plots.map(plot => Math.round(plot.getBoundingClientRect().top));
            const frame = () => new Promise(done => requestAnimationFrame(done));
            const card = document.querySelector('.jp-Notebook [data-quantity=disk]');
            while (JSON.stringify(tops()) === before) {
                for (const cell of card.querySelectorAll('b')) {
                    cell.textContent = 'longer than a rate is '.repeat(4);
                }
                await frame();
                await frame();
            }
            return tops();
        }""",
        json.dumps(before, separators=(",", ":")),
    )
    lanes.hover(position={"x": place["x"] - 1, "y": 8})
    view.element.locator("[data-quantity=disk] b", has_text="longer").first.wait_for(
        state="detached"
    )
    assert view.element.locator(".jp-MaxLab-plot").evaluate_all(tops) == grown
    lab.shot("dashboard-marks")
    lanes.click(position=place)
    lab.page.wait_for_function(
        """() => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel
            .getSource().includes('# a model to watch')""",
        timeout=10_000,
    )
    view.element.get_by_text("Live", exact=True).click()


def test_the_status_bar_says_how_busy_the_machine_is(lab: LabPage) -> None:
    item = lab.page.locator("#jp-main-statusbar .jp-MaxLab-status")
    item.wait_for(timeout=15_000)
    lab.page.wait_for_function(
        """() => /CPU \\d+ %.*memory \\d/.test(
            document.querySelector('.jp-MaxLab-status').textContent)"""
    )
    assert item.evaluate("node => node.scrollWidth <= node.clientWidth")
    item.click()
    lab.page.locator("#jp-main-dock-panel .jp-MaxLab-mainTab .jp-MaxLab-dash").wait_for()
    lab.shot("dashboard-status")
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")


def test_a_chart_is_a_panel_that_comes_back(lab: LabPage, server: LabServer) -> None:
    page = lab.page
    lab.execute("maxlab:open-chart", {"chart": "cpu"})
    chart = page.locator("#jp-main-dock-panel .jp-MaxLab-chartPanel:visible")
    chart.locator(".u-over").wait_for()
    assert chart.locator(".jp-MaxLab-card").count() == 1
    lab.execute("maxlab:open-chart", {"chart": "network", "area": "right"})
    side = page.locator("#jp-right-stack .jp-MaxLab-chartPanel:visible")
    side.locator(".u-over").wait_for()
    labels = lab.find_in_palette("Diagnostics: ")
    assert any("CPU" in label for label in labels)
    assert any("Disk" in label for label in labels)
    page.keyboard.press("Escape")
    faint = [one for one in lab.contrast(".jp-MaxLab-chartPanel") if one[1] < LEGIBLE]
    assert faint == []
    lab.shot("dashboard-chart-panels")

    # A page that is loaded anew has them where they were.
    lab.execute("docmanager:save")
    page.wait_for_timeout(1500)  # the layout is saved a moment after it has changed
    page.goto(f"{server.url}/lab")
    page.wait_for_function("() => window.jupyterapp")
    page.evaluate("async () => { await window.jupyterapp.restored; }")
    page.locator("#jp-main-dock-panel .jp-MaxLab-chartPanel .u-over").wait_for()
    side.locator(".u-over").wait_for()
    # What is closed is gone, and comes again when it is asked for.
    page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="CPU").locator(
        ".lm-TabBar-tabCloseIcon"
    ).click()
    page.locator("#jp-main-dock-panel .jp-MaxLab-chartPanel").wait_for(state="detached")
    lab.execute("maxlab:open-chart", {"chart": "cpu"})
    page.locator("#jp-main-dock-panel .jp-MaxLab-chartPanel .u-over").wait_for()
    lab.execute("maxlab:close-charts")
    assert page.locator(".jp-MaxLab-chartPanel").count() == 0
    # A cell that is run before the notebook has found its kernel again starts another one.
    lab.open_notebook(NAME)
