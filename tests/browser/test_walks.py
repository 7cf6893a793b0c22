"""Every tutorial: what its text says is shown, and then it is walked from its first view to its
last, by keyboard alone or by mouse, in each theme, in a narrow window and a wide one.

A push walks each notebook once, in a combination that the seed of the sample chooses; ``--all``
walks it in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.claims import CLAIMS
from tests.browser.page import THEMES, LabPage
from tests.browser.server import LabServer
from tests.browser.walking import Walk, Way

pytestmark = pytest.mark.browser

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.ipynb"))
WAYS: tuple[Way, ...] = ("keys", "mouse")
WIDTHS = (900, 1440)

COMBINATIONS = [
    pytest.param(way, theme, width, id=f"by_{way}-{theme}-{width}")
    for way, theme, width in product(WAYS, THEMES, WIDTHS)
]


@pytest.fixture(scope="module")
def page(browser: Browser, server: LabServer) -> Iterator[LabPage]:
    """One JupyterLab for all walks."""
    lab = LabPage.open(browser, server)
    yield lab
    lab.close()


@pytest.fixture
def lab(page: LabPage, server: LabServer) -> Iterator[LabPage]:
    """That page, with nothing open in it."""
    page.errors.clear()
    page.allowed.clear()
    yield page
    faults = page.faults()
    page.close_all()
    server.shut_down_kernels()
    page.errors.clear()
    assert faults == []


@pytest.mark.parametrize(("way", "theme", "width"), COMBINATIONS)
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_walk(lab: LabPage, notebook: str, way: Way, theme: str, width: int) -> None:
    lab.page.set_viewport_size({"width": 1440, "height": 900})
    lab.set_theme(theme)
    lab.open_notebook(f"notebooks/{notebook}")
    lab.run_all(timeout=300)
    name = f"{Path(notebook).stem}-{way}-{theme}-{width}"
    if notebook in CLAIMS:
        CLAIMS[notebook](lab, f"walk-{name}")
    lab.page.set_viewport_size({"width": width, "height": 900})
    walk = Walk(lab, way)
    walk.whole(name)
    assert not walk.complaints, "\n".join(dict.fromkeys(walk.complaints))
