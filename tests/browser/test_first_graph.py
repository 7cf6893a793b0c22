"""The first tutorial, end to end: what ``scripts/lab --check`` runs."""

from __future__ import annotations

import pytest

from tests.browser.page import LabPage

pytestmark = pytest.mark.browser

NOTEBOOK = "notebooks/01_first_graph.ipynb"


def test_first_tutorial(lab: LabPage, theme: str) -> None:
    lab.open_notebook(NOTEBOOK)
    lab.run_all()

    lab.show_output_of("graph")
    view = lab.visible_view()
    assert {"mul", "add", "gelu", "softmax"} <= set(view.labels())
    lab.shot(f"first-graph-{theme}")

    lab.show_output_of("model.profile(data)")
    profile = lab.visible_view()
    assert profile.read("view.isHeat") is True
    timed = [node for node in profile.nodes() if node["heat"]]
    assert timed, profile.nodes()

    # One kernel does all of the work, so every node of it is the hottest: the C is one click away.
    profile.click("softmax")
    words = profile.inspector()
    assert "softmax" in words
    assert "GB/s" in words
    assert "graph.output(ops.softmax(hidden))" in words
    assert "for (" in words
    lab.shot(f"first-profile-{theme}")
    assert lab.errors == []
