"""The README, the tour and the how-to pages say what happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from maxlab import driver
from maxlab.diagnostics.monitor import marks
from tests.pages import DOCS, run_page

PAGES = {
    "tour.md": 9,
    "how-to/coming-from-numpy-pytorch-jax.md": 3,
    "how-to/compare-graphs.md": 4,
    "how-to/compute-with-tensors.md": 10,
    "how-to/compare-runs.md": 4,
    "how-to/debug-a-cuda-kernel.md": 5,
    "how-to/draw-tokens.md": 3,
    "how-to/find-a-wrong-kernel.md": 6,
    "how-to/find-operations.md": 3,
    "how-to/colour-by-your-own-numbers.md": 4,
    "how-to/quantize-a-model.md": 5,
    "how-to/read-hints-in-cells.md": 2,
    "how-to/look-at-requests-and-sampling.md": 5,
    "how-to/look-into-a-paged-cache.md": 4,
    "how-to/make-a-kernel-faster.md": 4,
    "how-to/profile-a-model.md": 5,
    "how-to/read-what-the-compiler-did.md": 7,
    "how-to/run-on-a-gpu.md": 3,
    "how-to/use-layers.md": 7,
    "how-to/use-several-devices.md": 7,
    "how-to/watch-a-gpu.md": 3,
    "how-to/watch-layers.md": 5,
    "how-to/change-a-graph.md": 5,
    "how-to/install-into-your-jupyter.md": 2,
    "how-to/keep-a-graph.md": 8,
    "how-to/save-a-model.md": 7,
    "how-to/serve-adapters.md": 5,
    "how-to/edit-a-graph-by-hand.md": 2,
    "how-to/export-c.md": 4,
    "how-to/canvas-and-code.md": 2,
    "how-to/teach-with-graphs.md": 3,
    "how-to/write-a-graph-as-python.md": 4,
    "how-to/write-a-kernel.md": 9,
    "how-to/write-loops-and-branches.md": 7,
}
"""Pages, and how many programs each has at least."""
ELSEWHERE = {
    "how-to/add-an-op.md",
    "how-to/bring-your-own-architecture.md",
    "how-to/check-a-gpu.md",
    "how-to/configure-a-pipeline.md",
    "how-to/generate-text.md",
    "how-to/load-weights.md",
    "how-to/many-machines.md",
    "how-to/render-a-chat-template.md",
    "how-to/serve-a-model.md",
    "how-to/speak.md",
    "how-to/text-from-images.md",
    "how-to/use-a-model-folder.md",
}
"""Pages that tests of their own look at: they change more than a process, or need files."""
OF_TORCH = {"how-to/run-a-torch-model-with-torch-compile.md": 6}
"""Pages, and how many programs each has at least, that need torch."""
WITHOUT = {"how-to/look-into-a-weight-file.md"}
"""Pages that have no program: all is done in JupyterLab."""


README = "../README.md"
ON_THE_CPU = {README, "how-to/compute-with-tensors.md"}
"""Pages that compute where a new tensor lies, which is a GPU where there is one."""


@pytest.fixture(autouse=True)
def alone(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A folder for what pages write, and an end to what they start."""
    monkeypatch.setenv("MAXLAB_MONITOR_DIR", str(tmp_path / "monitor"))
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.chdir(tmp_path)
    page = getattr(request.node, "callspec", None)
    on_cpu = page is not None and page.params.get("page") in ON_THE_CPU
    simulated = driver.simulated(0) if on_cpu else driver.simulated()
    with simulated, driver.virtual_cpus(0):  # puts back what a page chooses
        yield
    marks.detach()


@pytest.mark.parametrize("page", PAGES)
def test_the_page_prints_what_it_says(page: str) -> None:
    run_page(page, PAGES[page], silent=page not in ("tour.md", "how-to/run-on-a-gpu.md"))


@pytest.mark.parametrize("page", [README])
def test_the_readme_prints_what_it_says(page: str) -> None:
    run_page(page, 4, without="torch")


@pytest.mark.oracle
@pytest.mark.parametrize("page", [README])
def test_the_readme_prints_what_it_says_of_a_model_of_torch(page: str) -> None:
    pytest.importorskip("torch", reason="torch not installed; scripts/test --oracle installs it")
    run_page(page, 4)


@pytest.mark.oracle
@pytest.mark.parametrize("page", OF_TORCH)
def test_the_page_about_torch_prints_what_it_says(page: str) -> None:
    pytest.importorskip("torch", reason="torch not installed; scripts/test --oracle installs it")
    run_page(page, OF_TORCH[page])


def test_every_page_is_run() -> None:
    found = {f"how-to/{path.name}" for path in (DOCS / "how-to").glob("*.md")}
    assert found == {
        page for page in (*PAGES, *ELSEWHERE, *OF_TORCH, *WITHOUT) if page.startswith("how-to/")
    }
