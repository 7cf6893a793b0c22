"""What each tutorial shows, as its text says: checked in the notebook that a walk has just run.

Each function is for the notebook of its name, and may leave its views however it likes.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator

from tests.browser.page import LabPage
from tests.browser.test_code_and_canvas import edited, replace, run_again

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
READABLE = 4.5  # WCAG 2.1, contrast (minimum)

Claim = Callable[[LabPage, str], None]


def first_graph(lab: LabPage, name: str) -> None:
    """A graph is drawn, and its profile is hot; the C is one click away."""
    lab.show_output_of("graph")
    view = lab.visible_view()
    assert {"mul", "add", "gelu", "softmax"} <= set(view.labels())

    lab.show_output_of("model.profile(data)")
    profile = lab.visible_view()
    assert profile.read("view.isHeat") is True
    timed = [node for node in profile.nodes() if node["heat"]]
    assert timed, profile.nodes()

    # One kernel does all of the work, so every node of it is the hottest.
    profile.click("softmax")
    words = profile.inspector()
    assert "softmax" in words
    assert "GB/s" in words
    assert "graph.output(ops.softmax(hidden))" in words
    assert "for (" in words
    lab.shot(f"{name}-profile")


def two_targets(lab: LabPage, name: str) -> None:
    """C stands beside CUDA, and a simulated device is one wherever its times are shown."""
    lab.show_output_of('beside(on_cpu.kernels["k0"], on_gpu.kernels["k0"])')
    columns = lab.page.locator(".jp-OutputArea-output pre:visible").all_inner_texts()
    assert any("#pragma omp simd" in text for text in columns)
    assert any("__global__" in text and "threadIdx.x" in text for text in columns)
    lab.shot(f"{name}-beside")

    lab.show_output_of("profile")
    view = lab.visible_view()
    assert view.read("view.isHeat") is True
    view.click("softmax")
    words = view.inspector()
    assert "gpu:0" in words
    assert "generated CUDA" in words
    assert "__launch_bounds__(256" in words
    assert "ops.softmax(ops.gelu(x * 0.5 + 1.0))" in words
    legend = lab.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-legendTitle")
    assert "simulated GPU" in legend.last.inner_text()
    lab.shot(f"{name}-profile")


def loops(lab: LabPage, name: str) -> None:
    """A loop tells its turns, and a branch which side of it ran."""
    lab.show_output_of("graph")
    view = lab.visible_view()
    assert {"while", "div", "logical_and"} <= set(view.labels())

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
    lab.shot(f"{name}-profile")

    lab.show_output_of("choice.profile(data, True)")
    choice = lab.visible_view()
    timed = {node["label"] for node in choice.nodes() if node["heat"]}
    assert "softmax" in timed
    assert "div" not in timed
    choice.click("cond")
    words = choice.inspector()
    assert "Result if true" in words
    assert "The run goes on at" in words


def minilm(lab: LabPage, name: str) -> None:
    """Identical layers are one box; the hottest kernel leads to its line."""
    lab.show_output_of("graph")
    view = lab.visible_view()
    run = next(node for node in view.nodes() if node["count"] == 6)
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
    picture = lab.shot(f"{name}-profile")
    if os.environ.get("MAXLAB_UPDATE_IMAGES") and name.endswith(("-light-1440", "-dark-1440")):
        theme = name.split("-")[-2]
        IMAGES.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, IMAGES / f"minilm-{theme}.png")

    # From the node to the line that made it.
    lab.page.locator(".jp-MaxLab-view:visible").get_by_text("cell [2], line").first.click()
    lab.page.wait_for_function(
        """() => {
            const { activeCell } = window.jupyterapp.shell.currentWidget.content;
            return activeCell.model.executionCount === 2
                && activeCell.editor?.getCursorPosition().line > 0;
        }"""
    )


def watch_a_gpu(lab: LabPage, name: str) -> None:
    """The dashboard below the cell marks the runs of the model, and has stopped at the end."""
    lab.show_output_of("monitor")
    board = "window.__maxlabTest.dashboards[0]"
    lab.page.wait_for_function(
        f"""() => {board}?.marks.some(mark => mark.kind === 'run' && mark.name === 'busy')"""
    )
    charts = lab.page.evaluate(f"() => {board}.charts()")
    assert {"CPU", "Host memory"} <= set(charts)
    assert "maxlab tensors" in charts["Host memory"]
    lab.page.evaluate("() => document.querySelector('.jp-MaxLab-dash').scrollIntoView()")
    time.sleep(1)
    lab.shot(f"{name}-dashboard")
    lab.page.wait_for_function(f"() => !{board}.state.running")


def steps_of(lab: LabPage, name: str) -> Locator:
    """The view under the cell of ``%%cuda_sim`` with ``--out name``, scrolled to."""
    index = lab.page.evaluate(
        """(name) => window.jupyterapp.shell.currentWidget.content.widgets.findIndex(cell =>
            cell.model.sharedModel.getSource().split('\\n')[0].endsWith('--out ' + name))""",
        name,
    )
    view = lab.show_cell(index).locator(".mx-cs")
    view.wait_for()
    view.scroll_into_view_if_needed()
    return view


def require_readable(lab: LabPage) -> None:
    """Every text of the views of ``%%cuda_sim`` in sight has enough contrast."""
    found = lab.contrast(".jp-NotebookPanel:not(.lm-mod-hidden) .mx-cs")
    assert len(found) > 50
    poor = {text: ratio for text, ratio in found if ratio < READABLE}
    assert poor == {}


def cuda_sim(lab: LabPage, name: str) -> None:
    """Races, strays, divergence and conflicts are shown where they are."""
    race = steps_of(lab, "race")
    assert "Race in shared memory." in race.inner_text()
    assert race.locator("tr.mx-cs-at").count() == 2
    lab.shot(f"{name}-race")
    require_readable(lab)

    tree = steps_of(lab, "tree")
    steps = tree.get_by_role("radio")
    assert steps.count() == 8  # how they ended, six steps, and a branch
    tree.locator("label", has_text="3").click()
    panel = tree.locator(".mx-cs-panels > div:visible")
    assert panel.count() == 1
    assert "time 3, 8 of 64 threads" in panel.inner_text()
    # One focus for all steps: the arrow keys go from one to the next.
    lab.page.keyboard.press("ArrowRight")
    assert "time 4, 4 of 64 threads" in panel.inner_text()
    first = panel.get_by_title("thread (0, 0, 0)")
    assert first.get_attribute("title") == "thread (0, 0, 0), lane 0 of warp 0: s[t] = 480.0"
    assert first.inner_text() == "480"  # every fourth of 0 … 63
    lab.shot(f"{name}-tree")
    require_readable(lab)

    divergent = steps_of(lab, "divergent")
    divergent.locator("label", has_text="line 7").click()
    ran = divergent.locator(".mx-cs-panels > div:visible td", has_text="●")
    assert ran.count() == 48
    lab.shot(f"{name}-divergent")

    far = steps_of(lab, "far")
    far.locator("summary").first.click()
    assert (
        far.locator("table.mx-cs-strip:visible td[style]").count() == 16
    )  # of 32 sectors, half drawn
    lab.shot(f"{name}-far")
    require_readable(lab)

    plain = steps_of(lab, "plain")
    plain.locator("summary", has_text="banks").last.click()
    assert plain.get_by_title("bank 0: 32 words").first.inner_text() == "32"
    plain.locator("summary", has_text="banks").last.scroll_into_view_if_needed()
    lab.shot(f"{name}-banks")
    require_readable(lab)


def by_hand(lab: LabPage, name: str) -> None:
    """The view that was empty when it was shown has what the cells behind it did."""
    lab.show_output_of("graph.edit()")
    view = lab.visible_view()
    assert {"hidden", "matmul", "softmax"} <= set(view.labels())
    page = lab.page.locator(".jp-MaxLab-view:visible").first
    page.get_by_role("toolbar", name="Edit the graph").wait_for()
    page.get_by_text("one row of x gives four shares").first.wait_for()
    lab.shot(f"{name}-edited")


def canvas_and_code(lab: LabPage, name: str) -> None:
    """The first cell that draws has hints; an edit on its canvas comes into it, and it builds the
    edited graph."""
    lab.show_output_of("graph")
    cell = lab.page.locator(".jp-Cell.jp-mod-active")
    hints = cell.locator(".jp-MaxLab-lineHint")
    hints.first.wait_for()
    hints.nth(3).wait_for()
    texts = hints.all_text_contents()
    assert texts[:2] == ["float32[rows, 16] · ×3", "x: float32[rows, 16] · ×3"], texts
    assert texts[2:] == ["hidden: float32[rows, 16]", "float32[rows, 4]"], texts

    hand = edited(lab)
    replace(hand, "relu", "sigmoid")
    hand.press("Shift+W")
    writing = hand.root.locator(".jp-MaxLab-writing")
    writing.get_by_text("Tried in a copy").wait_for()
    assert writing.locator("mark").all_inner_texts() == ["relu", "sigmoid"]
    lab.shot(f"{name}-difference")
    hand.press("Enter")
    hand.said("written to cell")
    line = cell.locator(".cm-line", has_text="hidden = ").text_content() or ""
    assert "ops.sigmoid(x)  # no negative features" in line, line
    run_again(lab)
    said = lab.page.locator(".jp-Cell.jp-mod-active .jp-MaxLab-view [role=status]").first
    said.filter(has_text="the cell builds the graph that was edited").wait_for()
    lab.shot(f"{name}-run-again")


def values_first(lab: LabPage, name: str) -> None:
    """A tensor says how it is spread, NaN counted, and its button draws the graph that made it; the
    compiled module is drawn with its layers as boxes."""
    lab.show_output_of("F.log(F.abs(x) - 0.05)")
    cell = lab.page.locator(".jp-Cell.jp-mod-active")
    cell.get_by_role("img", name=re.compile("^histogram from ")).wait_for()
    assert re.search(r"mean \S+, \d+ NaN", cell.inner_text()), cell.inner_text()
    lab.shot(f"{name}-tensor")
    cell.get_by_role("button", name="Draw the graph").click()
    cell.locator(".jp-MaxLab-view").wait_for()
    view = lab.visible_view()
    assert {"abs", "sub", "log"} <= set(view.labels())
    view.click("abs")
    lab.shot(f"{name}-graph")
    words = view.inspector()
    assert "F.log(F.abs(x) - 0.05)" in words, words

    lab.show_output_of("compiled")
    assert {"up", "down"} <= set(lab.visible_view().labels())
    lab.shot(f"{name}-compiled")


def requests_and_sampling(lab: LabPage, name: str) -> None:
    """A context tells the states of its tokens, and a slider moves the bars of the view."""
    lab.show_output_of("context.show(vocabulary, outputs=[first])")
    cell = lab.page.locator(".jp-Cell.jp-mod-active")
    title = cell.get_by_title(re.compile(r"^place 22 .*generated, returned, computed")).first
    assert "log probability" in (title.get_attribute("title") or "")
    assert "generated, not returned" in cell.inner_text()
    lab.shot(f"{name}-context")
    lab.show_output_of("view")
    cell = lab.page.locator(".jp-Cell.jp-mod-active")
    # A cell below set the sliders since.
    cell.get_by_text("4 of 27 tokens").wait_for()
    cell.get_by_role("slider", name="top-k, slider").press("ArrowLeft")
    cell.get_by_text("3 of 27 tokens").wait_for()
    lab.shot(f"{name}-sampling")


def from_folder_to_served(lab: LabPage, name: str) -> None:
    """Tokens tell their probabilities and costs; the board goes back, is paused, and is stepped."""
    lab.show_output_of("This is the co")
    cell = lab.page.locator(".jp-Cell.jp-mod-active")
    title = cell.get_by_title(re.compile(r"^token 1: 'w' .*probability .*most probable: 'w'")).first
    assert "(prefill, batch of 1)" in (title.get_attribute("title") or "")
    cell.get_by_text("Every token").click()
    cell.get_by_role("columnheader", name="most probable").wait_for()
    lab.shot(f"{name}-generated")
    lab.show_output_of("board")
    cell = lab.page.locator(".jp-Cell.jp-mod-active")
    cell.get_by_text(re.compile(r"^Step \d+: .* live$")).wait_for()
    slider = cell.get_by_role("slider", name="steps that are shown")
    slider.focus()
    slider.press("ArrowLeft")
    cell.get_by_text(re.compile("1 step before the last one$")).wait_for()
    lab.shot(f"{name}-board")
    lab.show_output_of("stepped")
    cell = lab.page.locator(".jp-Cell.jp-mod-active")
    assert cell.get_by_role("button", name="Step", exact=True).is_disabled()
    cell.get_by_role("button", name="Pause").click()
    cell.get_by_text(re.compile("^Step .* paused$")).wait_for()
    assert cell.get_by_role("button", name="Step", exact=True).is_enabled()
    cell.get_by_role("button", name="Go on").click()
    cell.get_by_text(re.compile("^Step .* live$")).wait_for()


def model_in_bytes(lab: LabPage, name: str) -> None:
    """A layer is kept in floats by a click on the graph, and by the space bar in its box."""
    lab.show_output_of("made")
    cell = lab.page.locator(".jp-Cell.jp-mod-active")
    cell.get_by_text("3 of 3 products multiply bytes").wait_for()
    view = lab.visible_view()
    view.execute("unfold-all")
    view.click("matmul_int8")
    button = cell.get_by_role("button", name=re.compile("^Keep .* in float$"))
    kept = re.sub("^Keep | in float$", "", button.inner_text())
    button.click()
    cell.get_by_text("2 of 3 products multiply bytes").wait_for()
    box = cell.get_by_role("checkbox", name=kept)
    assert box.is_checked()
    box.focus()
    box.press("Space")
    cell.get_by_text("3 of 3 products multiply bytes").wait_for()
    assert not box.is_checked()
    lab.shot(f"{name}-layers")


def panel_says(line: str, panel: str, words: str) -> Claim:
    """The panel ``panel`` of the view below the cell that ends with ``line`` says ``words``."""

    def check(lab: LabPage, name: str) -> None:
        lab.show_output_of(line)
        view = lab.visible_view()
        assert view.read("view.isHeat") is True
        view.execute(f"panel-{panel}")
        body = "view.element.querySelector('.jp-MaxLab-dockBody')"
        view.wait_for(f"{body}.textContent.includes({words!r})", timeout=120)
        lab.shot(f"{name}-{panel}")
        view.execute("toggle-dock")

    return check


CLAIMS: dict[str, Claim] = {
    "01_first_graph.ipynb": first_graph,
    "02_minilm.ipynb": minilm,
    "03_one_graph_two_targets.ipynb": two_targets,
    "04_watch_a_gpu.ipynb": watch_a_gpu,
    "05_cuda_without_a_gpu.ipynb": cuda_sim,
    "06_loops_and_branches.ipynb": loops,
    "07_build_by_hand.ipynb": by_hand,
    "08_canvas_and_code.ipynb": canvas_and_code,
    "09_values_first.ipynb": values_first,
    "10_requests_and_sampling.ipynb": requests_and_sampling,
    "11_from_folder_to_served.ipynb": from_folder_to_served,
    "12_a_model_in_bytes.ipynb": model_in_bytes,
    "profiling/01_reading_a_profile.ipynb": panel_says("profile", "timeline", "slices"),
    "profiling/02_roofline.ipynb": panel_says("profile", "roofline", "held back by"),
    "profiling/03_fusion.ipynb": panel_says("off", "advice", "Try it"),
    "profiling/04_memory_peak.ipynb": panel_says("profile", "memory", "peak"),
}
