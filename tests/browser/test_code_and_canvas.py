"""A graph and the cell that builds it: edits of the one come into the other, and are taken back."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand

pytestmark = pytest.mark.browser

IMPORTS = """
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
"""

CELL = """# größe und form
with Graph("net", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
    x = graph.inputs[0].tensor  # é
    h = ops.relu(x * 2)
    y = ops.softmax(
        h,
        axis=-1,  # rows
    )
    graph.output(ops.exp(y))
graph"""

LAYERS = """def layer(x):
    return ops.softmax(ops.tanh(x), axis=-1)
layers = Graph("layers", lambda x: layer(layer(x)), [TensorType(DType.float32, ["n", 8])])
layers"""

SOURCE = """() => window.jupyterapp.shell.currentWidget.content.activeCell
    .model.sharedModel.getSource()"""


def source(lab: LabPage) -> str:
    found: str = lab.page.evaluate(SOURCE)
    return found


def edited(lab: LabPage) -> Hand:
    """The view of the active cell, with editing on."""
    root = lab.page.locator(".jp-Cell.jp-mod-active .jp-MaxLab-view")
    root.wait_for()
    root.scroll_into_view_if_needed()
    hand = Hand(lab)
    hand.root = root
    hand.strip = root.get_by_role("toolbar", name="Edit the graph")
    hand.form = root.locator(".jp-MaxLab-changeForm")
    root.get_by_role("button", name="Edit (E)").click()
    hand.said("editing")
    return hand


def replace(hand: Hand, old: str, new: str) -> None:
    hand.choose(old)
    hand.press("Shift+R")
    hand.root.get_by_role("option").first.wait_for()
    hand.type(new)
    hand.option(new).wait_for()
    hand.press("Enter")
    hand.said(f"replaced {old} by {new}")


def run_again(lab: LabPage) -> None:
    """Run the active cell, and wait for its new view."""
    lab.page.evaluate(
        """async () => {
            const { commands, shell } = window.jupyterapp;
            document.querySelectorAll('.jp-Cell.jp-mod-active .jp-MaxLab-view')
                .forEach(view => view.setAttribute('data-old', ''));
            await commands.execute('notebook:run-cell');
            const { outputs } = shell.currentWidget.content.activeCell.model;
            const failed = outputs.toJSON().find(one => one.output_type === 'error');
            if (failed) throw new Error(failed.evalue);
        }"""
    )
    lab.page.locator(
        ".jp-Cell.jp-mod-active .jp-MaxLab-view:not([data-old]) [role=treeitem]"
    ).first.wait_for()


def beside(lab: LabPage, text: str) -> str:
    """What ``text`` prints, run in the kernel without a cell."""
    found: str = lab.page.evaluate(
        """async (code) => {
            const { sessionContext } = window.jupyterapp.shell.currentWidget;
            let printed = '';
            const future = sessionContext.session.kernel.requestExecute({ code });
            future.onIOPub = ({ header, content }) => {
                if (header.msg_type === 'stream') printed += content.text;
                if (header.msg_type === 'error') printed += content.evalue;
            };
            await future.done;
            return printed.trim();
        }""",
        text,
    )
    return found


def test_edits_come_into_the_cell_and_into_the_graph(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    lab.open_notebook(write_notebook(server.root, "code-and-canvas.ipynb", []))
    lab.run_code(IMPORTS)
    lab.run_code(CELL)
    hand = edited(lab)

    # ---- canvas to code: an operation is exchanged and moved, and the cell follows
    replace(hand, "relu", "tanh")
    hand.choose("tanh")
    hand.press("Shift+ArrowRight", "Shift+ArrowRight")
    hand.said("moved")
    hand.press("Shift+W")
    writing = hand.root.locator(".jp-MaxLab-writing")
    writing.get_by_text("Tried in a copy").wait_for()
    assert source(lab) == CELL  # nothing is written before it is accepted
    changed = writing.locator("mark").all_inner_texts()
    assert changed == ["relu", "tanh"]
    assert lab.barriers(".jp-MaxLab-writing") == []
    lab.shot("writing-light")
    for theme in ("dark", "contrast"):
        lab.set_theme(theme)
        assert lab.barriers(".jp-MaxLab-writing") == []
        lab.shot(f"writing-{theme}")
    lab.set_theme("light")
    lab.page.set_viewport_size({"width": 900, "height": 900})
    lab.shot("writing-900")
    lab.page.set_viewport_size({"width": 1440, "height": 900})
    writing.get_by_role("button", name="Write it to the cell").focus()
    hand.press("Enter")
    hand.said("written to cell")
    written = CELL.replace("relu", "tanh")
    assert source(lab) == written

    # ---- one key takes it back, and it can be written again
    hand.press("Escape")
    hand.item("tanh").focus()
    hand.press("Shift+V")
    hand.said("the cell is as it was")
    assert source(lab) == CELL
    hand.press("Shift+W")
    writing.get_by_text("Tried in a copy").wait_for()
    hand.press("Enter")
    hand.said("written to cell")
    assert source(lab) == written
    lab.shot("written-light")

    # ---- the cell that runs again builds the graph, which keeps its place
    beside(lab, "was = graph")
    run_again(lab)
    live = lab.page.locator(".jp-Cell.jp-mod-active .jp-MaxLab-view [role=status]").first
    live.filter(has_text="the cell builds the graph that was edited").wait_for()
    equal = beside(
        lab,
        "from maxlab.graph.code import are_equal\n"
        "tanh = lambda g: next(o.id for o in g.function.ops if o.name == 'mo.tanh')\n"
        "print(are_equal(was.function, graph.function),"
        " was.document.places[tanh(was)] == graph.document.places[tanh(graph)])",
    )
    assert equal == "True True"

    # ---- code to canvas: a line in the middle, and the graph follows, places kept, marked
    lab.page.evaluate(
        """() => {
            const { sharedModel } = window.jupyterapp.shell.currentWidget.content.activeCell.model;
            const at = sharedModel.getSource().indexOf('    y = ');
            sharedModel.updateSource(at, at, '    h = ops.sigmoid(h)\\n');
        }"""
    )
    beside(lab, "was = graph")
    run_again(lab)
    live.filter(has_text="1 changed, 1 new since the last run").wait_for()
    kept = beside(
        lab, "print(was.document.places[tanh(was)] == graph.document.places[tanh(graph)])"
    )
    assert kept == "True"
    lab.shot("code-to-canvas")

    # ---- what the cell has in the meantime is not written over
    hand = edited(lab)
    replace(hand, "sigmoid", "relu")
    lab.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel
            .updateSource(0, 0, '# mine\\n')"""
    )
    before = source(lab)
    hand.press("Shift+W")
    writing = hand.root.locator(".jp-MaxLab-writing")
    writing.get_by_role("button", name="Write it to the cell").wait_for()
    hand.press("Enter")
    writing.get_by_text("the cell was edited since it ran").wait_for()
    assert source(lab) == before
    lab.shot("writing-refused")
    hand.press("Escape")

    # ---- the cell's own undo takes back what was typed, and what was written
    undone = lab.page.evaluate(
        """() => {
            const { sharedModel } = window.jupyterapp.shell.currentWidget.content.activeCell.model;
            const found = [];
            for (let n = 0; n < 8 && sharedModel.canUndo(); n++) {
                sharedModel.undo();
                found.push(sharedModel.getSource());
            }
            return found;
        }"""
    )
    assert written in undone
    assert CELL in undone


