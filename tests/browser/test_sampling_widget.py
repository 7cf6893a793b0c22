"""Requests, contexts and the view of sampling in JupyterLab: how they look, by keyboard too, and
what stays where no kernel answers."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.documents import WIDGET_MIME, write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

VIEW = """\
import numpy as np
from maxlab.interfaces import SamplingParams
from maxlab.lab import SamplingView

words = "the cat sat on a mat and saw one small dog near an old door by its red house".split()
logits = np.linspace(4, -1, len(words))
view = SamplingView(logits, SamplingParams(seed=1), tokenizer=words, generated=[0, 2], count=12)
view"""

CONTEXTS = """\
import numpy as np
from IPython.display import display
from maxlab.interfaces import *
from maxlab.pipelines.core import TextContext

params = SamplingParams(temperature=0.7, top_p=0.9, seed=1, stop=["\\n\\n"])
context = TextContext(max_length=200, tokens=np.arange(12), request_id=RequestID("a"),
                      eos_token_ids={0}, sampling_params=params)
words = [f"w{n} " for n in range(40)]
context.update(20, LogProbabilities([-0.2], [{20: -0.2, 3: -1.9}]))
first = context.to_generation_output()
context.update(21, LogProbabilities([-1.5], [{4: -0.6, 21: -1.5}]))
context.update(0)
long = TextContext(max_length=20_000, tokens=np.arange(10_000) % 977, request_id=RequestID("b"))
long.set_token_indices(4096, 4608)
display(params, context.show(words, outputs=[first]), long)
TextGenerationInputs([{RequestID("a"): context}, {RequestID("b"): long}], num_steps=1)"""


def view_of(lab: LabPage) -> Locator:
    """The view of sampling that is in sight."""
    found = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .mx-rq:has(.mx-rq-controls)")
    found.first.wait_for()
    return found.first


def opened(lab: LabPage, server: LabServer, name: str, width: int) -> None:
    """An empty notebook in a window of ``width``."""
    lab.page.set_viewport_size({"width": width, "height": 1000})
    lab.open_notebook(write_notebook(server.root, name, []))


@pytest.mark.parametrize("width", [900, 1440])
def test_the_view_by_keyboard(lab: LabPage, server: LabServer, theme: str, width: int) -> None:
    opened(lab, server, f"sampling-{theme}-{width}.ipynb", width)
    lab.run_code(VIEW)
    view = view_of(lab)
    expect(view.get_by_text("19 of 19 tokens")).to_be_visible()
    lab.shot(f"sampling-{theme}-{width}")
    assert lab.barriers(".mx-rq") == []
    # Every control has a name, and can be reached and moved by keys.
    slider = view.get_by_role("slider", name="top-k, slider")
    slider.focus()
    for _ in range(6):
        lab.page.keyboard.press("ArrowRight")
    expect(view.get_by_text("5 of 19 tokens")).to_be_visible()
    expect(view.get_by_text("cut by top-k").first).to_be_visible()
    assert slider.get_attribute("aria-valuetext") == "5"
    lab.page.keyboard.press("Tab")
    box = view.get_by_role("spinbutton", name="top-p", exact=True)
    expect(box).to_be_focused()
    lab.page.keyboard.press("Control+A")
    lab.page.keyboard.type("0.6")
    lab.page.keyboard.press("Enter")
    expect(view.get_by_text("cut by top-p").first).to_be_visible()
    button = view.get_by_role("button", name="Draw 100 tokens")
    button.focus()
    lab.page.keyboard.press("Enter")
    expect(view.get_by_text("100 draws:")).to_be_visible()
    lab.shot(f"sampling-moved-{theme}-{width}")
    assert lab.barriers(".mx-rq") == []
    assert min(ratio for _, ratio in lab.contrast(".mx-rq")) >= 4.5
    wide = lab.page.evaluate(
        """() => [...document.querySelectorAll('.mx-rq')].every(
            view => view.scrollWidth <= view.clientWidth + 1)"""
    )
    assert wide, "the view is wider than its place"
    shown = lab.run_code("(view.top_k, view.top_p, len(view.drawn), view.distribution.kept)")
    assert shown[0]["data"]["text/plain"].startswith("(5, 0.6, 100, ")
    lab.run_code("view.temperature = 1.75")
    expect(view.get_by_role("spinbutton", name="temperature")).to_have_value("1.75")
    assert lab.errors == []


def test_settings_that_cannot_be(lab: LabPage, server: LabServer) -> None:
    opened(lab, server, "sampling-bad.ipynb", 900)
    lab.run_code(VIEW)
    view = view_of(lab)
    seed = view.get_by_label("seed")
    seed.fill("18446744073709551616")
    seed.press("Enter")
    expect(view.locator(".mx-rq-problem")).to_contain_text("from 0 to 18446744073709551615")
    seed.fill("18446744073709551615")
    seed.press("Enter")
    expect(view.locator(".mx-rq-problem")).to_have_text("")
    penalty = view.get_by_role("spinbutton", name="repetition penalty")
    penalty.fill("0")
    penalty.press("Enter")
    expect(view.locator(".mx-rq-problem")).to_contain_text("repetition_penalty")
    shown = lab.run_code("view.seed")
    assert shown[0]["data"]["text/plain"] == "'18446744073709551615'"


def test_without_a_kernel_the_last_state_stays(lab: LabPage, server: LabServer) -> None:
    opened(lab, server, "sampling-gone.ipynb", 900)
    lab.run_code(VIEW)
    view = view_of(lab)
    lab.run_code("view.top_k = 3")
    expect(view.get_by_text("3 of 19 tokens")).to_be_visible()
    lab.allowed += ["Connection lost", "kernel", "WebSocket", "404"]
    server.shut_down_kernels()
    view.get_by_role("slider", name="top-k, slider").press("ArrowRight")
    expect(view.locator(".mx-rq-problem")).to_contain_text("does not answer", timeout=20_000)
    expect(view.get_by_text("3 of 19 tokens")).to_be_visible()


def test_a_trusted_output_whose_widget_is_gone(lab: LabPage, server: LabServer) -> None:
    opened(lab, server, "sampling-trusted.ipynb", 900)
    lab.run_code(
        VIEW
        + """
