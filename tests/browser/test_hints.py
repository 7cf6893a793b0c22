"""Hints beside the code of cells and files, in a real JupyterLab."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.documents import write_notebook
from tests.browser.page import TIMEOUT, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser
expect.set_options(timeout=TIMEOUT * 1000)

BUILD = """import numpy as np
from maxlab import engine, ops
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType

weight = np.full((4, 10), 0.5, np.float32)

def layer(x):
    return ops.relu(x @ weight)

with Graph("small", input_types=[TensorType(DType.float32, ["batch", 4])]) as graph:
    x = graph.inputs[0].tensor
    y = layer(x)
    for step in range(12):
        y = ops.softmax(y * 2)
    root = ops.sqrt(y - 1)
    graph.output(root)"""
RUN = """import maxlab
model = engine.InferenceSession().load(graph)
model.profile(np.ones((64, 4), np.float32), runs=5)
maxlab.first_nonfinite(model, np.ones((64, 4), np.float32))"""
HINT = ".jp-MaxLab-lineHint"
SOURCE = "window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.getSource()"


def hints(cell: Locator) -> Locator:
    """The hints that are drawn in a cell."""
    return cell.locator(HINT)


def cell_with(lab: LabPage, text: str) -> Locator:
    """The cell of the notebook that has this text."""
    return lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell", has_text=text)


def to_line(lab: LabPage, cell: Locator, line: str) -> None:
    """Put the cursor at the end of a line."""
    cell.locator(".cm-line", has_text=line).first.click()
    lab.page.keyboard.press("End")
    lab.page.mouse.move(5, 5)  # where it rests on no line


@pytest.fixture(scope="module")
def notebook(shared_page: LabPage, server: LabServer) -> LabPage:
    """A notebook with a graph that was built, timed and searched for NaN."""
    shared_page.open_notebook(write_notebook(server.root, "hints.ipynb", []))
    shared_page.run_code(BUILD)
    shared_page.run_code(RUN)
    return shared_page


def test_lines_say_what_they_made_and_follow_edits(shared: LabPage, notebook: LabPage) -> None:
    page = shared.page
    cell = cell_with(shared, "def layer")
    expect(hints(cell)).to_have_count(4)
    texts = hints(cell).all_text_contents()
    assert texts[0].startswith("float32[batch, 10] · ")
    assert texts[1] == f"y: {texts[0]}"  # a call of the function
    assert re.fullmatch(r"y: float32\[batch, 10\] · ×12, \S+ \S+ · \S+%", texts[2])
    assert texts[3].startswith("root: float32[batch, 10] · ")
    mark = cell.locator(".jp-MaxLab-lineMark")
    expect(mark).to_have_attribute("data-kind", "nan")
    expect(mark).to_have_attribute("aria-label", "NaN began here")
    assert "sqrt" in str(mark.get_attribute("title"))
    shared.shot("hints-light")
    assert shared.barriers(".jp-MaxLab-lineMarks") == []

    # The text of the cell, and what is copied of it, is the code alone.
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+C")
    assert page.evaluate("navigator.clipboard.readText()") == BUILD

    # Edited: greyed. Moved: it goes along. As it was again: fresh.
    to_line(shared, cell, "root = ops")
    page.keyboard.type("  # or not")
    expect(cell.locator(f"{HINT}.jp-mod-stale")).to_have_count(1)
    to_line(shared, cell, "x = graph.inputs")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(cell.locator(".cm-line", has_text="root = ops").locator(HINT)).to_have_count(1)
    to_line(shared, cell, "y = ops.softmax")
    page.keyboard.press("Control+Shift+K")
    expect(hints(cell)).to_have_count(3)
    shared.shot("hints-edited")
    for _ in range(8):
        if page.evaluate(SOURCE) != BUILD:
            page.keyboard.press("Control+Z")
    assert page.evaluate(SOURCE) == BUILD
    expect(hints(cell)).to_have_count(4)
    expect(cell.locator(f"{HINT}.jp-mod-stale")).to_have_count(0)


def test_the_card_of_a_line_and_its_graph(shared: LabPage, notebook: LabPage) -> None:
    page = shared.page
    cell = cell_with(shared, "def layer")
    to_line(shared, cell, "root = ops")
    page.keyboard.press("Alt+Shift+H")
    card = page.get_by_role("dialog", name="What line 16 made")
    card.wait_for()
    expect(card).to_contain_text("root: float32[batch, 10]")
    expect(card).to_contain_text("NaN began here")
    shared.shot("hints-card")
    assert shared.barriers(".jp-MaxLab-card") == []
    assert all(ratio >= 4.5 for _, ratio in shared.contrast(".jp-MaxLab-card"))
    page.keyboard.press("Escape")
    card.wait_for(state="detached")
    assert page.evaluate("document.activeElement.classList.contains('cm-content')")
    # The mouse opens it, too.
    cell.locator(".cm-line", has_text="root = ops").locator(HINT).hover()
    card.wait_for()
    page.mouse.move(5, 5)
    card.wait_for(state="detached")
    notebook_tab = shared.current_id()
    shared.execute("maxlab:show-line")
    card.get_by_role("button", name="Show on small").click()
    view = shared.visible_view()
    view.wait_for("view.selection.length > 0")
    assert view.read("view.selection") == ["n40", "n41"]  # sub and sqrt
    shared.shot("hints-on-graph")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.close()")
    shared.activate(notebook_tab)


def test_operations_and_arguments_are_completed(shared: LabPage, notebook: LabPage) -> None:
    page = shared.page
    shared.run_code("kept = 1")
    cell = cell_with(shared, "kept = 1")
    for typed, wanted, label in [
        ("\nops.softm", "ops.softmax", "softmax"),
        ("(y, ax", "ops.softmax(y, axis=", "axis="),
        ("-1)\nops.sort(y, desc", "descending=", "descending="),
        ("Tr", "ops.sort(y, descending=True", "True"),
    ]:
        to_line(shared, cell, cell.locator(".cm-line").last.text_content() or "kept = 1")
        page.keyboard.press("Control+End")
        page.keyboard.insert_text(typed)
        page.keyboard.press("Tab")
        completer = page.locator(".jp-Completer:visible")
        expect(completer.or_(cell.get_by_text(wanted))).to_be_visible()
        if completer.is_visible():
            labels = completer.locator(".jp-Completer-match").all_text_contents()
            assert labels.count(label) == 1, labels
            shared.shot(f"hints-complete-{label.strip('=')}")
            page.keyboard.press("Enter")
        expect(cell.locator(".cm-content")).to_contain_text(wanted)


def test_files_that_were_imported_have_hints(
    shared: LabPage, notebook: LabPage, server: LabServer
) -> None:
    page = shared.page
    file = server.root / "hinted_layer.py"
    file.write_text("def layer(x):\n    y = x + x\n    return y * y\n", "utf-8")
    shared.run_code(
        "import hinted_layer\n"
        "with Graph('other', input_types=[TensorType(DType.float32, [3])]) as other:\n"
        "    hinted_layer.layer(other.inputs[0].tensor)"
    )
    notebook_tab = shared.current_id()
    shared.execute("docmanager:open", {"path": "hinted_layer.py", "factory": "Editor"})
    editor = page.locator(".jp-FileEditor:visible")
    expect(hints(editor)).to_have_text(["y: float32[3]", "float32[3]"])
    editor.locator(".cm-line").first.click()
    page.keyboard.press("End")
    page.keyboard.type("  # changed")
    expect(editor.locator(f"{HINT}.jp-mod-stale")).to_have_count(2)
    shared.shot("hints-file")
    for _ in range(12):  # slow typing is undone in several steps
        if "#" in (editor.locator(".cm-content").text_content() or ""):
            page.keyboard.press("Control+Z")
    expect(editor.locator(f"{HINT}.jp-mod-stale")).to_have_count(0)
    page.evaluate(
        "() => { const tab = window.jupyterapp.shell.currentWidget;"
        " tab.context.model.dirty = false; tab.close(); }"
    )
    shared.activate(notebook_tab)


def test_one_command_switches_all_off_and_a_restart_clears(
    shared: LabPage, notebook: LabPage
) -> None:
    page = shared.page
    shared.show_cell(1)
    cell = cell_with(shared, "def layer")
    expect(hints(cell)).to_have_count(4)
    shared.execute("maxlab:toggle-hints")
    expect(page.locator(f"{HINT}, .jp-MaxLab-lineMark")).to_have_count(0)
    assert '"enabled": false' in page.evaluate(
        "async () => (await window.jupyterapp.serviceManager.settings"
        ".fetch('maxlab-extension:hints')).raw"
    )
    shared.execute("maxlab:toggle-hints")
    expect(hints(cell)).to_have_count(4)
    saved = page.evaluate(
        "() => JSON.stringify(window.jupyterapp.shell.currentWidget.context.model.toJSON())"
    )
    assert "×12" not in saved
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    expect(page.locator(f"{HINT}, .jp-MaxLab-lineMark")).to_have_count(0)


def test_failed_operations_are_marked_in_dark_and_narrow(
    lab: LabPage, server: LabServer, theme: str
) -> None:
    lab.open_notebook(write_notebook(server.root, f"hints-{theme}.ipynb", []))
    lab.run_code(BUILD)
    cell = cell_with(lab, "def layer")
    expect(hints(cell)).to_have_count(4)
    broken = BUILD.replace("root = ops.sqrt(y - 1)", "root = y @ weight").replace("small", "broken")
    lab.run_code(broken, wait=False)
    mark = lab.page.locator('.jp-MaxLab-lineMark[data-kind="failed"]')
    mark.wait_for()
    lab.page.set_viewport_size({"width": 900, "height": 700})
    lab.shot(f"hints-{theme}-900")
    assert all(ratio >= 4.5 for _, ratio in lab.contrast(HINT))
    # A hint ends where its cell does, and makes nothing scroll.
    outside = lab.page.evaluate(
        """(selector) => [...document.querySelectorAll(selector)].filter(hint =>
            hint.getBoundingClientRect().right >
            hint.closest('.cm-scroller').getBoundingClientRect().right).length""",
        HINT,
    )
    assert outside == 0
    mark.click()
    lab.page.get_by_role("dialog", name="What line 16 made").wait_for()
    lab.shot(f"hints-{theme}-failed")
