"""Real key presses in a view under a cell: they act on the view, and not on the notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

RECORDING = Path(__file__).resolve().parents[2] / "notebooks" / "data" / "two_gpus.mlrec"

BUILD = """
import maxlab
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

def block(x):
    return ops.tanh(x * 2.0)

x_type = TensorType(DType.float32, ["batch", 16], device=DeviceRef.CPU())
with Graph("keyed", input_types=[x_type]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.relu(block(x)) + ops.exp(x))
graph
"""

CUDA = """%%cuda_sim --grid 1 --block 32 --args x --out stepped
extern "C" __global__ void k(float *x) {
  int t = threadIdx.x;
  MX_WATCH(x[t]);
  for (int i = 0; i < 3; ++i)
    x[t] = x[t] + 1.0f;
}"""

# What a key of the notebook could change.
STATE = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    const notebook = panel.content;
    return {
        cells: notebook.widgets.map(cell => [cell.model.id, cell.model.type]),
        active: notebook.activeCellIndex,
        kernel: panel.sessionContext.session.kernel.id,
        commands: window.executed.filter(id => !id.startsWith('maxlab:')),
        dialogs: document.querySelectorAll('.jp-Dialog').length,
    };
}"""


@pytest.fixture(scope="module")
def keyed(shared_page: LabPage, server: LabServer) -> GraphView:
    """The view of a small graph, in the middle of a notebook."""
    lab = shared_page
    lab.open_notebook(write_notebook(server.root, "keys.ipynb", []))
    lab.run_code(BUILD)
    view = lab.view()
    lab.page.evaluate(
        """async () => {
            const { commands } = window.jupyterapp;
            await commands.execute('notebook:insert-cell-below');
            await commands.execute('notebook:enter-command-mode');
            window.executed = [];
            commands.commandExecuted.connect((_, { id }) => window.executed.push(id));
        }"""
    )
    return view


def state(lab: LabPage) -> Any:
    """What a key of the notebook could change, and the commands of others that keys have run."""
    return lab.page.evaluate(STATE)


def place(lab: LabPage) -> str:
    """The item of the graph that has the keyboard; "" when none has."""
    found: str = lab.page.evaluate("() => document.activeElement?.dataset?.key ?? ''")
    return found


def node(view: GraphView, label: str) -> str:
    """Id of the drawn node ``label``."""
    found: str = next(n["id"] for n in view.nodes() if n["label"] == label)
    return found


def go_to(view: GraphView, item: str) -> None:
    """Scroll the notebook to the view and the view to all of its graph, and click on an item."""
    view.read("view.element.scrollIntoView({ block: 'center' })")
    view.execute("fit")
    view.click(item)


def test_no_key_reaches_the_notebook(shared: LabPage, keyed: GraphView) -> None:
    press = shared.page.keyboard.press
    go_to(keyed, "exp")
    before = state(shared)
    assert place(shared) == node(keyed, "exp")
    for key in (
        *(
            "m",
            "x",
            "y",
            "r",  # left to right, and back
            "r",
            "a",
            "b",
            "v",
            "z",
            "k",
            "j",
            "Shift+M",
            "Shift+J",
            "Shift+ArrowDown",
        ),
        *("ArrowUp", "ArrowDown", "Home", "End", "Enter", "Space", "0", "0", "i", "i", "d", "d"),
        *("Delete", "Backspace"),
    ):
        press(key)
        assert state(shared) == before, key
    # Two equal keys are one of the notebook's when they come within a second.
    shared.page.wait_for_timeout(1200)
    assert state(shared) == before
    assert keyed.read("view.element.isConnected")