bundle = {**view._repr_mimebundle_()}
bundle["application/vnd.jupyter.widget-view+json"] = {
    "model_id": "0" * 32, "version_major": 2, "version_minor": 0}
import IPython.display
IPython.display.display(bundle, raw=True)"""
    )
    place = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    lab.allowed += ["model not found", "widget model"]
    expect(place.get_by_text("19 of 19 tokens")).to_be_visible()
    assert "model not found" not in place.inner_text()


def test_a_saved_notebook_shows_the_chart(lab: LabPage, server: LabServer) -> None:
    opened(lab, server, "sampling-first.ipynb", 900)
    saved = lab.run_code(VIEW)[0]["data"]
    assert WIDGET_MIME in saved
    # Another day: no model behind the widget, which its manager tells the console.
    lab.allowed.append("widget model not found")
    saved[WIDGET_MIME] = {"model_id": "0" * 32, "version_major": 2, "version_minor": 0}
    lab.open_notebook(write_notebook(server.root, "sampling-saved.ipynb", [saved]))
    place = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(place.get_by_text("19 of 19 tokens")).to_be_visible()
    assert "model not found" not in place.inner_text()
    lab.shot("sampling-saved")


@pytest.mark.parametrize("width", [900, 1440])
def test_contexts(lab: LabPage, server: LabServer, theme: str, width: int) -> None:
    opened(lab, server, f"contexts-{theme}-{width}.ipynb", width)
    lab.run_code(CONTEXTS)
    place = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    place.locator(".mx-rq").nth(3).wait_for()
    for number in range(4):
        shown = place.locator(".mx-rq").nth(number)
        shown.scroll_into_view_if_needed()
        if number in (0, 1):
            lab.shot(f"contexts-{theme}-{width}-{number}")
    lab.shot(f"contexts-{theme}-{width}")
    assert lab.barriers(".mx-rq") == []
    assert min(ratio for _, ratio in lab.contrast(".mx-rq")) >= 4.5
    token = place.get_by_title("place 12 · token 20").first
    assert "log probability -0.2 (81.9%)" in (token.get_attribute("title") or "")
    fold = place.get_by_text("4,016 folded")
    fold.click()
    expect(place.get_by_text("40: 40 41 42").first).to_be_visible()
    assert lab.errors == []
