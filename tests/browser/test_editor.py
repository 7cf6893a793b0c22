"""Documents of graphs in JupyterLab: new, edited in a kernel of their own, saved, opened again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Locator

import maxlab
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from tests.browser.conftest import OpenLab
from tests.browser.page import LabPage
from tests.browser.server import LabServer
from tests.browser.test_editing import Hand, add, fill
from tests.mounts import mounted

pytestmark = pytest.mark.browser


@pytest.fixture
def folder(server: LabServer) -> Path:
    """A folder of the server for documents."""
    made = server.root / "documents"
    made.mkdir(exist_ok=True)
    return made


def tab(lab: LabPage) -> Locator:
    """The document that is seen."""
    return lab.page.locator(".jp-MaxLab-document:visible")


def notice(lab: LabPage) -> Locator:
    """The line above its graph."""
    return tab(lab).locator(".jp-MaxLab-editor-notice")


def open_document(lab: LabPage, path: str, *, with_kernel: bool = True) -> None:
    """Open the document at ``path``, as a double click does, with editing on."""
    lab.execute("docmanager:open", {"path": path})
    tab(lab).wait_for()
    if with_kernel:
        tab(lab).get_by_role("toolbar", name="Edit the graph").wait_for()


def is_dirty(lab: LabPage) -> bool:
    found: bool = lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.model.dirty"
    )
    return found


def wait_until(lab: LabPage, dirty: bool) -> None:
    lab.page.wait_for_function(
        "(dirty) => window.jupyterapp.shell.currentWidget.context.model.dirty === dirty", arg=dirty
    )


def add_input(hand: Hand, type: str, name: str) -> None:
    hand.strip.get_by_role("button", name="Add an input").click()
    hand.form.wait_for()
    fill(hand, name=name, type=type)
    hand.said("added the input")


def kernel_processes(server: LabServer) -> list[psutil.Process]:
    """The kernels that the server has started."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [p for p in children if "ipykernel_launcher" in " ".join(p.cmdline())]


def doubled(path: Path) -> Graph:
    with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(ops.gelu(graph.inputs[0].tensor * 2))
    graph.save(path)
    return graph


def test_a_document_from_the_launcher(open_lab: OpenLab, server: LabServer, folder: Path) -> None:
    """Built by the strip, saved, closed, and opened in a new kernel: the same bytes."""
    lab = open_lab("light")
    lab.execute("filebrowser:open-path", {"path": "documents"})
    lab.execute("launcher:create", {"cwd": "documents"})
    lab.page.locator(".jp-LauncherCard:visible[title^='A new document, in']").click()
    tab(lab).get_by_role("toolbar", name="Edit the graph").wait_for()
    hand = Hand(lab)
    lab.shot("editor-new")
    assert not is_dirty(lab)
    (path,) = folder.glob("untitled*.mlgraph")
    assert path.read_text("utf-8") == Graph(path.stem).document.text(), "it is whole at once"
    add_input(hand, "float32[rows, 4]", "x")
    wait_until(lab, True)
    lab.view().click("x")
    add(hand, "relu")
    hand.press("o")
    hand.said("the graph gives")
    lab.shot("editor-built")
    lab.page.keyboard.press("Control+s")
    wait_until(lab, False)
    held = path.read_bytes()
    assert [op.name for op in saved(path).function.ops] == ["mo.relu", "mo.output"]
    lab.close_all()
    server.shut_down_kernels()
    open_document(lab, f"documents/{path.name}")
    assert not is_dirty(lab)
    hand = Hand(lab)
    lab.view().click("relu")
    add(hand, "exp")
    wait_until(lab, True)
    hand.press("u")
    hand.said("undone")
    wait_until(lab, False)
    lab.execute("docmanager:save")
    assert path.read_bytes() == held


def open_without_kernel(lab: LabPage, path: str) -> None:
    """Open the document at ``path``, where the user has said that it has no kernel."""
    lab.page.evaluate(
        """async (path) => {
            await window.jupyterapp.commands.execute('docmanager:open',
                { path, kernelPreference: { shouldStart: false, canStart: true } });
        }""",
        path,
    )
    notice(lab).get_by_text("No kernel").wait_for()


