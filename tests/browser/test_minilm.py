"""The second tutorial: its model is profiled from the palette. ``test_walks`` has the rest."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenLab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOTEBOOK = "notebooks/02_minilm.ipynb"


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
