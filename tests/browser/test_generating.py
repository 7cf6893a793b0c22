"""Answers and the board of a scheduler in JupyterLab: a token's graph by mouse and keyboard, what a
saved answer says, and the controls of the board."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Pages
from tests.browser.documents import WIDGET_MIME, write_notebook
from tests.browser.page import VIEWPORT, LabPage
from tests.browser.server import LabServer
from tests.pipelines.tiny.models import DECODER, decoder_folder

pytestmark = pytest.mark.browser

PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
MAKE = f"""\
%load_ext maxlab
from maxlab.lab.board import scheduler_board
from maxlab.pipelines import PIPELINE_REGISTRY, PipelineConfig
from maxlab.pipelines.lib.scheduler import TextGenerationScheduler

_, pipeline = PIPELINE_REGISTRY.retrieve(PipelineConfig(
    model_path="decoder", custom_architectures=[{DECODER!r}], max_length=400, max_batch_size=4,
    max_num_steps=1))
scheduler = TextGenerationScheduler(pipeline)"""
ANSWER = """\
%%generate scheduler --temperature 300 --seed 2 --max-new-tokens 90 --ignore-eos
The quick brown fox"""
BOARD = "board = scheduler_board(scheduler)\nboard"


@pytest.fixture(scope="module")
def opened(
    pages: Pages, server: LabServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabPage]:
    """A notebook on a narrow page, with a scheduler of a tiny model."""
    folder: Path = server.root / "decoder"
    folder.mkdir(exist_ok=True)
    decoder_folder(folder)
    lab = pages.take()
    lab.page.set_viewport_size({"width": 900, "height": 1100})
    lab.open_notebook(write_notebook(server.root, "generating.ipynb", []))
    lab.run_code(MAKE)
    yield lab
    lab.page.set_viewport_size(VIEWPORT)
    lab.errors.clear()
    pages.give_back(lab)


@pytest.fixture
def lab(opened: LabPage, theme: str) -> LabPage:
    """That notebook, in each theme."""
    opened.set_theme(theme)
    opened.errors.clear()
    return opened


def output_of(lab: LabPage, code: str) -> Locator:
    """The output of ``code``, run in a new last cell, at the top of the page."""
    lab.run_code(code)
    output = lab.page.locator(f"{PANEL} .jp-OutputArea-output:has(.mx-rq)").last
    output.locator(".mx-rq").first.wait_for()
    output.evaluate("node => node.scrollIntoView({ block: 'start' })")
    return output


def check(lab: LabPage, output: str = f"{PANEL} .jp-OutputArea-output:has(.mx-rq)") -> None:
    """Nothing keeps anybody out, all can be read, and nothing is wider than the page."""
    assert lab.barriers(output) == []
    assert [one for one in lab.contrast(".mx-rq") if one[1] < 4.5] == []
    wide = lab.page.evaluate(
        """() => [...document.querySelectorAll('.mx-rq')].filter(one => one.offsetWidth >
            one.closest('.jp-OutputArea-output').clientWidth + 1).length"""
    )
    assert wide == 0
    assert lab.errors == []


def test_the_graph_of_a_token(lab: LabPage, theme: str) -> None:
    output = output_of(lab, ANSWER)
    tokens = output.get_by_role("button", name=re.compile("^token "))
    expect(tokens).to_have_count(90)
    about = output.locator(".mx-rq-about")
    expect(about).to_be_hidden()
    tokens.nth(3).click()
    expect(about).to_contain_text("Token 4 of 90")
    expect(about).to_contain_text("so it was run again now")
    expect(tokens.nth(3)).to_have_attribute("aria-pressed", "true")
    output.locator(".jp-MaxLab-view").wait_for()
    view = lab.visible_view()
    assert view.read("view.isHeat"), "the operations have their times"
    lab.shot(f"token-{theme}")
    check(lab)

    # By keyboard: one stop of Tab, arrows from token to token and from line to line.
    expect(tokens.nth(3)).to_be_focused()
    lab.page.keyboard.press("ArrowRight")
    expect(tokens.nth(4)).to_be_focused()
    lab.page.keyboard.press("ArrowDown")
    below = int(lab.page.evaluate("() => document.activeElement.dataset.token"))
    assert 10 < below < 60
    lab.page.keyboard.press("ArrowUp")
    lab.page.keyboard.press("ArrowUp")
    expect(tokens.nth(4)).to_be_focused()
    lab.page.keyboard.press("Enter")
    expect(about).to_contain_text("Token 5 of 90")
    expect(output.locator("[data-token][aria-pressed=true]")).to_have_count(1)
    lab.page.keyboard.press("End")
    lab.page.keyboard.press("Space")
    expect(about).to_contain_text("Token 90 of 90")
    expect(about).to_contain_text("graph looking_back")
    assert output.locator("[tabindex='0'][data-token]").count() == 1
    lab.page.keyboard.press("Escape")
    expect(about).to_be_hidden()
    expect(output.locator(".jp-MaxLab-view")).to_have_count(0)
    expect(tokens.nth(89)).to_be_focused()
    assert lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.mode") != "edit"


def test_a_saved_answer(lab: LabPage, server: LabServer, theme: str) -> None:
    """Without its kernel it has its tokens, probabilities and times, and a click says what is
    needed for more."""
    (saved,) = [one["data"] for one in lab.run_code(ANSWER) if "data" in one]
    assert WIDGET_MIME in saved
    saved[WIDGET_MIME] = {"model_id": "0" * 32, "version_major": 2, "version_minor": 0}
    before = lab.current_id()
    lab.open_notebook(write_notebook(server.root, f"answer-{theme}.ipynb", [saved]))
    place = lab.page.locator(PANEL)
    tokens = place.get_by_role("button", name=re.compile("^token "))
    expect(tokens).to_have_count(90)
    tokens.nth(2).click()
    expect(place.get_by_role("status").filter(has_text="was saved")).to_contain_text(
        "run this cell again"
    )
    lab.page.keyboard.press("ArrowRight")
    expect(tokens.nth(3)).to_be_focused()
    place.get_by_text("Every token: probabilities and times").click()
    expect(place.get_by_role("table")).to_be_visible()
    lab.shot(f"answer-saved-{theme}")
    lab.errors = [one for one in lab.errors if "widget model not found" not in one]
    check(lab, f"{PANEL} .jp-OutputArea-output:has(.mx-rq)")
    lab.activate(before)


def test_the_board(lab: LabPage, theme: str) -> None:
    output = output_of(lab, f"scheduler.resume()\n{BOARD}")
    head = output.locator(".mx-rq-head")
    slider = output.get_by_role("slider", name="steps that are shown")
    pause = output.get_by_role("button", name="Pause")
    step = output.get_by_role("button", name="Step", exact=True)
    expect(step).to_be_disabled()
    pause.click()
    expect(head).to_contain_text("paused")
    lab.run_code(
        "from maxlab.interfaces import *\n"
        "for n in range(6):\n"
        "    asked = TextGenerationRequest(RequestID(f'{n} of <six>'), 'm', prompt='fox ' * 9,\n"
        "        sampling_params=SamplingParams(max_new_tokens=9, ignore_eos=True))\n"
        "    scheduler.submit(await pipeline.tokenizer.new_context(asked))"
    )
    output.evaluate("node => node.scrollIntoView({ block: 'start' })")
    before = int(slider.get_attribute("max") or 0)
    for n in range(1, 4):
        step.click()
        expect(slider).to_have_attribute("max", str(before + n))
    expect(output.locator("p", has_text="waiting for the prompt:")).to_contain_text("4 of <six>")
    lab.shot(f"board-paused-{theme}")
    check(lab)
    slider.focus()
    lab.page.keyboard.press("ArrowLeft")
    expect(output.get_by_text(f"{before + 2} of {before + 3} steps")).to_be_visible()
    output.get_by_role("button", name="Go on").click()
    expect(pause).to_be_visible()
    expect(head).to_contain_text("1 step before the last one")
    output.get_by_role("button", name="Last").click()
    expect(head).to_contain_text("live")
    lab.run_code("while scheduler.has_work:\n    _ = scheduler.step()")

    replayed = output_of(lab, "board.run.save('run.jsonl')\nscheduler_board('run.jsonl')")
    place = replayed.get_by_role("slider", name="steps that are shown")
    place.focus()
    lab.page.keyboard.press("Home")
    replayed.get_by_role("button", name="Replay").click()
    expect(replayed.get_by_text(re.compile("^[3-9] of"))).to_be_visible()
    replayed.get_by_role("button", name="Stop").click()
    check(lab)