def choose_python(lab: LabPage) -> None:
    """Answer JupyterLab's question for a kernel, and wait until the document is open in it."""
    dialog = lab.page.locator(".jp-Dialog")
    dialog.locator("select").select_option(label="Python 3 (ipykernel)")
    dialog.get_by_role("button", name="Select", exact=False).last.click()
    lab.page.wait_for_function(
        """() => {
            const { view, session } = window.jupyterapp.shell.currentWidget.content;
            return session.state === 'open' && view?.editing.isOn && !view.editing.isAlone;
        }"""
    )
    notice(lab).wait_for(state="hidden")


def drag(lab: LabPage, item: str, dx: int, dy: int) -> None:
    """Drag the first item with this label by the mouse."""
    rect = next(node["rect"] for node in lab.view().nodes() if node["label"] == item)
    x, y = rect["x"] + rect["w"] / 2, rect["y"] + min(12, rect["h"] / 2)
    mouse = lab.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + dx / 2, y + dy / 2, steps=3)
    mouse.move(x + dx, y + dy, steps=3)
    mouse.up()


def saved(path: Path) -> Graph:
    opened = maxlab.open(path)
    assert isinstance(opened, Graph)
    return opened


def test_without_a_kernel(open_lab: OpenLab, server: LabServer, folder: Path) -> None:
    """It is looked at and laid out, with steps back, and saved; what changes the graph asks for a
    kernel. The one that comes has all of it, as one step."""
    path = folder / "looked.mlgraph"
    doubled(path)
    before = path.read_bytes()
    lab = open_lab("dark")
    open_without_kernel(lab, "documents/looked.mlgraph")
    hand = Hand(lab)
    lab.view()
    hand.strip.wait_for()
    drag(lab, "gelu", 130, 40)
    hand.said("moved 1 item")
    wait_until(lab, True)
    hand.press("Shift+P")
    hand.said("pinned 1 item")
    hand.press("u", "u")
    hand.said("undone")
    wait_until(lab, False)
    hand.press("Shift+U", "Shift+U", "m")
    hand.type("laid out on a train")
    hand.press("Enter")
    hand.said("added a comment")
    tab(lab).get_by_role("note").get_by_text("laid out on a train").wait_for()
    hand.strip.get_by_role("button", name="Add an input").click()
    hand.said("This needs a kernel")
    assert not hand.form.is_visible()
    lab.shot("editor-no-kernel")
    assert lab.barriers(".jp-MaxLab-editor") == []
    lab.execute("docmanager:save")
    wait_until(lab, False)
    laid = saved(path).document
    (gelu,) = [op.id for op in laid.graph.function.ops if op.name == "mo.gelu"]
    assert laid.places[gelu].pinned
    assert [(comment.text, comment.on) for comment in laid.comments] == [
        ("laid out on a train", gelu)
    ]
    held = path.read_bytes()
    drag(lab, "gelu", -90, 10)
    hand.said("moved 1 item")
    wait_until(lab, True)
    lab.page.set_viewport_size({"width": 900, "height": 700})
    lab.shot("editor-no-kernel-900")
    hand.press("a")
    hand.strip.get_by_role("button", name="Select a kernel").click()
    choose_python(lab)
    hand = Hand(lab)
    lab.shot("editor-kernel")
    assert is_dirty(lab)
    tab(lab).get_by_role("note").get_by_text("laid out on a train").wait_for()
    lab.view().click("gelu")
    add(hand, "exp")
    hand.press("u")
    hand.said("undone")
    hand.press("u")
    wait_until(lab, False)
    lab.execute("docmanager:save")
    assert path.read_bytes() == held != before


def menu(lab: LabPage, name: str, command: str) -> Locator:
    """The entry of the main menu ``name`` that runs ``command``; the menu is open then."""
    lab.page.locator("#jp-MainMenu").get_by_role("menuitem", name=name, exact=True).click()
    entry = lab.page.locator(f'.lm-Menu .lm-Menu-item[data-command="{command}"]').first
    entry.wait_for()
    return entry


