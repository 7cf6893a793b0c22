"""``%%cuda_sim`` in JupyterLab: the tutorial, its views in both themes, and what is left of a saved
output that is not trusted."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Locator

from maxlab.lab.cuda_sim import run
from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

NOTEBOOK = "notebooks/05_cuda_without_a_gpu.ipynb"
READABLE = 4.5  # WCAG 2.1, contrast (minimum)


def view_of(lab: LabPage, name: str) -> Locator:
    """The view under the cell with ``--out name``, scrolled to."""
    index = lab.page.evaluate(
        """(name) => window.jupyterapp.shell.currentWidget.content.widgets.findIndex(cell =>
            cell.model.sharedModel.getSource().split('\\n')[0].endsWith('--out ' + name))""",
        name,
    )
    view = lab.show_cell(index).locator(".mx-cs")
    view.wait_for()
    view.scroll_into_view_if_needed()
    return view


def require_readable(lab: LabPage) -> None:
    """Every text of the views in sight has enough contrast."""
    found = lab.contrast(".jp-NotebookPanel:not(.lm-mod-hidden) .mx-cs")
    assert len(found) > 50
    poor = {text: ratio for text, ratio in found if ratio < READABLE}
    assert poor == {}


def test_tutorial(lab: LabPage, theme: str) -> None:
    lab.open_notebook(NOTEBOOK)
    lab.run_all()

    race = view_of(lab, "race")
    assert "Race in shared memory." in race.inner_text()
    assert race.locator("tr.mx-cs-at").count() == 2
    lab.shot(f"cuda-race-{theme}")
    require_readable(lab)

    tree = view_of(lab, "tree")
    steps = tree.get_by_role("radio")
    assert steps.count() == 8  # how they ended, six steps, and a branch
    tree.locator("label", has_text="3").click()
    panel = tree.locator(".mx-cs-panels > div:visible")
    assert panel.count() == 1
    assert "time 3, 8 of 64 threads" in panel.inner_text()
    # One focus for all steps: the arrow keys go from one to the next.
    lab.page.keyboard.press("ArrowRight")
    assert "time 4, 4 of 64 threads" in panel.inner_text()
    first = panel.get_by_title("thread (0, 0, 0)")
    assert first.get_attribute("title") == "thread (0, 0, 0), lane 0 of warp 0: s[t] = 480.0"
    assert first.inner_text() == "480"  # every fourth of 0 … 63
    lab.shot(f"cuda-tree-{theme}")
    require_readable(lab)

    divergent = view_of(lab, "divergent")
    divergent.locator("label", has_text="line 7").click()
    ran = divergent.locator(".mx-cs-panels > div:visible td", has_text="●")
    assert ran.count() == 48
    lab.shot(f"cuda-divergent-{theme}")

    far = view_of(lab, "far")
    far.locator("summary").first.click()
    assert (
        far.locator("table.mx-cs-strip:visible td[style]").count() == 16
    )  # of 32 sectors, half drawn
    lab.shot(f"cuda-far-{theme}")
    require_readable(lab)

    plain = view_of(lab, "plain")
    plain.locator("summary", has_text="banks").last.click()
    assert plain.get_by_title("bank 0: 32 words").first.inner_text() == "32"
    plain.locator("summary", has_text="banks").last.scroll_into_view_if_needed()
    lab.shot(f"cuda-banks-{theme}")
    require_readable(lab)
    assert lab.errors == []


def test_mistakes_of_the_user(lab: LabPage, server: LabServer, theme: str) -> None:
    lab.open_notebook(write_notebook(server.root, f"cuda-mistakes-{theme}.ipynb", []))
    lab.run_code("%load_ext maxlab")
    text = 'extern "C" __global__ void k(float *x) {\n  x[threadIdx.x] = nothing;\n}'
    with pytest.raises(AssertionError, match="ML502"):
        lab.run_code(f"%%cuda_sim --grid 1 --block 4 --args None\n{text}")
    page = lab.page.locator(".jp-Notebook:visible")
    refused = page.locator(".mx-cs tr.mx-cs-at")
    refused.wait_for()
    assert "nothing" in refused.inner_text()
    with pytest.raises(AssertionError, match="ML821"):
        lab.run_code(f"%%cuda_sim --grid 1 --block 4 --args x\n{text}")
    assert "Traceback" not in page.inner_text()
    lab.shot(f"cuda-mistakes-{theme}")


def test_a_saved_output_that_is_not_trusted(open_lab: OpenLab, server: LabServer) -> None:
    """Style sheets are dropped from it: what was found is still told, as plain tables."""
    text = """extern "C" __global__ void stray(float *x) {
  MX_WATCH(x[threadIdx.x]);
  x[threadIdx.x + 1] = 1; // <b>bold</b>
}"""
    result = run(text, 1, 8, [np.zeros(8, np.float32)])
    lab = open_lab("dark")
    bundle = result._repr_mimebundle_()
    lab.open_notebook(write_notebook(server.root, "cuda-saved.ipynb", [bundle]))
    page = lab.page.locator(".jp-Notebook:visible")
    page.get_by_text("Out of bounds.").wait_for()
    assert page.locator("style").count() == 0
    assert page.locator("tr.mx-cs-at[style*='background-color']").count() == 2
    assert page.locator(".mx-cs b", has_text="bold").count() == 0
    assert page.locator("td[style*='background-color']").count() >= 16
    lab.shot("cuda-untrusted-dark")
    assert lab.errors == []
