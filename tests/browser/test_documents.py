"""Documents as files: changed, deleted and moved on the disk while they are open, and edited on
when their kernel is restarted, shut down, changed or killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from maxlab.graph import Editor, Graph
from tests.browser.page import VIEWPORT, LabPage
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand, add
from tests.browser.test_editor import (
    choose_python,
    doubled,
    is_dirty,
    menu,
    notice,
    open_document,
    saved,
    try_to_save,
    wait_until,
)

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def alone(shared: LabPage) -> Iterator[None]:
    """Nothing is open before a test, nor after it."""
    # JupyterLab looks now and then whether what was open lately is still there.
    shared.allowed.append("api/contents/kept")
    yield
    shared.close_all()


@pytest.fixture(scope="module")
def folder(server: LabServer) -> Path:
    """A folder of the server for documents."""
    made = server.root / "kept"
    made.mkdir(exist_ok=True)
    return made


def names(graph: Graph) -> list[str]:
    return [op.name.removeprefix("mo.") for op in graph.function.ops if not op.ends_block]


def change_on_disk(path: Path) -> Graph:
    """Let somebody else put an operation into the document at ``path``, a moment later."""
    graph = saved(path)
    (gelu,) = [op.id for op in graph.function.ops if op.name == "mo.gelu"]
    Editor(graph).insert("sqrt", gelu, 0)
    graph.save(path)
    later = path.stat().st_mtime + 5
    os.utime(path, (later, later))
    return graph


def press(lab: LabPage, title: str, button: str) -> None:
    """Press a button of JupyterLab's question ``title``."""
    dialog = lab.page.locator(".jp-Dialog").filter(has_text=title)
    dialog.wait_for()
    dialog.get_by_role("button", name=button).click()
    dialog.wait_for(state="detached")


def live(lab: LabPage, name: str) -> None:
    """Wait until the document ``name`` is seen, and its graph is in a kernel and edited."""
    lab.page.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text=name).click()
    lab.page.wait_for_function(
        """() => {
            const { view, session } = window.jupyterapp.shell.currentWidget?.content ?? {};
            return session?.state === 'open' && view?.editing.isOn && !view.editing.isAlone;
        }"""
    )
    notice(lab).wait_for(state="hidden")


def labels(lab: LabPage, label: str, are_there: bool = True) -> None:
    """Wait until the graph that is seen has a node ``label``, or has none."""
    lab.page.wait_for_function(
        "([label, there]) => window.__maxlabTest?.views.some("
        "view => view.nodes().some(node => node.label === label)) === there",
        arg=[label, are_there],
    )


def test_a_file_that_somebody_else_changed(
    shared: LabPage, server: LabServer, folder: Path
) -> None:
    """It is kept, taken or written over, as the person says; nothing is lost before that."""
    lab = shared
    lab.allowed += ["api/contents", "File Save Error"]
    path = folder / "changed.mlgraph"
    doubled(path)
    open_document(lab, "kept/changed.mlgraph")
    hand = Hand(lab)
    labels(lab, "gelu")
    # Without edits: the newer one is taken.
    change_on_disk(path)
    try_to_save(lab)
    press(lab, "File Changed", "Revert")
    labels(lab, "sqrt")
    wait_until(lab, False)

    # With edits: to cancel leaves both as they are.
    lab.view().click("gelu")
    add(hand, "exp")
    theirs = change_on_disk(path)
    try_to_save(lab)
    dialog = lab.page.locator(".jp-Dialog").filter(has_text="File Changed")
    dialog.wait_for()
    lab.shot("documents-changed")
    press(lab, "File Changed", "Cancel")
    assert is_dirty(lab)
    assert names(saved(path)) == names(theirs)
    labels(lab, "exp")
    lab.shot("documents-kept")

    # To write over it has what is edited here, and steps back go on.
    try_to_save(lab)
    press(lab, "File Changed", "Overwrite")
    wait_until(lab, False)
    assert names(saved(path)) == ["constant", "mul", "sqrt", "gelu", "exp"]
    hand.press("u")
    hand.said("undone")
    wait_until(lab, True)

    # To revert drops what is edited here, and the graph is edited on.
    change_on_disk(path)
    try_to_save(lab)
    press(lab, "File Changed", "Revert")
    wait_until(lab, False)
    labels(lab, "exp")
    lab.view().click("exp")
    add(hand, "tanh")
    lab.execute("docmanager:save")
    wait_until(lab, False)
    assert names(saved(path)).count("sqrt") == 2
    assert names(saved(path))[-1] == "tanh"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_document_at_900_px(shared: LabPage, server: LabServer, folder: Path, theme: str) -> None:
    """It has no button for the cell that it does not have, and what a run gave leaves the graph in
    sight."""
    lab = shared
    name = f"narrow-{theme}.mlgraph"
    doubled(folder / name)
    lab.set_theme(theme)
    open_document(lab, f"kept/{name}")
    live(lab, name)
    lab.page.set_viewport_size({"width": 900, "height": 900})
    assert lab.page.locator("[data-command=edit-save]").count() == 1
    assert lab.page.locator("[data-command=edit-write]").count() == 0
    hand = Hand(lab)
    run(lab, hand)
    lab.shot(f"document-ran-900-{theme}")
    card = lab.page.locator(".jp-MaxLab-ran:visible").bounding_box()
    drawing = lab.page.locator(".jp-MaxLab-canvas:visible").first.bounding_box()
    assert card is not None
    assert drawing is not None
    share = card["width"] * card["height"] / (drawing["width"] * drawing["height"])
    assert share <= 0.25
    lab.page.set_viewport_size(VIEWPORT)
    lab.set_theme("light")