def test_the_menus_act_on_the_document(open_lab: OpenLab, server: LabServer, folder: Path) -> None:
    """Those for kernels, for running and for steps back do what they do with a notebook."""
    path = folder / "menus.mlgraph"
    doubled(path)
    lab = open_lab("light")
    open_document(lab, "documents/menus.mlgraph")
    hand = Hand(lab)
    lab.view().click("gelu")
    add(hand, "tanh")
    menu(lab, "Edit", "editmenu:undo").click()
    hand.said("undone")
    menu(lab, "Edit", "editmenu:redo").click()
    hand.said("done again")
    menu(lab, "Run", "runmenu:run-all").click()
    hand.form.get_by_role("button", name="Apply").click()
    hand.said("ran; it gives")
    kernel = (
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session?.kernel?.id"
    )
    was = lab.page.evaluate(kernel)
    entry = menu(lab, "Kernel", "kernelmenu:interrupt")
    lab.shot("editor-kernel-menu")
    for command in ("interrupt", "restart", "reconnect-to-kernel", "shutdown", "change"):
        found = lab.page.locator(f'.lm-Menu-item[data-command="kernelmenu:{command}"]')
        assert found.get_attribute("aria-disabled") != "true", command
    entry.click()
    menu(lab, "Edit", "editmenu:undo").click()
    hand.said("undone")  # or what the first run said would be taken for what the second says
    menu(lab, "Kernel", "runmenu:restart-and-run-all").click()
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Confirm Kernel Restart").click()
    hand.form.get_by_role("button", name="Apply").click()
    hand.said("ran; it gives")
    assert lab.page.evaluate(kernel) == was
    menu(lab, "Kernel", "kernelmenu:shutdown").click()
    notice(lab).get_by_text("The kernel ended").wait_for()
    # What the view shows is kept, and is laid out.
    drag(lab, "gelu", 140, 0)
    hand.said("moved 1 item")


def test_a_kernel_that_dies_loses_nothing(
    open_lab: OpenLab, server: LabServer, folder: Path
) -> None:
    """Every edit that was accepted is saved without it, and opened again in the next."""
    path = folder / "dying.mlgraph"
    doubled(path)
    lab = open_lab("light")
    open_document(lab, "documents/dying.mlgraph")
    hand = Hand(lab)
    lab.view().click("gelu")
    for name in ("exp", "tanh", "abs"):
        add(hand, name)
    for process in kernel_processes(server):
        with contextlib.suppress(psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)
    # JupyterLab says by itself that the kernel has restarted.
    notice(lab).get_by_text("The kernel ended").wait_for()
    lab.shot("editor-kernel-ended")
    notice(lab).wait_for(state="hidden")
    tab(lab).get_by_role("toolbar", name="Edit the graph").wait_for()
    wait_until(lab, True)
    lab.execute("docmanager:save")
    opened = maxlab.open(path)
    assert isinstance(opened, Graph)
    names = [op.name for op in opened.function.ops]
    assert {"mo.exp", "mo.tanh", "mo.abs"} <= set(names)


def dismiss(lab: LabPage, title: str, button: str) -> None:
    """Press ``button`` of JupyterLab's dialog ``title``."""
    dialog = lab.page.locator(".jp-Dialog").filter(has_text=title)
    dialog.wait_for()
    dialog.locator(".jp-Dialog-footer button", has_text=button).last.click()
    dialog.wait_for(state="detached")


def try_to_save(lab: LabPage) -> None:
    lab.page.evaluate(
        "() => void window.jupyterapp.commands.execute('docmanager:save').catch(() => {})"
    )