def test_a_line_of_several_operations_gets_a_parameter(
    open_lab: OpenLab, server: LabServer
) -> None:
    lab = open_lab("dark")
    lab.open_notebook(write_notebook(server.root, "code-parameter.ipynb", []))
    lab.run_code(IMPORTS)
    lab.run_code(LAYERS)
    hand = edited(lab)
    hand.choose("softmax")
    hand.press("F2")
    hand.form.wait_for()
    hand.form.get_by_label("axis").fill("0")
    hand.press("Enter")
    hand.said("changed softmax")
    hand.press("Shift+W")
    writing = hand.root.locator(".jp-MaxLab-writing")
    writing.get_by_text(re.compile("called several times.*ML873")).wait_for()
    assert lab.barriers(".jp-MaxLab-writing") == []
    lab.shot("writing-ways-dark")
    writing.get_by_role("button", name="Make it a parameter").click()
    writing.get_by_text("layer gets the parameter axis").wait_for()
    lab.shot("writing-parameter-dark")
    hand.press("Enter")
    hand.said("written to cell")
    text = source(lab)
    assert "def layer(x, axis=-1):" in text
    assert text.count("axis=0") == 1
    run_again(lab)
    live = lab.page.locator(".jp-Cell.jp-mod-active .jp-MaxLab-view [role=status]").first
    live.filter(has_text="the cell builds the graph that was edited").wait_for()
