"""Photographs the picture at the top of the README: ``python -m scripts.readme_picture``.

JupyterLab in a headless Chromium runs the first program of the README in a notebook, in both
themes, selects the hottest product of a layer, and the notebook is written to
``docs/images/first-light.png`` and ``first-dark.png``. It needs torch, Chromium, and the front end
built.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.page import CHROMIUM_FLAGS, LabPage, chromium
from tests.browser.server import start_lab

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 1180, 900


def program() -> str:
    """The first program of the README."""
    found = re.search(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None, "the README has no program"
    return found[1].rstrip()


def notebook(source: str) -> str:
    """A notebook of one cell."""
    cell: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "id": "first",
        "metadata": {},
        "outputs": [],
        "source": source,
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made)


def photograph(lab: LabPage, path: Path) -> None:
    """Run the notebook, select an operation that took long, and write what is seen to ``path``."""
    lab.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    lab.execute("application:set-mode", {"mode": "single-document"})
    lab.page.wait_for_timeout(500)
    lab.open_notebook("my_model.ipynb")
    for area in ("left", "right"):
        if not lab.page.evaluate(f"() => window.jupyterapp.shell.{area}Collapsed"):
            lab.execute(f"application:toggle-{area}-area")
    lab.run_all(timeout=300)
    view = lab.view()
    for box in ("layers", "layers.0", "layers.0.linear1"):
        view.expand(box)
    for command in ("toggle-minimap", "toggle-panel", "fit"):
        view.execute(command)
    view.click("matmul")
    lab.page.mouse.move(2, 2)  # away: nothing is pointed at
    view.settle()
    panel = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    panel.screenshot(path=path)


def main() -> None:
    """The command."""
    where = chromium()
    if where is None:
        sys.exit("no Chromium found: apt-get install chromium, or set MAXLAB_CHROMIUM to one")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder)
        root = home / "root"
        root.mkdir()
        (root / "my_model.ipynb").write_text(notebook(program()), "utf-8")
        browser = playwright.chromium.launch(executable_path=where, args=CHROMIUM_FLAGS)
        server = start_lab(root, home)
        try:
            for theme in ("light", "dark"):
                lab = LabPage.open(browser, server, theme)
                photograph(lab, ROOT / "docs" / "images" / f"first-{theme}.png")
                lab.close()
                server.shut_down_kernels()
        finally:
            server.stop()
            browser.close()


if __name__ == "__main__":
    main()