def test_saves_that_fail_lose_nothing(open_lab: OpenLab, server: LabServer, folder: Path) -> None:
    """On a full disk, a read-only one, and without the server: it is said, all that was edited
    stays, and it is saved when that is possible."""
    with mounted("size=256k") as disk:
        (folder / "disk").symlink_to(disk)
        path = disk / "hostile.mlgraph"
        doubled(path)
        before = path.read_bytes()
        lab = open_lab("light")
        # What the browser says of requests that fail, as they shall.
        lab.allowed += ["api/contents", "ERR_INTERNET_DISCONNECTED", "File Save Error"]
        open_document(lab, "documents/disk/hostile.mlgraph")
        hand = Hand(lab)
        lab.view().click("gelu")
        add(hand, "exp")
        full = disk / "full"
        with contextlib.suppress(OSError), full.open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        unsaved = tab(lab).get_by_role("alert").filter(has_text="could not be saved")
        try_to_save(lab)
        dismiss(lab, "File Save Error", "")
        unsaved.wait_for()
        lab.page.set_viewport_size({"width": 900, "height": 700})
        lab.shot("editor-unsaved")
        assert lab.barriers(".jp-MaxLab-editor") == []
        assert is_dirty(lab)
        full.unlink()
        remount = ["mount", "-o", "remount,{}", str(disk)]
        subprocess.run([part.format("ro") for part in remount], check=True)
        unsaved.get_by_role("button", name="Save again").click()
        dismiss(lab, "File Save Error", "")
        assert is_dirty(lab)
        subprocess.run([part.format("rw") for part in remount], check=True)
        assert path.read_bytes() == before
        lab.context.set_offline(True)
        unsaved.get_by_role("button", name="Save again").click()
        dismiss(lab, "File Save Error", "")
        lab.context.set_offline(False)
        assert is_dirty(lab)
        unsaved.get_by_role("button", name="Save again").click()
        unsaved.wait_for(state="detached")
        wait_until(lab, False)
        assert "mo.exp" in path.read_text("utf-8")
        assert hand.root.get_by_role("region", name="What the run gave").count() == 0
        lab.close_all()
        (folder / "disk").unlink()
        # JupyterLab looks now and then whether what was open lately is still there.
        (folder / "disk").mkdir()
        doubled(folder / "disk" / "hostile.mlgraph")


def test_a_document_that_was_merged_badly(
    open_lab: OpenLab, server: LabServer, folder: Path
) -> None:
    """Says where it is damaged, and keeps its text; mended, it is opened."""
    path = folder / "merged.mlgraph"
    text = doubled(path).document.text()
    merged = text.replace("  ]", "<<<<<<< HEAD\n  ]", 1)
    path.write_text(merged, "utf-8")
    lab = open_lab("light")
    open_document(lab, "documents/merged.mlgraph", with_kernel=False)
    tab(lab).get_by_role("alert").get_by_text("ML864").wait_for()
    lab.shot("editor-merged")
    assert not is_dirty(lab)
    path.write_text(text, "utf-8")
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.revert()")
    tab(lab).get_by_role("toolbar", name="Edit the graph").wait_for()
    assert not is_dirty(lab)


def new_from(lab: LabPage, title: str, shot: str = "") -> None:
    """Make a document from the gallery, by its dialog."""
    lab.page.evaluate(
        "() => void window.jupyterapp.commands.execute("
        "'maxlab:new-from-template', { cwd: 'documents' })"
    )
    dialog = lab.page.locator(".jp-Dialog")
    dialog.get_by_label(title).check()
    if shot:
        assert lab.barriers(".jp-MaxLab-gallery") == []
        lab.shot(shot)
    dialog.get_by_role("button", name="Create").click()
    tab(lab).get_by_role("toolbar", name="Edit the graph").wait_for()
    lab.view()


def test_a_template_is_opened_and_run(open_lab: OpenLab, folder: Path) -> None:
    """The gallery lists what there is; the graph runs as it is."""
    lab = open_lab("light")
    new_from(lab, "An MLP with softmax", "editor-gallery")
    hand = Hand(lab)
    lab.shot("editor-template")
    hand.strip.get_by_role("button", name="Compile what changed").click()
    hand.form.wait_for()
    hand.form.get_by_role("button", name="Apply").click()
    hand.said("ran; it gives")
    card = hand.root.get_by_role("region", name="What the run gave")
    assert ", 4]" in card.inner_text()
    assert (folder / "mlp.mlgraph").is_file()


def test_a_lesson_is_solved(open_lab: OpenLab, folder: Path) -> None:
    """Its text stands beside the graph; hints come one by one; the goal lights up."""
    lab = open_lab("dark")
    lab.page.set_viewport_size({"width": 900, "height": 760})
    new_from(lab, "Lesson 1: your first operations")
    hand = Hand(lab)
    lesson = tab(lab).get_by_role("complementary", name="Lesson")
    goal = lesson.locator(".jp-MaxLab-goal")
    goal.get_by_text("not met yet").wait_for()
    lesson.get_by_role("button", name="Show hint 1 of 3").click()
    lesson.get_by_text("Hint 1").wait_for()
    lab.shot("editor-lesson")
    assert lab.barriers(".jp-MaxLab-lesson") == []
    lab.view().click("x")
    add(hand, "mul", rhs="2")
    add(hand, "relu")
    hand.press("o")
    hand.said("the graph gives")
    goal.get_by_text("Goal met").wait_for()
    lab.shot("editor-lesson-met")
    hand.press("u")
    goal.get_by_text("not met yet").wait_for()


