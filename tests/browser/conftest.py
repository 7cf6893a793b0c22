"""One JupyterLab and one Chromium for all browser tests; a fresh page and profile for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.documents import write_notebook
from tests.browser.page import CHROMIUM_FLAGS, GraphView, LabPage, chromium
from tests.browser.server import LabServer, start_lab

ROOT = Path(__file__).resolve().parents[2]

OpenLab = Callable[[str], LabPage]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; without one skips, or fails where ``MAXLAB_REQUIRE_BROWSER`` is set."""
    path = chromium()
    if path is None:
        words = "no Chromium found: apt-get install chromium, or set MAXLAB_CHROMIUM to one"
        if os.environ.get("MAXLAB_REQUIRE_BROWSER"):
            pytest.fail(words)
        pytest.skip(words)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab on a copy of notebooks/, so that running one changes no file of the checkout."""
    home = tmp_path_factory.mktemp("lab")
    root = home / "root"
    notebooks = ROOT / "notebooks"
    if notebooks.is_dir():
        shutil.copytree(
            notebooks, root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints")
        )
    else:
        root.mkdir()
    running = start_lab(root, home)
    yield running
    running.stop()


@pytest.fixture
def open_lab(browser: Browser, server: LabServer) -> Iterator[OpenLab]:
    """A function that opens JupyterLab in the theme ``light`` or ``dark``."""
    pages: list[LabPage] = []

    def open_in(theme: str) -> LabPage:
        lab = LabPage.open(browser, server, theme)
        pages.append(lab)
        return lab

    yield open_in
    faults = [fault for lab in pages for fault in lab.faults()]
    for lab in pages:
        lab.close()
    server.shut_down_kernels()
    assert faults == []


@pytest.fixture(scope="module")
def shared_page(browser: Browser, server: LabServer) -> Iterator[LabPage]:
    """One JupyterLab in the light theme for all tests of a module; see ``shared``."""
    lab = LabPage.open(browser, server)
    yield lab
    lab.close()
    server.shut_down_kernels()


@pytest.fixture
def shared(shared_page: LabPage) -> Iterator[LabPage]:
    """The page of the module, in which a test may use what another has opened: a page, a notebook
    and a kernel take seconds each. A fault is that of the test in which it came."""
    shared_page.errors.clear()
    shared_page.allowed.clear()
    yield shared_page
    assert shared_page.faults() == []


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    """Both themes, one after the other."""
    name: str = request.param
    return name


@pytest.fixture
def lab(open_lab: OpenLab, theme: str) -> LabPage:
    """JupyterLab in each theme."""
    return open_lab(theme)


@pytest.fixture
def view(request: pytest.FixtureRequest, lab: LabPage, server: LabServer, theme: str) -> GraphView:
    """A live view of what the code ``BUILD`` of the test's module shows, in a notebook."""
    name = request.path.stem.removeprefix("test_")
    lab.open_notebook(write_notebook(server.root, f"{name}-{theme}.ipynb", []))
    lab.run_code(request.module.BUILD)
    return lab.view()
