"""The tutorial of one graph on two targets: C beside CUDA, and the view of a model on a GPU."""

from __future__ import annotations

import pytest

from tests.browser.page import LabPage

pytestmark = pytest.mark.browser

NOTEBOOK = "notebooks/03_one_graph_two_targets.ipynb"


def test_two_targets(lab: LabPage, theme: str) -> None:
    lab.open_notebook(NOTEBOOK)
    lab.run_all()

    lab.show_output_of('beside(on_cpu.kernels["k0"], on_gpu.kernels["k0"])')
    columns = lab.page.locator(".jp-OutputArea-output pre:visible").all_inner_texts()
    assert any("#pragma omp simd" in text for text in columns)
    assert any("__global__" in text and "threadIdx.x" in text for text in columns)
    lab.shot(f"two-targets-beside-{theme}")

    lab.show_output_of("profile")
    view = lab.visible_view()
    assert view.read("view.isHeat") is True
    view.click("softmax")
    words = view.inspector()
    assert "gpu:0" in words
    assert "generated CUDA" in words
    assert "__launch_bounds__(256" in words
    assert "ops.softmax(ops.gelu(x * 0.5 + 1.0))" in words
    # A simulated device is one wherever its times are shown.
    legend = lab.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-legendTitle")
    assert "simulated GPU" in legend.last.inner_text()
    lab.shot(f"two-targets-profile-{theme}")
    assert lab.errors == []