def test_arrows_and_folds_are_the_graphs(shared: LabPage, keyed: GraphView) -> None:
    press = shared.page.keyboard.press
    go_to(keyed, "relu")
    before = state(shared)
    press("ArrowDown")
    keyed.settle()
    assert place(shared) == node(keyed, "add")
    assert keyed.read("view.selection") == [node(keyed, "add")]
    press("ArrowUp")
    press("Home")
    keyed.settle()
    assert place(shared) == keyed.read("view.nodes()[0].id")
    press("End")
    keyed.settle()
    assert place(shared) == keyed.read("view.nodes().at(-1).id")
    assert state(shared) == before

    go_to(keyed, "relu")
    box = next(n for n in keyed.nodes() if n["id"].startswith(("scope:", "box:", "block")))
    go_to(keyed, box["id"])
    is_open = box["expanded"]
    for key in ("Enter", "Space"):
        press(key)
        is_open = not is_open
        found = json.dumps([box["id"], is_open])
        keyed.wait_for(f"view.nodes().some(n => `${{[n.id, n.expanded]}}` === `${{{found}}}`)")
        keyed.settle()
    assert state(shared) == before


def test_keys_with_ctrl_are_jupyterlabs(shared: LabPage, keyed: GraphView) -> None:
    page = shared.page
    go_to(keyed, "exp")
    is_open = "() => !window.jupyterapp.shell.leftCollapsed"
    before = page.evaluate(is_open)
    page.keyboard.press("Control+b")
    assert page.evaluate(is_open) is not before
    page.keyboard.press("Control+b")
    assert page.evaluate(is_open) is before

    go_to(keyed, "exp")
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.context.model.dirty = true; }")
    page.keyboard.press("Control+s")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")

    go_to(keyed, "exp")
    page.keyboard.press("Control+Shift+c")
    page.locator(".lm-CommandPalette-input:focus").wait_for()
    page.keyboard.press("Escape")


def test_keys_are_commands_that_can_be_remapped(shared: LabPage, keyed: GraphView) -> None:
    bound = shared.page.evaluate(
        """() => Object.fromEntries(window.jupyterapp.commands.keyBindings
            .filter(({ command }) => command.startsWith('maxlab:'))
            .map(({ command, keys }) => [keys.join(' '), command]))"""
    )
    assert bound["H"] == "maxlab:toggle-heat"
    assert bound["ArrowDown"] == "maxlab:go-down"
    assert set(bound.values()) <= set(shared.commands("maxlab:"))
    # What a key does is done once: by the command, not by the view as well.
    go_to(keyed, "exp")
    page = shared.page
    panel = page.locator(".jp-MaxLab-view:visible .jp-MaxLab-panel")
    was_open = panel.is_visible()
    page.keyboard.press("i")
    panel.wait_for(state="hidden" if was_open else "visible")
    page.keyboard.press("i")
    panel.wait_for(state="visible" if was_open else "hidden")


def test_selecting_moves_the_place_of_the_keyboard(shared: LabPage, keyed: GraphView) -> None:
    go_to(keyed, "exp")
    keyed.read("view.select([argument])", node(keyed, "relu"))
    keyed.settle()
    row = shared.page.locator('.jp-MaxLab-view:visible .jp-MaxLab-treeItem[tabindex="0"]')
    assert row.get_attribute("data-key") == node(keyed, "relu")
    shared.page.keyboard.press("ArrowDown")
    keyed.settle()
    assert place(shared) == node(keyed, "add")


def test_text_of_a_field_stays_in_it(shared: LabPage, keyed: GraphView) -> None:
    go_to(keyed, "exp")
    before = state(shared)
    shared.page.keyboard.press("/")
    field = shared.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-searchInput")
    shared.page.keyboard.type("mxdd00 ii")
    assert field.input_value() == "mxdd00 ii"
    shared.page.keyboard.press("Shift+Enter")
    shared.page.keyboard.press("Escape")
    assert state(shared) == before


