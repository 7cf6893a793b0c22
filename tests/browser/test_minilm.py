"""The second tutorial, end to end: a real model is built, folded, profiled and inspected."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.page import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOTEBOOK = "notebooks/02_minilm.ipynb"
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


def test_minilm(lab: LabPage, theme: str) -> None:
    lab.open_notebook(NOTEBOOK)
    lab.run_all(timeout=300)

    # Six identical layers are one box, which unfolds to six and folds again.
    lab.show_output_of("graph")
    view = lab.visible_view()
    run = next(node for node in view.nodes() if node["count"] == 6)
    lab.shot(f"minilm-graph-{theme}")
    view.expand(run["id"])
    layers = [node for node in view.nodes() if node["scope"].startswith(run["scope"])]
    assert len({node["scope"] for node in layers if node["kind"] == "scope"}) >= 6, layers
    view.collapse(run["id"])
    assert sum(node["count"] == 6 for node in view.nodes()) == 1

    # The profile in a later cell is drawn hot; its hottest kernel is a product of matrices.
    lab.show_output_of("profile")
    profile = lab.visible_view()
    assert profile.read("view.isHeat") is True
    profile.execute("hottest")
    (first, *_) = profile.read("view.selection")
    profile.click(first)
    assert profile.read("view.selection") == [first]
    words = profile.inspector()
    assert "matmul" in words
    assert "GFLOP/s" in words
    assert "GB/s" in words
    assert profile.read("view.kernelOf(argument)", first) is not None
    # The line that it came from, its shapes, and the C that ran.
    assert "cell [2], line" in words, words
    assert "f32[" in words
    assert "void *const *b" in words
    lab.page.mouse.move(5, 5)
    picture = lab.shot(f"minilm-profile-{theme}")
    if os.environ.get("MAXLAB_UPDATE_IMAGES"):
        IMAGES.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, IMAGES / f"minilm-{theme}.png")

    # From the node to the line that made it.
    profile.lab.page.locator(".jp-MaxLab-view:visible").get_by_text("cell [2], line").first.click()
    lab.page.wait_for_function(
        """() => {
            const { activeCell } = window.jupyterapp.shell.currentWidget.content;
            return activeCell.model.executionCount === 2
                && activeCell.editor?.getCursorPosition().line > 0;
        }"""
    )
    assert lab.errors == []


def test_profile_by_the_button(open_lab: OpenLab) -> None:
    lab = open_lab("light")
    lab.open_notebook(NOTEBOOK)
    lab.run_all(timeout=300)
    lab.show_output_of("graph")
    view = lab.visible_view()
    lab.execute("maxlab:profile")
    view.wait_for("view.isHeat", timeout=120)
    assert any(node["heat"] for node in view.nodes())
    assert lab.errors == []