def test_a_file_that_is_gone(shared: LabPage, server: LabServer, folder: Path) -> None:
    """What is edited is there still, and saving writes the file again."""
    lab = shared
    path = folder / "gone.mlgraph"
    doubled(path)
    open_document(lab, "kept/gone.mlgraph")
    hand = Hand(lab)
    lab.view().click("gelu")
    add(hand, "exp")
    path.unlink()
    try_to_save(lab)
    wait_until(lab, False)
    assert names(saved(path)) == ["constant", "mul", "gelu", "exp"]


def test_save_as_and_rename(shared: LabPage, server: LabServer, folder: Path) -> None:
    """The document goes on in the new file, with its steps; the old one is as it was."""
    lab = shared
    path, copy, moved = (folder / f"{name}.mlgraph" for name in ("first", "second", "third"))
    doubled(path)
    held = path.read_bytes()
    open_document(lab, "kept/first.mlgraph")
    hand = Hand(lab)
    lab.view().click("gelu")
    add(hand, "exp")
    lab.page.evaluate("() => void window.jupyterapp.commands.execute('docmanager:save-as')")
    dialog = lab.page.locator(".jp-Dialog")
    dialog.locator("input").fill("kept/second.mlgraph")
    dialog.get_by_role("button", name="Save").click()
    # As with every file, JupyterLab asks about the old one: it shall stay as it was.
    press(lab, "Save your work", "Discard")
    live(lab, "second.mlgraph")
    wait_until(lab, False)
    lab.shot("documents-saved-as")
    assert path.read_bytes() == held
    hand = Hand(lab)
    lab.view().click("exp")
    add(hand, "tanh")
    wait_until(lab, True)
    lab.page.evaluate("() => void window.jupyterapp.commands.execute('docmanager:rename')")
    dialog.locator("input").fill("third.mlgraph")
    dialog.get_by_role("button", name="Rename").click()
    dialog.wait_for(state="detached")
    lab.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path === 'kept/third.mlgraph'"
    )
    wait_until(lab, True)
    lab.execute("docmanager:save")
    wait_until(lab, False)
    assert not copy.exists()
    assert names(saved(moved)) == ["constant", "mul", "gelu", "exp", "tanh"]
    hand.press("u")
    hand.said("undone")
    wait_until(lab, True)
    lab.execute("docmanager:save")
    assert names(saved(moved)) == ["constant", "mul", "gelu", "exp"]


def run(lab: LabPage, hand: Hand) -> None:
    """Run the graph on what its form has."""
    menu(lab, "Run", "runmenu:run-all").click()
    hand.form.get_by_role("button", name="Apply").click()
    hand.said("ran; it gives")


KERNEL_ID = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.id"


def kernels(server: LabServer) -> list[psutil.Process]:
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [p for p in children if "ipykernel_launcher" in " ".join(p.cmdline())]


def test_another_kernel_after_the_first(shared: LabPage, server: LabServer, folder: Path) -> None:
    """One that is restarted, one that is chosen while the first is shut down: the graph is edited
    on and run."""
    lab = shared
    path = folder / "kernels.mlgraph"
    doubled(path)
    open_document(lab, "kept/kernels.mlgraph")
    hand = Hand(lab)
    lab.view().click("gelu")
    add(hand, "exp")
    menu(lab, "Kernel", "kernelmenu:restart").click()
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Confirm Kernel Restart").click()
    notice(lab).get_by_text("The kernel ended").wait_for()
    live(lab, "kernels.mlgraph")
    labels(lab, "exp")
    wait_until(lab, True)
    hand = Hand(lab)
    lab.view().click("exp")
    add(hand, "tanh")
    run(lab, hand)

    menu(lab, "Kernel", "kernelmenu:shutdown").click()
    notice(lab).get_by_text("The kernel ended").wait_for()
    notice(lab).get_by_role("button", name="Select kernel").click()
    choose_python(lab)
    hand = Hand(lab)
    lab.view().click("tanh")
    add(hand, "abs")
    run(lab, hand)
    lab.execute("docmanager:save")
    wait_until(lab, False)
    assert names(saved(path)) == ["constant", "mul", "gelu", "exp", "tanh", "abs"]


def test_a_kernel_that_is_killed_in_mid_edit(
    shared: LabPage, server: LabServer, folder: Path
) -> None:
    """What was accepted is kept; the edit that was not is said."""
    lab = shared
    path = folder / "killed.mlgraph"
    doubled(path)
    open_document(lab, "kept/killed.mlgraph")
    hand = Hand(lab)
    lab.view().click("gelu")
    add(hand, "exp")
    id = lab.page.evaluate(KERNEL_ID)
    (kernel,) = [p for p in kernels(server) if id in " ".join(p.cmdline())]
    os.kill(kernel.pid, signal.SIGSTOP)  # it gets the edit, and never answers
    lab.view().click("exp")
    hand.press("Delete")
    lab.page.wait_for_timeout(300)
    os.kill(kernel.pid, signal.SIGKILL)
    notice(lab).get_by_text("The kernel ended").wait_for()
    lab.shot("documents-killed")
    Hand(lab).said("Not done: remove exp")
    live(lab, "killed.mlgraph")
    labels(lab, "exp")
    lab.execute("docmanager:save")
    wait_until(lab, False)
    assert names(saved(path)) == ["constant", "mul", "gelu", "exp"]