def test_a_frame_from_before_an_animation(shared: LabPage, keyed: GraphView) -> None:
    """A frame may bear a time from before the fold began that it is the first frame of."""
    page = shared.page
    page.evaluate(
        """() => {
            window.plainFrame = window.requestAnimationFrame;
            window.requestAnimationFrame = draw =>
                window.plainFrame.call(window, now => draw(now - 500));
        }"""
    )
    try:
        keyed.collapse("block")
        keyed.expand("block")
    finally:
        page.evaluate("() => { window.requestAnimationFrame = window.plainFrame; }")
    rect = next(n["rect"] for n in keyed.nodes() if n["label"] == "exp")
    page.mouse.move(5, 5)
    page.mouse.move(rect["x"] + rect["w"] / 2, rect["y"] + 8)
    page.locator(".jp-MaxLab-view:visible .jp-MaxLab-tooltip").first.wait_for()
    go_to(keyed, "exp")
    assert keyed.read("view.selection") == [node(keyed, "exp")]


def test_camera_goes_back_and_forward(shared: LabPage, keyed: GraphView) -> None:
    go_to(keyed, "exp")
    keyed.execute("fit")
    fitted = keyed.read("view.zoom")
    keyed.execute("zoom-in")
    zoomed = keyed.read("view.zoom")
    assert zoomed > fitted
    shared.page.keyboard.press("Alt+ArrowLeft")
    keyed.settle()
    assert keyed.read("view.zoom") == pytest.approx(fitted)
    shared.page.keyboard.press("Alt+ArrowRight")
    keyed.settle()
    assert keyed.read("view.zoom") == pytest.approx(zoomed)


REVEALED = """() => {
    const { activeCell } = window.jupyterapp.shell.currentWidget.content;
    return [activeCell.model.sharedModel.getSource(),
        activeCell.editor?.getCursorPosition().line ?? -1];
}"""


def test_a_line_is_found_by_its_cell(shared: LabPage, keyed: GraphView) -> None:
    """Also when cells were run again, have other numbers, were moved, or are gone."""
    page = shared.page
    define = "def made(x):\n    return ops.sqrt(x)"
    shared.run_code(define)
    shared.run_code(
        "with Graph('far', input_types=[x_type]) as far:\n"
        "    far.output(made(far.inputs[0].tensor))\n"
        "far"
    )
    page.wait_for_function("() => window.__maxlabTest.views.some(view => view.name === 'far')")
    index = page.evaluate("() => window.__maxlabTest.views.findIndex(v => v.name === 'far')")
    view = shared.view(index)

    view.execute("unfold-all")
    shown = page.locator(".jp-MaxLab-view", has=page.get_by_text("far", exact=True))

    def reveal() -> Any:
        view.read("view.select(view.nodes().filter(n => n.label === 'sqrt').map(n => n.id))")
        view.settle()
        link = shown.get_by_text(re.compile(r"line 2\b"))
        link.first.click()
        page.wait_for_timeout(500)
        return page.evaluate(REVEALED)

    def to(source: str) -> None:
        page.evaluate(
            """source => {
                const { content } = window.jupyterapp.shell.currentWidget;
                content.activeCellIndex = content.widgets.findIndex(
                    cell => cell.model.sharedModel.getSource() === source);
            }""",
            source,
        )

    assert reveal() == [define, 1]
    to(define)
    shared.execute("notebook:run-cell")  # it has another number now
    shared.execute("notebook:move-cell-up")
    assert reveal() == [define, 1]
    to(define)
    shared.execute("notebook:delete-cell")
    view.read("view.select([])")
    gone = reveal()
    assert gone[0] != define
    shown.get_by_text("no cell of this notebook").first.wait_for()


MODEL = """
import numpy as np
from maxlab import engine
w = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
wide = TensorType(DType.float32, ["batch", 64], device=DeviceRef.CPU())
with Graph("tried", input_types=[wide]) as tried:
    x = tried.inputs[0].tensor
    tried.output(ops.tanh(x @ ops.constant(w, DType.float32, DeviceRef.CPU())))
model = engine.InferenceSession().load(tried)
model.profile(np.ones((8, 64), dtype=np.float32))
"""