def test_kernels_of_a_stranger(open_lab: OpenLab, folder: Path) -> None:
    """They are not compiled until the user has trusted the document, which is remembered."""
    kernels = """
// @op strange(x: float32[n]) -> (y: float32[n])
// @both
store(y, i, 5 * load(x, i));
"""
    row = TensorType(DType.float32, ["n"])
    with Graph("strange", input_types=[row], custom_extensions=[kernels]) as graph:
        graph.output(*ops.custom("strange", maxlab.DeviceRef.CPU(), [graph.inputs[0]], [row]))
    (folder / "strange.mlgraph").write_text(graph.document.text(), "utf-8")
    lab = open_lab("light")
    open_document(lab, "documents/strange.mlgraph")
    hand = Hand(lab)
    notice(lab).get_by_text("Not trusted: the kernels of strange").wait_for()
    lab.shot("editor-untrusted")
    assert lab.barriers(".jp-MaxLab-editor") == []
    run = hand.strip.get_by_role("button", name="Compile what changed")
    run.click()
    hand.form.wait_for()
    hand.form.get_by_role("button", name="Apply").click()
    hand.form.get_by_role("alert").get_by_text("ML760").wait_for()
    hand.form.get_by_role("button", name="Cancel").click()
    tab(lab).get_by_role("button", name="Not trusted").click()
    dialog = lab.page.locator(".jp-Dialog")
    lab.shot("editor-trust")
    dialog.get_by_role("button", name="Trust").click()
    tab(lab).get_by_role("button", name="Trusted", exact=True).wait_for()
    notice(lab).wait_for(state="hidden")
    run.click()
    hand.form.wait_for()
    hand.form.get_by_role("button", name="Apply").click()
    hand.said("ran; it gives")
    lab.close_all()
    open_document(lab, "documents/strange.mlgraph")
    tab(lab).get_by_role("button", name="Trusted", exact=True).wait_for()


def test_two_tabs_of_one_file(open_lab: OpenLab, server: LabServer, folder: Path) -> None:
    """They edit one graph; the file is saved by its key and moved; a page that is loaded again has
    what was not saved."""
    path = folder / "two.mlgraph"
    doubled(path)
    lab = open_lab("light")
    lab.page.set_viewport_size({"width": 1800, "height": 900})  # the strip of each has room
    open_document(lab, "documents/two.mlgraph")
    lab.execute("docmanager:clone")
    lab.page.wait_for_function("() => window.__maxlabTest?.views.length === 2")
    tab(lab).nth(1).get_by_role("toolbar", name="Edit the graph").wait_for()
    hand = Hand(lab)
    add_input(hand, "float32[3]", "y")
    lab.page.wait_for_function(
        "() => window.__maxlabTest.views.every("
        "view => view.nodes().some(({ label }) => label === 'y'))"
    )
    lab.shot("editor-two")
    wait_until(lab, True)
    hand.strip.get_by_role("button", name="Save the graph").click()
    wait_until(lab, False)
    opened = maxlab.open(path)
    assert isinstance(opened, Graph)
    assert len(opened.inputs) == 2
    add_input(hand, "float32[3]", "z")
    wait_until(lab, True)
    lab.page.on("dialog", lambda dialog: dialog.accept())
    lab.page.goto(f"{server.url}/lab?token={server.token}")
    lab.page.wait_for_function("() => window.jupyterapp")
    tab(lab).get_by_role("toolbar", name="Edit the graph").first.wait_for()
    lab.view()
    lab.page.wait_for_function(
        "() => window.__maxlabTest.views[0].nodes().some(({ label }) => label === 'z')"
    )
    wait_until(lab, True)
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.rename('moved.mlgraph')")
    lab.execute("docmanager:save")
    wait_until(lab, False)
    assert not path.exists()
    opened = maxlab.open(folder / "moved.mlgraph")
    assert isinstance(opened, Graph)
    assert len(opened.inputs) == 3
