"""Narrow views: every tool and panel stays within reach, and nothing is cut."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import ipywidgets
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab import GraphView

with Graph("a network with a long name", input_types=[TensorType(DType.float32, [8, 64])]) as graph:
    x = graph.inputs[0].tensor
    eye = ops.constant(np.eye(64, dtype=np.float32), DType.float32)
    graph.output(ops.softmax(ops.relu(x @ eye)))
model = engine.InferenceSession().load(graph)
model.profile(np.ones((8, 64), np.float32))
room = ipywidgets.Box([GraphView(model)], layout=ipywidgets.Layout(width="1300px", display="block"))
room
"""

# What sticks out of the bar or the head of the panels, or is cut there, and what can be pressed.
LOOK = """() => {
  const root = document.querySelector('.jp-MaxLab-view');
  const cut = [], seen = [];
  for (const row of root.querySelectorAll('.jp-MaxLab-bar, .jp-MaxLab-dockHead')) {
    row.scrollIntoView({ block: 'center' });
    const room = row.getBoundingClientRect();
    for (const one of row.querySelectorAll('button, input')) {
      const box = one.getBoundingClientRect();
      if (box.width === 0) continue;
      const name = one.getAttribute('aria-label') ?? one.textContent;
      const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
      const top = document.elementFromPoint(x, y);
      if (box.left < room.left - 0.5 || box.right > room.right + 0.5 || !one.contains(top)) {
        cut.push(name);
      }
      seen.push(name);
    }
  }
  const legend = root.querySelector('.jp-MaxLab-legend');
  return { cut, seen, legend: legend.innerText };
}"""


def looked(lab: LabPage, width: int) -> dict[str, Any]:
    lab.page.evaluate(
        "async width => { document.querySelector('.jp-MaxLab-view').parentElement.style.width = "
        "`${width}px`; for (let n = 0; n < 4; n++) await new Promise(requestAnimationFrame); }",
        width,
    )
    lab.page.wait_for_timeout(150)
    found: dict[str, Any] = lab.page.evaluate(LOOK)
    return found


def test_every_tool_is_within_reach(shared: LabPage, server: LabServer) -> None:
    page = shared.page
    page.set_viewport_size({"width": 1800, "height": 1000})
    shared.open_notebook(write_notebook(server.root, "narrow.ipynb", []))
    shared.run_code(BUILD)
    view = shared.view()
    view.read("view.execute('panel-timeline')")
    root = page.locator(".jp-MaxLab-view")
    wide = looked(shared, 1300)
    assert wide["cut"] == []
    tools = {name.partition(":")[0] for name in wide["seen"]}
    assert not any(name.startswith("More") for name in tools)
    for width in (900, 640, 466, 420, 330):
        found = looked(shared, width)
        assert found["cut"] == [], width
        assert "kernel time" in found["legend"]
        assert "µs" in found["legend"]
        reached = {name.partition(":")[0] for name in found["seen"]}
        for more in root.get_by_role("button", name="More").all():
            more.press("Enter")
            menu = root.locator(".jp-MaxLab-menu")
            menu.wait_for()
            box = menu.bounding_box()
            room = root.bounding_box()
            assert box is not None
            assert room is not None
            assert box["x"] >= room["x"] - 0.5
            assert box["x"] + box["width"] <= room["x"] + room["width"] + 0.5
            reached |= {
                name.partition(":")[0]
                for name in menu.get_by_role("menuitem").evaluate_all(
                    "all => all.map(one => one.getAttribute('aria-label'))"
                )
            }
            page.keyboard.press("Escape")
            menu.wait_for(state="detached")
            assert more.evaluate("one => one === document.activeElement")
        assert tools <= reached, width
        shared.shot(f"narrow-{width}")
    # what stands in a menu works from there, by keyboard alone
    looked(shared, 420)
    more = root.get_by_role("button", name="More panels")
    more.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_function("() => window.__maxlabTest.graphViews[0].dock.current !== 'timeline'")
    found = looked(shared, 420)
    current = page.evaluate("() => window.__maxlabTest.graphViews[0].dock.current")
    tab = root.locator(f"[data-panel={current}]")
    assert tab.is_visible()
    assert tab.get_attribute("aria-selected") == "true"
    assert found["cut"] == []
    assert shared.barriers(".jp-MaxLab-view") == []
    page.set_viewport_size({"width": 1440, "height": 900})


def test_twice_as_large(shared: LabPage, server: LabServer) -> None:
    """At 200 %, a window of 1440 x 900 pixels has 720 x 450."""
    page = shared.page
    page.set_viewport_size({"width": 720, "height": 450})
    shared.open_notebook(write_notebook(server.root, "large.ipynb", []))
    before = page.evaluate("() => window.__maxlabTest.views.length")
    shared.run_code(BUILD.replace("1300px", "100%"))
    shared.view(before).read("view.execute('panel-memory')")
    front = "'.jp-NotebookPanel:not(.lm-mod-hidden) .jp-MaxLab-view'"
    found = page.evaluate(LOOK.replace("'.jp-MaxLab-view'", front))
    shared.shot("twice-as-large")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert found["cut"] == []
    assert "More panels" in found["seen"]