def test_a_verdict_is_of_the_text_that_stands_there(shared: LabPage, keyed: GraphView) -> None:
    page = shared.page
    shared.run_code(MODEL)
    page.wait_for_function("() => window.__maxlabTest.views.some(view => view.name === 'tried')")
    index = page.evaluate("() => window.__maxlabTest.views.findIndex(v => v.name === 'tried')")
    view = shared.view(index)
    view.execute("panel-source")
    view.read("view.select(view.nodes().filter(n => n.label === 'tanh').map(n => n.id))")
    dock = page.locator(".jp-MaxLab-dock:visible")
    dock.get_by_role("button", name="Edit the generated C").click()
    area = dock.get_by_role("textbox", name="Text of the kernel")
    text = area.input_value()
    result = dock.get_by_role("region", name="Result of the edit")
    area.fill(text.replace("mx_tanh_f32", "1.0f * mx_tanh_f32"))
    area.press("Control+Enter")
    area.fill(text.replace("mx_tanh_f32", "2.0f * mx_tanh_f32"))
    area.press("Control+Enter")
    dock.get_by_text("Your newest text is next").wait_for()
    result.get_by_text("something else than the reference").wait_for()
    area.fill(text)
    result.get_by_text("Of an earlier text").wait_for()
    area.fill(text.replace("mx_tanh_f32", "2.0f * mx_tanh_f32"))
    result.get_by_text("Of an earlier text").wait_for(state="hidden")


@pytest.mark.skipif(not RECORDING.exists(), reason="needs the recording of the notebooks")
def test_keys_of_the_dashboard(shared: LabPage, keyed: GraphView) -> None:
    page = shared.page
    shared.run_code(f"maxlab.dashboard(replay={str(RECORDING)!r})")
    page.wait_for_function("() => window.__maxlabTest?.dashboards?.[0]?.samples > 0")
    dashboard = page.locator(".jp-MaxLab-dash:visible").first
    dashboard.focus()
    before = state(shared)
    for key in ("Space", "ArrowLeft", "ArrowRight", "m", "x", "d", "d", "0", "0", "End", "i", "i"):
        page.keyboard.press(key)
        assert state(shared) == before, key
    page.wait_for_timeout(1200)
    assert state(shared) == before
    is_following = "() => window.__maxlabTest.dashboards[0].isFollowing"
    assert page.evaluate(is_following)
    page.keyboard.press("Space")
    assert not page.evaluate(is_following)
    is_open = "() => !window.jupyterapp.shell.leftCollapsed"
    was_open = page.evaluate(is_open)
    page.keyboard.press("Control+b")
    assert page.evaluate(is_open) is not was_open
    page.keyboard.press("Control+b")


def test_keys_of_a_simulated_kernel(shared: LabPage, keyed: GraphView) -> None:
    page = shared.page
    shared.run_code("import numpy as np\n%load_ext maxlab\nx = np.zeros(32, np.float32)")
    shared.run_code(CUDA)
    view = page.locator(".mx-cs:visible")
    view.locator("summary").first.focus()
    before = state(shared)
    for key in ("ArrowRight", "ArrowDown", "m", "x", "d", "d", "0", "0", "i", "i", "a"):
        page.keyboard.press(key)
        assert state(shared) == before, key
    page.wait_for_timeout(1200)
    assert state(shared) == before
    # Keys that the browser itself understands go on working.
    is_open = view.locator("details").first.evaluate("details => details.open")
    page.keyboard.press("Enter")
    assert view.locator("details").first.evaluate("details => details.open") is not is_open
    steps = view.get_by_role("radio")
    steps.first.focus()
    page.keyboard.press("ArrowRight")
    assert steps.nth(1).is_checked()
    assert state(shared) == before


def test_a_new_graph_tab_has_the_keyboard(shared: LabPage, keyed: GraphView) -> None:
    page = shared.page
    shared.execute("maxlab:show-graphs")
    item = page.locator("#maxlab-graphs .jp-MaxLab-graphs-item", has_text="graph").first
    item.click()
    tab = page.locator(".jp-MaxLab-mainTab")
    tab.locator(".jp-MaxLab-treeItem:focus").wait_for()
    first = place(shared)
    page.keyboard.press("ArrowDown")
    page.wait_for_function("first => document.activeElement?.dataset?.key !== first", arg=first)
