"""Differences of documents in tabs of JupyterLab, and conflicts of a merged one in its editor."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import maxlab
from maxlab.dtype import DType
from maxlab.graph import Editor, Graph, TensorType, ops
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand
from tests.browser.test_editor import open_document, tab, wait_until

pytestmark = pytest.mark.browser

TAB = ".jp-MaxLab-file:visible"
ROWS = f"{TAB} .jp-MaxLab-difference"


def build(is_new: bool) -> Graph:
    with Graph("scores", input_types=[TensorType(DType.float32, ["batch", 8])]) as graph:
        x = ops.exp(graph.inputs[0].tensor)
        x = ops.tanh(ops.relu(x)) if is_new else ops.tanh(ops.abs(x))
        graph.output(ops.softmax(x, axis=0 if is_new else -1))
    return graph


@pytest.fixture
def folder(server: LabServer) -> Path:
    """A repository with a document that was committed, and others."""
    made = server.root / "compared"
    made.mkdir(exist_ok=True)
    build(False).save(made / "one.mlgraph")
    for arguments in (
        ["init", "-q"],
        ["add", "one.mlgraph"],
        ["-c", "user.name=me", "-c", "user.email=me@x", "commit", "-qm", "one", "--allow-empty"],
    ):
        subprocess.run(["git", *arguments], cwd=made, check=True)
    build(True).save(made / "two.mlgraph")
    (made / "cut.mlgraph").write_text("{", "utf-8")
    base, ours, theirs = build(False), build(False), build(False)
    Editor(ours).set_attribute("n3", "axis", 0)
    Editor(theirs).replace("n3", "tanh")
    Editor(theirs).insert("sqrt", "n0", 0)
    maxlab.merge(base, ours, theirs).save(made / "merged.mlgraph")
    return made


def compare(lab: LabPage, before: str, after: str) -> None:
    lab.execute(
        "maxlab:compare-graphs", {"before": f"compared/{before}", "after": f"compared/{after}"}
    )


def test_two_documents_in_one_picture(shared: LabPage, folder: Path) -> None:
    lab = shared
    lab.execute("filebrowser:open-path", {"path": "compared"})
    items = lab.page.locator(".jp-DirListing-item[data-file-type='maxlab-graph']")
    items.filter(has_text="one.mlgraph").click()
    items.filter(has_text="two.mlgraph").click(modifiers=["Control"])
    items.filter(has_text="two.mlgraph").click(button="right")
    lab.page.get_by_role("menuitem", name="Compare Graphs").click()
    rows = lab.page.locator(ROWS)
    rows.first.wait_for()
    view = lab.view()
    view.settle()
    names = rows.locator(".jp-MaxLab-differenceName").all_text_contents()
    assert {"relu", "abs", "softmax"} <= set(names)
    labels = view.labels()
    assert {"relu", "abs", "softmax"} <= set(labels), "both sides are drawn"
    lab.shot("compare-one-light")
    lab.page.set_viewport_size({"width": 900, "height": 700})
    view.settle()
    lab.shot("compare-one-900")
    lab.page.set_viewport_size({"width": 1400, "height": 900})
    lab.set_theme("dark")
    view.settle()
    lab.shot("compare-one-dark")
    lab.set_theme("light")

    # By keys alone: from the list to what is gone, and to the other way of looking.
    lab.page.locator(f"{TAB} .jp-MaxLab-differenceRows").focus()
    for _ in range(names.index("abs") + 1):
        lab.page.keyboard.press("ArrowDown")
    view.wait_for("view.selection.length === 1 && view.selection[0].endsWith('~')")
    assert lab.barriers(".jp-MaxLab-differences") == []
    lab.page.get_by_role("button", name="Show the graphs side by side").press("Enter")
    view.settle()
    assert "abs" not in view.labels()
    lab.shot("compare-two-light")
    lab.page.get_by_role("button", name="Show both graphs in one picture").press("Enter")
    view.settle()
    assert "abs" in view.labels()
    lab.close_all()

    lab.allowed.append("maxlab/graphs/compare")  # the server refuses the damaged one
    compare(lab, "one.mlgraph", "cut.mlgraph")
    alert = lab.page.locator(f"{TAB} .jp-MaxLab-unreadable")
    alert.wait_for()
    assert "ML864" in (alert.text_content() or "")
    lab.close_all()


def test_conflicts_are_decided_in_the_editor(shared: LabPage, folder: Path) -> None:
    lab = shared
    open_document(lab, "compared/merged.mlgraph")
    view = lab.view()
    view.settle()
    conflicts = tab(lab).get_by_role("region", name="Conflicts of a merge")
    conflicts.wait_for()
    assert "1 conflict of a merge to decide" in (conflicts.text_content() or "")
    lab.shot("conflicts-light")
    assert lab.barriers(".jp-MaxLab-conflicts") == []
    # Nothing waits for it: it is run and saved as one side has it, and the conflict stays.
    hand = Hand(lab)
    view.execute("run")
    hand.form.get_by_role("button", name="Apply").click()
    hand.said("ran, as 'ours' has it: 1 conflict of a merge left to decide")
    lab.shot("conflicts-ran")
    before = (folder / "merged.mlgraph").read_bytes()
    lab.execute("docmanager:save")
    assert (folder / "merged.mlgraph").read_bytes() == before
    conflicts.get_by_role("button", name="Take theirs").press("Enter")
    conflicts.wait_for(state="hidden")
    view.settle()
    assert "softmax" not in view.labels()
    lab.execute("maxlab:compare-with-saved")
    rows = lab.page.locator(ROWS)
    rows.first.wait_for()
    names = rows.locator(".jp-MaxLab-differenceName").all_text_contents()
    assert {"softmax", "tanh"} <= set(names)
    lab.shot("compare-saved")
    lab.page.locator(".lm-TabBar-tab.lm-mod-current .lm-TabBar-tabCloseIcon").last.click()
    tab(lab).wait_for()
    wait_until(lab, True)
    view.execute("edit-undo")
    conflicts.wait_for()
    conflicts.get_by_role("button", name="Take theirs").press("Enter")
    conflicts.wait_for(state="hidden")
    lab.page.keyboard.press("Control+s")
    wait_until(lab, False)
    graph = maxlab.open(folder / "merged.mlgraph")
    assert isinstance(graph, Graph)
    assert not graph.document.conflicts
    lab.close_all()

    # What is edited is compared with what was committed.
    Editor(opened := build(False)).set_attribute("n3", "axis", 0)
    opened.save(folder / "one.mlgraph")
    open_document(lab, "compared/one.mlgraph")
    lab.view().settle()
    lab.execute("maxlab:compare-with-head")
    rows = lab.page.locator(ROWS)
    rows.first.wait_for()
    assert rows.locator(".jp-MaxLab-differenceWhat").all_text_contents() == ["axis: -1 → 0"]
    lab.close_all()


CELL = """
import maxlab
from maxlab.graph import Graph, TensorType, ops
row = TensorType(maxlab.float32, ["n", 8])
graph = Graph("again", lambda x: ops.softmax(ops.{0}(x)), [row])
graph
"""


def test_two_runs_of_a_cell(shared: LabPage, server: LabServer) -> None:
    lab = shared
    lab.open_notebook(write_notebook(server.root, "again.ipynb", []))
    lab.run_code(CELL.format("exp"))
    lab.view().settle()
    lab.page.evaluate(
        """async (source) => {
            const { content } = window.jupyterapp.shell.currentWidget;
            content.activeCell.model.sharedModel.setSource(source);
            await window.jupyterapp.commands.execute('notebook:run-cell');
        }""",
        CELL.format("tanh"),
    )
    lab.page.wait_for_function(
        "() => window.__maxlabTest?.views.at(-1)?.nodes().some(({ label }) => label === 'tanh')"
    )
    lab.execute("maxlab:compare-with-run-before")
    rows = lab.page.locator(ROWS)
    rows.first.wait_for()
    told = " ".join(rows.all_text_contents())
    assert "exp" in told
    assert "tanh" in told
    lab.page.wait_for_timeout(800)
    lab.shot("compare-runs-of-a-cell")
    lab.close_all()
