"""The tutorials about profiling, run in JupyterLab: each claim holds, and its view shows it."""

from __future__ import annotations

import pytest

from tests.browser.page import GraphView, LabPage

pytestmark = pytest.mark.browser

FOLDER = "notebooks/profiling"

# Notebook, last line of the cell whose view is looked at, the panel, and words that it shows.
WALKS = [
    ("01_reading_a_profile", "profile", "timeline", ("slices",)),
    ("02_roofline", "profile", "roofline", ("held back by",)),
    ("03_fusion", "off", "advice", ("Try it",)),
    ("04_memory_peak", "profile", "memory", ("peak",)),
    ("05_c_beside_cuda", None, None, ()),
    ("06_hunting_an_idle_gpu", None, None, ()),
]


def open_panel(view: GraphView, panel: str) -> str:
    """The text of the panel ``panel``, opened below ``view``, once it has some."""
    view.execute(f"panel-{panel}")
    view.lab.page.wait_for_function(
        """([index, words]) => {
            const dock = window.__maxlabTest.views[index].element.querySelector('.jp-MaxLab-dock');
            return dock.innerText.length > words;
        }""",
        arg=[view.index, 120],
    )
    text: str = view.read("view.element.querySelector('.jp-MaxLab-dockBody').textContent")
    return text


@pytest.mark.parametrize(("name", "line", "panel", "words"), WALKS, ids=[w[0] for w in WALKS])
def test_walk(
    lab: LabPage, theme: str, name: str, line: str | None, panel: str | None, words: tuple[str, ...]
) -> None:
    lab.open_notebook(f"{FOLDER}/{name}.ipynb")
    lab.run_all()
    if line is not None and panel is not None:
        lab.show_output_of(line)
        view = lab.visible_view()
        assert view.read("view.isHeat") is True
        text = open_panel(view, panel)
        lab.shot(f"profiling-{name}-{theme}")
        for word in words:
            assert word in text, text[:2000]
    else:
        lab.shot(f"profiling-{name}-{theme}")
    assert lab.errors == []
