"""The look of everything where contrast counts most: forced colours and high-contrast themes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

# The product takes many times the time of the kernel of the other three on any machine.
BUILD = """
import numpy as np
from maxlab import engine, nn
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

CPU = DeviceRef.CPU()

class Layer(nn.Module):
    def __call__(self, x):
        w = ops.constant(np.full((64, 2048), 0.1, np.float32), DType.float32, CPU)
        return ops.softmax(ops.relu(x) * 2) @ w

with Graph("looked", input_types=[TensorType(DType.float32, ["rows", 64], device=CPU)]) as graph:
    graph.output(Layer()(graph.inputs[0].tensor))
model = engine.InferenceSession().load(graph)
profile = model.profile(np.ones((512, 64), np.float32))
profile
"""

# The colours that can be seen of each kind of mark, and whether they are told from what is around.
LOOK = """() => {
  const root = document.querySelector('.jp-MaxLab-view');
  const seen = (selector) => {
    const one = root.querySelector(selector);
    if (!one) return null;
    const style = getComputedStyle(one);
    return { background: style.backgroundColor, image: style.backgroundImage, color: style.color,
             adjust: style.forcedColorAdjust };
  };
  const probe = document.createElement('span');
  root.append(probe);
  const system = (name) => { probe.style.color = name; return getComputedStyle(probe).color; };
  const colors = Object.fromEntries(
    ['Canvas', 'CanvasText', 'Highlight', 'HighlightText'].map(name => [name, system(name)]));
  probe.remove();
  const canvas = root.querySelector('.jp-MaxLab-canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const counts = new Map();
  for (let n = 0; n < data.length; n += 4) {
    const key = `rgb(${data[n]}, ${data[n + 1]}, ${data[n + 2]})`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const { ramp, rampText } = window.__maxlabTest.graphViews[0].theme;
  return {
    system: colors,
    isStrong: root.classList.contains('jp-mod-strong'),
    page: counts.get(window.__maxlabTest.graphViews[0].theme.background) ?? 0,
    text: counts.get(window.__maxlabTest.graphViews[0].theme.text) ?? 0,
    theme: window.__maxlabTest.graphViews[0].theme,
    heat: ramp.filter(color => (counts.get(color) ?? 0) > 50).length,
    total: canvas.width * canvas.height,
    bar: seen('.jp-MaxLab-legendBar'),
    hatch: seen('.jp-MaxLab-legendHatch'),
    meter: seen('.jp-MaxLab-meterBar'),
    pressed: seen('[data-command="toggle-heat"]'),
    unpressed: seen('[data-command="toggle-chips"][aria-pressed="false"]'),
    tab: seen('[role="tab"][aria-selected="true"]'),
  };
}"""

Media = Literal["forced", "more", "none"]


def emulate(lab: LabPage, media: Media) -> None:
    lab.page.emulate_media(
        forced_colors="active" if media == "forced" else "none",
        contrast="more" if media == "more" else "no-preference",
    )
    wanted = "true" if media != "none" else "false"
    lab.page.wait_for_function(
        "wanted => String(document.querySelector('.jp-MaxLab-view').classList"
        ".contains('jp-mod-strong')) === wanted",
        arg=wanted,
    )
    lab.page.wait_for_timeout(100)


@pytest.fixture(scope="module")
def looked(shared_page: LabPage, server: LabServer) -> Iterator[GraphView]:
    """The view of a profile, with the inspector open on its hottest kernel."""
    shared_page.page.set_viewport_size({"width": 1440, "height": 900})
    shared_page.open_notebook(write_notebook(server.root, "themes.ipynb", []))
    shared_page.run_code(BUILD)
    view = shared_page.view()
    view.execute("hottest")
    view.execute("panel-timeline")
    view.execute("toggle-chips")
    yield view
    shared_page.page.emulate_media(forced_colors="none", contrast="no-preference")
    shared_page.set_theme("light")


def opaque(color: str) -> list[str]:
    """Red, green and blue of ``color``: Chromium gives its highlight an alpha."""
    return re.findall(r"\d+", color)[:3]


def check(lab: LabPage, name: str) -> dict[str, Any]:
    found: dict[str, Any] = lab.page.evaluate(LOOK)
    lab.shot(f"themes-{name}")
    assert found["isStrong"]
    assert found["heat"] >= 2, "boxes keep their heat"
    assert found["page"] > found["total"] / 4, "the drawing lies on the page's own colour"
    assert found["text"] > 200, "lines and text of the drawing are those of the page"
    for mark in ("bar", "hatch"):
        assert found[mark]["image"] != "none"
        assert found[mark]["adjust"] == "none"
    assert found["meter"]["adjust"] == "none"
    theme = found["theme"]
    assert found["pressed"]["background"] == theme["chosen"] != found["unpressed"]["background"]
    assert found["pressed"]["color"] == theme["chosenText"]
    assert found["tab"]["background"] == theme["chosen"]
    return found


def test_forced_colours_keep_what_is_shown(shared: LabPage, looked: GraphView) -> None:
    emulate(shared, "forced")
    found = check(shared, "forced")
    system, theme = found["system"], found["theme"]
    assert (theme["background"], theme["text"]) == (system["Canvas"], system["CanvasText"])
    assert opaque(found["pressed"]["background"]) == opaque(system["Highlight"])
    shared.page.set_viewport_size({"width": 900, "height": 900})
    shared.shot("themes-forced-900")
    shared.page.set_viewport_size({"width": 1440, "height": 900})
    emulate(shared, "none")
    assert not shared.page.evaluate(LOOK)["isStrong"]


def test_more_contrast_keeps_what_is_shown(shared: LabPage, looked: GraphView) -> None:
    emulate(shared, "more")
    check(shared, "more-contrast")
    assert shared.barriers(".jp-MaxLab-view") == []
    emulate(shared, "none")


def test_a_theme_of_high_contrast_keeps_what_is_shown(shared: LabPage, looked: GraphView) -> None:
    shared.set_theme("contrast")
    check(shared, "high-contrast")
    assert shared.barriers(".jp-MaxLab-view") == []
    shared.set_theme("light")


def test_heat_means_the_same_in_the_dark(shared: LabPage, looked: GraphView) -> None:
    """The hottest box has the same hue, and stands out from a page of either kind."""
    hottest = """() => {
        const { theme, stage } = window.__maxlabTest.graphViews[0];
        return [theme.ramp[theme.ramp.length - 1], theme.ramp[0], theme.background];
    }"""
    light = shared.page.evaluate(hottest)
    shared.set_theme("dark")
    dark = shared.page.evaluate(hottest)
    shared.shot("themes-dark")
    shared.set_theme("light")

    def parts(color: str) -> list[int]:
        return [int(part) for part in color.removeprefix("rgb(").rstrip(")").split(",")]

    for hot, cold, page in (light, dark):
        away = [abs(sum(parts(color)) - sum(parts(page))) for color in (hot, cold)]
        assert away[0] > 2 * away[1]
        r, g, b = parts(hot)
        assert b >= r > g, "violet is hot"


def test_dashboard_and_files_in_forced_colours(shared: LabPage, server: LabServer) -> None:
    page = shared.page
    folder: Path = server.root / "themes"
    folder.mkdir(exist_ok=True)
    save_file({"grid": np.linspace(-1, 1, 960).reshape(40, 24)}, folder / "grid.safetensors")
    shared.page.emulate_media(forced_colors="active")
    shared.execute("docmanager:open", {"path": "themes/grid.safetensors"})
    rows = page.locator(".jp-MaxLab-weights:visible tbody tr")
    rows.first.click()
    scale = page.locator(".jp-MaxLab-weights-scale")
    scale.wait_for()
    assert scale.evaluate("one => getComputedStyle(one).backgroundImage") != "none"
    chosen = page.locator(".jp-MaxLab-weights tr.jp-mod-selected")
    highlight = page.evaluate(
        "() => { const one = document.createElement('i'); one.style.color = 'Highlight';"
        " document.body.append(one); const c = getComputedStyle(one).color; one.remove();"
        " return c; }"
    )
    look = "one => getComputedStyle(one).backgroundColor"
    assert opaque(chosen.evaluate(look)) == opaque(highlight)
    shared.shot("themes-forced-file")
    shared.execute("maxlab:open-diagnostics")
    dash = page.locator(".jp-MaxLab-dash:visible")
    dash.locator("canvas:visible, .jp-MaxLab-dashEmpty:visible").first.wait_for()
    assert dash.evaluate("one => one.classList.contains('jp-mod-strong')")
    assert dash.evaluate(
        "one => getComputedStyle(one).getPropertyValue('--mx-chosen')"
    ) == "rgb({}, {}, {})".format(*opaque(highlight))
    shared.shot("themes-forced-dashboard")
    shared.page.emulate_media(forced_colors="none")
