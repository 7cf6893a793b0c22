"""One JupyterLab and one Chromium for all browser tests; a fresh page and profile for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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


@dataclass
class Pages:
    """Open JupyterLabs: one that no test uses is given to the next, since opening one takes
    longer than most tests."""

    browser: Browser
    server: LabServer
    idle: list[LabPage] = field(default_factory=list)

    def take(self, theme: str = "light") -> LabPage:
        """A JupyterLab with nothing open in it, in ``theme``."""
        if not self.idle:
            return LabPage.open(self.browser, self.server, theme)
        lab = self.idle.pop()
        lab.set_theme(theme)
        # What came since it was given back is of kernels that have gone.
        lab.errors.clear()
        lab.allowed.clear()
        return lab

    def give_back(self, *labs: LabPage) -> list[str]:
        """What went wrong in ``labs``; those in which nothing did are kept for others."""
        faults = []
        for lab in labs:
            found = lab.faults()
            faults += found
            if not found and not self.idle and lab.tidy():
                self.idle.append(lab)
            else:
                lab.close()
        self.server.shut_down_kernels()
        return faults


@pytest.fixture(scope="session")
def pages(browser: Browser, server: LabServer) -> Iterator[Pages]:
    """The open JupyterLabs of the session."""
    made = Pages(browser, server)
    yield made
    for lab in made.idle:
        lab.close()


@pytest.fixture
def open_lab(pages: Pages) -> Iterator[OpenLab]:
    """A function that opens JupyterLab in the theme ``light`` or ``dark``."""
    opened: list[LabPage] = []

    def open_in(theme: str) -> LabPage:
        lab = pages.take(theme)
        opened.append(lab)
        return lab

    yield open_in
    assert pages.give_back(*opened) == []


@pytest.fixture
def open_new(browser: Browser, server: LabServer) -> Iterator[OpenLab]:
    """As ``open_lab``, in a fresh profile: for tests of what happens when JupyterLab starts."""
    opened: list[LabPage] = []

    def open_in(theme: str) -> LabPage:
        lab = LabPage.open(browser, server, theme)
        opened.append(lab)
        return lab

    yield open_in
    faults = [fault for lab in opened for fault in lab.faults()]
    for lab in opened:
        lab.close()
    server.shut_down_kernels()
    assert faults == []


@pytest.fixture(scope="module")
def shared_page(pages: Pages) -> Iterator[LabPage]:
    """One JupyterLab in the light theme for all tests of a module; see ``shared``."""
    lab = pages.take()
    yield lab
    lab.errors.clear()  # they were the tests'
    pages.give_back(lab)


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
