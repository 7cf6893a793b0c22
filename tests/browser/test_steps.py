"""What layers do in steps, in JupyterLab: the pictures on light and dark pages, and the view, which
follows a run and is moved by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.page import LabPage

pytestmark = pytest.mark.browser

PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"


def check(lab: LabPage, name: str) -> None:
    """All pictures of steps can be read, and none is wider than the page."""
    places = lab.page.locator(f"{PANEL} .jp-OutputArea-child:has(.maxlab-step, .maxlab-pages)")
    assert places.count() > 0
    for number in range(places.count()):
        places.nth(number).scroll_into_view_if_needed()
        lab.shot(f"steps-{name}-{number}")
    output = ".jp-OutputArea-output:has(.maxlab-step, .maxlab-pages)"
    assert lab.barriers(output) == []
    assert [one for one in lab.contrast(output) if one[1] < 4.5] == []
    wide = "nodes => nodes.filter(n => n.scrollWidth > n.clientWidth + 1).length"
    assert places.locator(".jp-RenderedHTMLCommon").evaluate_all(wide) == 0


def test_one_token(lab: LabPage, theme: str) -> None:
    lab.page.set_viewport_size({"width": 900, "height": 1000})
    lab.open_notebook("notebooks/nn/06_one_token_goes_through.ipynb")
    lab.run_all()
    box = lab.page.locator(f"{PANEL} .jp-OutputArea-output:has(.widget-text)").first
    box.scroll_into_view_if_needed()
    picture = box.locator(".maxlab-step").first
    expect(picture).to_contain_text("sequence 0, query at position 18")  # it followed the run
    step = box.get_by_label("step", exact=True)
    step.focus()
    for _ in range(5):
        step.press("ArrowDown")
    expect(picture).to_contain_text("sequence 0, query at position 13")
    box.get_by_label("sequence", exact=True).press("ArrowUp")
    expect(picture).to_contain_text("sequence 1, query at position 2")
    box.get_by_label("query", exact=True).press("ArrowDown")
    expect(picture).to_contain_text("sequence 1, query at position 1")
    box.get_by_label("layer", exact=True).select_option("layers.0.self_attn")
    expect(picture).to_contain_text("layers.0.self_attn")
    check(lab, f"token-{theme}")
    assert lab.errors == []


@pytest.mark.parametrize("notebook", ["02_paged_attention", "03_mixture_of_experts", "04_lora"])
def test_pictures(lab: LabPage, theme: str, notebook: str) -> None:
    lab.page.set_viewport_size({"width": 900, "height": 1000})
    lab.open_notebook(f"notebooks/nn/{notebook}.ipynb")
    lab.run_all()
    check(lab, f"{notebook}-{theme}")
    assert lab.errors == []
