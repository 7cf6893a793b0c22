"""``%%cuda_sim`` in JupyterLab: mistakes, and what is left of a saved output that is not trusted.
The tutorial is walked in ``test_walks``."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.lab.cuda_sim import run
from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser


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
