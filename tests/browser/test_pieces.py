"""Groups, the clipboard and undo of a graph that is edited by hand, in JupyterLab."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand, fill, graph_text, start

pytestmark = pytest.mark.browser

CHAIN = """
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
with Graph("chain", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.softmax(ops.tanh(ops.exp(x)) * 2))
graph
"""

CELLS = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .map(cell => cell.model.sharedModel.getSource())"""


def open_chain(lab: LabPage, server: LabServer, name: str) -> Hand:
    """A notebook with a view of a chain of operations that is being edited."""
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.open_notebook(write_notebook(server.root, f"{name}.ipynb", []))
    lab.run_code(CHAIN)
    return edit(lab)


def edit(lab: LabPage) -> Hand:
    lab.show_output_of("graph")
    hand = Hand(lab)
    hand.root.get_by_role("button", name="Edit (E)").click()
    hand.said("editing")
    return hand


def choose_two(hand: Hand) -> None:
    """Select ``exp`` and ``tanh`` by the mouse."""
    view = hand.lab.view()
    view.settle()
    view.click("exp")
    hand.lab.page.keyboard.down("Shift")
    view.click("tanh")
    hand.lab.page.keyboard.up("Shift")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_group_is_made_named_folded_and_put_back(
    open_lab: OpenLab, server: LabServer, theme: str
) -> None:
    lab = open_lab(theme)
    lab.page.set_viewport_size({"width": 900, "height": 900})
    hand = open_chain(lab, server, f"group-{theme}")
    before = graph_text(lab)
    lab.show_output_of("graph")
    choose_two(hand)
    hand.press("g")
    hand.form.wait_for()
    assert lab.barriers(".jp-MaxLab-editing") == []
    lab.shot(f"pieces-form-{theme}")
    fill(hand, name="squash")
    hand.said("made the group squash of 2 operations")
    lab.view().settle()
    lab.shot(f"pieces-group-{theme}")
    assert "// squash" in graph_text(lab)

    lab.show_output_of("graph")
    hand.item("squash").focus()
    hand.press("Control+z")
    hand.said("undone")
    assert graph_text(lab) == before
    lab.show_output_of("graph")
    hand.item("exp").focus()
    hand.press("Control+y")
    hand.said("done again")
    lab.view().settle()
    lab.view().click("squash")
    hand.press("Shift+G")
    hand.said("dissolved squash")
    assert graph_text(lab) == before


def test_a_path_that_leaves_the_group_is_said(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    hand = open_chain(lab, server, "group-refused")
    view = lab.view()
    view.settle()
    view.click("exp")
    lab.page.keyboard.down("Shift")
    view.click("softmax")
    lab.page.keyboard.up("Shift")
    hand.press("g")
    hand.form.wait_for()
    hand.press("Enter")
    wrong = hand.form.get_by_role("alert")
    wrong.wait_for()
    assert "stands between them" in wrong.inner_text()
    hand.shot("group-refused")


def test_operations_are_copied_from_one_notebook_into_another(
    open_lab: OpenLab, server: LabServer
) -> None:
    lab = open_lab("light")
    first = open_chain(lab, server, "copied-from")
    choose_two(first)
    first.press("Control+c")
    first.said("copied 2 operations")
    clip: Any = json.loads(lab.page.evaluate("() => navigator.clipboard.readText()"))
    assert clip["format"] == "maxlab.clip"
    assert [op["name"] for op in clip["graph"]["ops"][:2]] == ["mo.exp", "mo.tanh"]

    lab.close_all()
    hand = start(lambda _theme: lab, server, "pasted-into")
    second = edit(hand)
    before = graph_text(hand)
    hand.show_output_of("graph")
    hand.view().click("exp")
    cells = hand.page.evaluate(CELLS)
    second.press("Control+v")
    second.said("pasted 2 operations")
    hand.view().settle()
    assert hand.page.evaluate(CELLS) == cells  # the notebook did not take the key for its own
    second.shot("pasted")
    # What was pasted is selected: it is cut, and pasted again.
    second.press("Control+x")
    second.said("removed 2 items")
    hand.view().settle()
    second.press("Control+v")
    second.said("pasted 2 operations")
    hand.view().settle()
    after = graph_text(hand)
    assert (after.count("mo.exp"), after.count("mo.tanh")) == (2, 1)
    hand.show_output_of("graph")
    second.item("exp").focus()
    for _ in range(3):
        second.press("Control+z")
    hand.page.wait_for_function(
        """() => document.querySelector('[data-command="edit-undo"]')
            .getAttribute('aria-disabled') === 'true'"""
    )
    assert graph_text(hand) == before


def test_text_that_is_no_clip_is_refused_and_said(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    hand = open_chain(lab, server, "bad-clip")
    before = graph_text(lab)
    lab.show_output_of("graph")
    lab.page.evaluate("() => navigator.clipboard.writeText('def f(x): return x')")
    lab.view().click("exp")
    hand.press("Control+v")
    hand.said("this cannot be pasted")
    assert graph_text(lab) == before


def test_undo_of_the_cell_is_that_of_its_text(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    hand = open_chain(lab, server, "cell-undo")
    lab.view().click("exp")
    hand.press("Shift+D")
    hand.said("added 1 operation once more")
    after = graph_text(lab)
    lab.show_output_of("graph")
    editor = lab.page.locator(".jp-Notebook .jp-CodeCell .cm-content").last
    editor.click()
    editor.press_sequentially("y = 1")
    text = editor.inner_text()
    for _ in range(8):
        hand.press("Control+z")
    assert editor.inner_text() != text
    assert "y = 1" not in editor.inner_text()
    assert graph_text(lab) == after


ORDER = """
from maxlab.graph import Editor
shown = [op.id for op in graph.function.ops]
editor = Editor(other)
editor.duplicate("n0")
for number in range(100):
    if number % 4 == 3:
        editor.undo()
    else:
        editor.duplicate("n0")
print(shown == [op.id for op in other.function.ops], len(shown))
"""


def test_edits_that_are_not_waited_for_come_in_order(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    hand = open_chain(lab, server, "many-edits")
    lab.view().click("exp")
    hand.press("Shift+D")
    hand.said("added 1 operation once more")
    lab.view().settle()
    lab.view().click("exp")
    done = lab.view().read(
        """(() => {
            let done = 0;
            for (let number = 0; number < 100; number += 1) {
                done += view.execute(number % 4 === 3 ? 'edit-undo' : 'edit-duplicate') ? 1 : 0;
            }
            view.execute('edit-output');
            return done;
        })()"""
    )
    assert done == 100
    hand.said("the graph gives exp")
    lab.run_code(CHAIN.replace(" as graph", " as other").replace("graph.", "other."))
    found = lab.run_code(ORDER)
    assert found[0]["text"].split() == ["True", str(6 + 51)]
