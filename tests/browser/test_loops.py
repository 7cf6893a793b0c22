"""The tutorial on loops and branches, end to end."""

from __future__ import annotations

import pytest

from tests.browser.page import LabPage

pytestmark = pytest.mark.browser

NOTEBOOK = "notebooks/06_loops_and_branches.ipynb"


def test_loops_and_branches(lab: LabPage, theme: str) -> None:
    lab.open_notebook(NOTEBOOK)
    lab.run_all()

    lab.show_output_of("graph")
    view = lab.visible_view()
    labels = view.labels()
    assert {"while", "div", "logical_and"} <= set(labels)
    lab.shot(f"loop-{theme}")

    lab.show_output_of("profile")
    profile = lab.visible_view()
    assert profile.read("view.isHeat") is True
    profile.click("div")
    words = profile.inspector()
    assert "The sum of all 6 turns." in words
    assert "all 6 turns" in words
    profile.click("while")
    words = profile.inspector()
    assert "Goes on while" in words
    assert "Next turn" in words
    lab.shot(f"loop-profile-{theme}")

    lab.show_output_of("choice.profile(data, True)")
    choice = lab.visible_view()
    timed = {node["label"] for node in choice.nodes() if node["heat"]}
    assert "softmax" in timed
    assert "div" not in timed
    choice.click("cond")
    words = choice.inspector()
    assert "Result if true" in words
    assert "The run goes on at" in words
    assert lab.errors == []
