"""Walking through a notebook as a reader does: every view is reached, used, and left again.

A walk goes by one *way*: by keyboard alone, or by mouse. Whatever it does, no cell may change, no
view may show a problem, no text of a bar or a tab may be cut off, and a panel that is opened has to
say something in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from playwright.sync_api import Locator, expect

from tests.browser.page import GraphView, LabPage

Way = Literal["keys", "mouse"]

MOST_TABS = 80
"""Presses of Tab, at most, from one end of a view to the other."""

PATIENCE_S = 90.0
"""Seconds until a panel has its answer: one may first compile, or measure the machine."""


@dataclass
class Walk:
    """A walk through the notebook in front.

    Attributes:
        lab: The page.
        way: By keys or by mouse.
        complaints: What was found wrong, each with its place.
        seen: What was walked: each view by its cell, and each panel.
    """

    lab: LabPage
    way: Way
    complaints: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def whole(self, name: str) -> None:
        """Walk every view of the notebook, open each panel of the last graph, and leave a
        screenshot of each view, called after ``name``."""
        before = self._sources()
        cells = self._cells()
        graphs = [cell for cell in cells if cell["kind"] == "graph"]
        for cell in cells:
            self._reach(cell["index"])
            place = f"cell {cell['index']}"
            if cell["kind"] == "tensor":
                self._tensor(cell["index"])
            if cell["kind"] in ("graph", "tensor"):
                view = self._view_in(cell["index"])
                self._graph(view, place)
                self.lab.shot(f"walk-{name}-{cell['index']}")
                if cell == graphs[-1]:
                    self._panels(view, place, name)
            elif cell["kind"] == "sampling":
                self._sampling(cell["index"], place)
                self.lab.shot(f"walk-{name}-{cell['index']}")
            elif cell["kind"] == "answer":
                self._answer(cell["index"], place)
                self.lab.shot(f"walk-{name}-{cell['index']}")
            elif cell["kind"] == "layers":
                self._layers(cell["index"], place)
                self.lab.shot(f"walk-{name}-{cell['index']}")
            elif cell["kind"] == "board":
                self._output(cell["index"]).get_by_role("slider").first.wait_for()
                self.lab.shot(f"walk-{name}-{cell['index']}")
            elif cell["kind"] == "dashboard":
                self._dashboard(cell["index"], place)
                self.lab.shot(f"walk-{name}-{cell['index']}")
            else:
                self._steps(cell["index"], place)
                self.lab.shot(f"walk-{name}-{cell['index']}")
            self.seen.append(f"{cell['kind']} in {place}")
        after = self._sources()
        self.complaints += [
            f"the walk changed {old} to {new}"
            for old, new in zip(before, after, strict=False)
            if old != new
        ]
        if len(before) != len(after):
            self.complaints.append(f"there were {len(before)} cells, and now {len(after)}")

    # ------------------------------------------------------------ where things are
    def _sources(self) -> list[list[str]]:
        found: list[list[str]] = self.lab.page.evaluate(
            """() => window.jupyterapp.shell.currentWidget.content.widgets.map(
                ({ model }) => [model.id, model.type, model.sharedModel.getSource()])"""
        )
        return found

    def _cells(self) -> list[dict[str, Any]]:
        """Number of each cell that shows a view, and its kind."""
        found: list[dict[str, Any]] = self.lab.page.evaluate(
            """() => {
                const kindOf = data => {
                    const html = [data['text/html'] ?? ''].flat().join('');
                    const text = [data['text/plain'] ?? ''].flat().join('');
                    if (html.includes('mx-cs')) return 'steps';
                    if (!('application/vnd.jupyter.widget-view+json' in data)) return null;
                    if (text.startsWith('Tensor')) return 'tensor';
                    if (text.startsWith('BoardView')) return 'board';
                    if (text.startsWith('SamplingView')) return 'sampling';
                    if (html.includes('mx-rq-tokens')) return 'answer';
                    if (text.startsWith('StepView')) return 'layers';
                    return text.startsWith('Monitor') || text.startsWith('Dashboard')
                        ? 'dashboard' : 'graph';
                };
                const { widgets } = window.jupyterapp.shell.currentWidget.content;
                return widgets.flatMap((cell, index) => {
                    if (cell.model.type !== 'code') return [];
                    const kinds = cell.model.outputs.toJSON().map(one => kindOf(one.data ?? {}));
                    const kind = kinds.find(one => one !== null) ?? null;
                    return kind === null ? [] : [{ index, kind }];
                });
            }"""
        )
        return found

    def _reach(self, index: int) -> None:
        """Bring the output of cell ``index`` into sight, with the notebook in command mode."""
        self.lab.page.evaluate(
            """async (index) => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                notebook.activeCellIndex = index;
                await notebook.scrollToItem(index, 'smart');
                notebook.widgets[index].outputArea.node.scrollIntoView({ block: 'start' });
                notebook.mode = 'command';
            }""",
            index,
        )

    def _output(self, index: int) -> Locator:
        return self.lab.page.locator(
            f".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell[data-windowed-list-index='{index}'] "
            ".jp-Cell-outputArea"
        )

    def _tensor(self, index: int) -> None:
        """Let the button below a tensor's numbers draw its graph, if it is still there."""
        button = self._output(index).get_by_role("button", name="Draw the graph")
        if button.count():
            if self.way == "mouse":
                button.click()
            else:
                button.focus()
                self.lab.page.keyboard.press("Enter")

    def _view_in(self, index: int) -> GraphView:
        self._output(index).locator(".jp-MaxLab-view").first.wait_for()
        place: int = self.lab.page.wait_for_function(
            """(index) => {
                const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
                const at = (window.__maxlabTest?.views ?? []).findIndex(
                    ({ element }) => cell.node.contains(element));
                return at < 0 ? null : { at };
            }""",
            arg=index,
        ).json_value()["at"]
        view = GraphView(self.lab, place)
        view.settle()
        return view

    def _sampling(self, index: int, place: str) -> None:
        """Move a slider of a view of sampling, and draw."""
        output = self._output(index)
        slider = output.get_by_role("slider", name="top-p, slider")
        chart = output.locator(".mx-rq-numbers")
        before = chart.inner_text()
        if self.way == "mouse":
            box = slider.bounding_box()
            assert box is not None
            slider.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
            output.get_by_role("button", name="Draw 100 tokens").click()
        else:
            slider.focus()
            for _ in range(40):
                self.lab.page.keyboard.press("ArrowLeft")
            output.get_by_role("button", name="Draw 100 tokens").focus()
            self.lab.page.keyboard.press("Enter")
        output.get_by_text("100 draws").wait_for()
        if chart.inner_text() == before:
            self.complaints.append(f"{place}: the slider of top-p moves nothing")

    def _answer(self, index: int, place: str) -> None:
        """Choose a token of an answer, and let go of it again."""
        output = self._output(index)
        token, about = output.locator("[data-token]").first, output.locator(".mx-rq-about")
        token.wait_for()
        token.focus()
        for chosen in (True, False):
            if self.way == "mouse":
                token.click()
            else:
                self.lab.page.keyboard.press("Enter" if chosen else "Escape")
            try:
                expect(about).to_contain_text("Token 1 of" if chosen else "")
                expect(token).to_have_attribute("aria-pressed", str(chosen).lower())
            except AssertionError:
                self.complaints.append(f"{place}: a token is not chosen, or not let go of")

    def _layers(self, index: int, place: str) -> None:
        """Go a step back in a view of what layers did."""
        output = self._output(index)
        step, title = (
            output.get_by_label("step", exact=True),
            output.locator(".maxlab-step b").first,
        )
        before = title.inner_text()
        step.focus()
        if self.way == "mouse":
            step.fill("0")
            self.lab.page.keyboard.press("Tab")
        else:
            self.lab.page.keyboard.press("ArrowDown")
        try:
            expect(title).not_to_have_text(before)
        except AssertionError:
            self.complaints.append(f"{place}: the number of the step moves nothing")

    # ------------------------------------------------------------ graphs
    def _graph(self, view: GraphView, place: str) -> None:
        self._clipped(view, place)
        if self.way == "mouse":
            self._click_items(view, place)
        else:
            self._type_through(view, place)

    def _click_items(self, view: GraphView, place: str) -> None:
        """Click on three operations. What a click opens may move the others out of sight, or under
        a panel: a click that misses the drawing could fold away the output that is walked."""
        clicked: list[str] = []
        for _ in range(3):
            view.read(
                "view.select([])"
            )  # what is selected already could pass for what a click does
            view.settle()
            node = self._in_sight(view, clicked)
            if node is None and not clicked and view.read(_IS_PANEL_OPEN):
                # In a narrow window the side panel lies over most of the drawing.
                self._press(view, "[data-command=toggle-panel]", place)
                view.settle()
                view.execute("fit")
                view.settle()
                node = self._in_sight(view, clicked)
            if node is None:
                break
            clicked.append(node["id"])
            view.click(node["id"])
            chosen = view.read("view.selection")
            if not chosen:  # it moved between the look and the click: it is where it is now
                view.click(node["id"])
                chosen = view.read("view.selection")
            # A box stands for the operations within, of which there is one at least.
            is_right = chosen == [node["id"]] if node["kind"] == "node" else len(chosen) > 0
            if not is_right:
                self.complaints.append(f"{place}: a click on {node['label']!r} selects {chosen}")
        if not clicked:
            self.complaints.append(f"{place}: no operation is in sight")
        self.lab.page.mouse.move(2, 2)

    def _in_sight(self, view: GraphView, apart_from: list[str]) -> dict[str, Any] | None:
        """The first operation or folded box that nothing covers."""
        found: dict[str, Any] | None = view.read(
            """(() => {
                const isOnTop = ({ x, y, w, h }) => {
                    const there = document.elementFromPoint(x + w / 2, y + Math.min(12, h / 2));
                    const stage = there?.tagName === 'CANVAS'
                        ? there.closest('.jp-MaxLab-stage') : null;
                    // A view of two graphs has another view in it.
                    return stage !== null && stage.closest('.jp-MaxLab-view') === view.element;
                };
                // What goes in or comes out can be selected, too, but is no operation.
                return view.nodes().find(({ id, kind, expanded, rect }) => kind !== 'input'
                    && kind !== 'output' && !expanded && !argument.includes(id)
                    && isOnTop(rect)) ?? null;
            })()""",
            apart_from,
        )
        return found

    def _type_through(self, view: GraphView, place: str) -> None:
        page = self.lab.page
        if not self._tab_into(view, place):
            return
        visited: dict[str, bool | None] = {}
        for key in ("Home", "ArrowDown", "ArrowDown", "ArrowDown", "End", "ArrowUp", "ArrowUp"):
            page.keyboard.press(key)
            view.settle()
            item, is_open = view.read(_ACTIVE)
            if item is None:
                self.complaints.append(f"{place}: {key} leaves the drawing")
                return
            if is_open is not None and is_open not in visited.values():
                self._fold(view, place, item, is_open)
            visited[item] = is_open
        if len(view.nodes()) > 2 and len(visited) < 3:
            self.complaints.append(f"{place}: arrows go nowhere from {list(visited)}")
        page.keyboard.press("Escape")
        self._tab_out(view, place)

    def _fold(self, view: GraphView, place: str, item: str, is_open: bool) -> None:
        """Fold or unfold the box that has the focus, and back."""
        for expected in (not is_open, is_open):
            self.lab.page.keyboard.press("Enter")
            view.settle()
            found = view.read(_ACTIVE)
            if found != [item, expected]:
                self.complaints.append(f"{place}: after Enter, {item} is {found}")

    def _tab_into(self, view: GraphView, place: str) -> bool:
        """Put the focus on the drawing of ``view`` by Tab, from the start of the view on."""
        page = self.lab.page
        view.read(
            """(() => {
                const first = view.element.querySelector('button:not([disabled]), input');
                first.focus();
            })()"""
        )
        for _ in range(MOST_TABS):
            where = view.read(
                """(() => {
                    const { activeElement } = document;
                    if (!view.element.contains(activeElement)) return 'outside';
                    return activeElement.closest('[role=tree], [role=application]') !== null
                        || activeElement === view.element ? 'drawing' : 'tools';
                })()"""
            )
            if where == "drawing":
                return True
            if where == "outside":
                break
            page.keyboard.press("Tab")
        self.complaints.append(f"{place}: Tab does not reach the drawing")
        return False

    def _tab_out(self, view: GraphView, place: str) -> None:
        for _ in range(MOST_TABS):
            self.lab.page.keyboard.press("Tab")
            if view.read("!view.element.contains(document.activeElement)"):
                return
        self.complaints.append(f"{place}: Tab does not leave the view")

    # ------------------------------------------------------------ panels
    def _panels(self, view: GraphView, place: str, name: str) -> None:
        """Open each panel of ``view``, one after the other, until it has said something."""
        page = self.lab.page
        is_open = "!view.element.querySelector('.jp-MaxLab-dock').hidden"
        if view.read(is_open):
            pass
        elif self.way == "mouse":
            self._press(view, "[data-command=toggle-dock]", place)
        else:
            self._tab_into(view, place)
            page.keyboard.press("d")
        tabs = view.read(
            """[...view.element.querySelectorAll('.jp-MaxLab-dock [role=tab][data-panel]')]
                .map(tab => tab.dataset.panel)"""
        )
        if not view.read(is_open):
            self.complaints.append(f"{place}: the dock does not open")
            return
        for number, panel in enumerate(tabs):
            tab = f".jp-MaxLab-dock [role=tab][data-panel={panel}]"
            if self.way == "mouse":
                self._press(view, tab, place)
            elif number == 0:
                view.read("view.element.querySelector(argument).focus()", tab)
                page.keyboard.press("Home")
            else:
                page.keyboard.press("ArrowRight")
            if not view.read(
                "view.element.querySelector(argument).getAttribute('aria-selected') === 'true'",
                tab,
            ):
                self.complaints.append(f"{place}: the panel {panel} does not open")
                continue
            self._answered(view, panel, place)
            self._clipped(view, f"{place}, panel {panel}")
            self.lab.shot(f"walk-{name}-panel-{panel}")
            self.seen.append(f"panel {panel} in {place}")
        if self.way == "keys":
            page.keyboard.press("Escape")
            view.read("view.element.focus()")
            page.keyboard.press("d")
        else:
            self._press(view, "[data-command=toggle-dock]", place)
        view.settle()

    def _press(self, view: GraphView, selector: str, place: str) -> None:
        """Click on the middle of the first ``selector`` of ``view``, or on its entry of the menu
        of what finds no room."""
        name = view.read(
            """(() => {
                const node = view.element.querySelector(argument);
                if (!node.classList.contains('jp-mod-overflown')) return null;
                node.closest('.jp-MaxLab-bar, .jp-MaxLab-dockHead')
                    .querySelector('.jp-MaxLab-more').click();
                return node.getAttribute('aria-label');
            })()""",
            selector,
        )
        if name is not None:
            menu = self.lab.page.locator(".jp-MaxLab-menu")
            menu.get_by_role("menuitem", name=name, exact=True).click()
            return
        x, y, covered_by = view.read(
            """(() => {
                const node = view.element.querySelector(argument);
                node.scrollIntoView({ block: 'nearest', inline: 'nearest' });
                const box = node.getBoundingClientRect();
                const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
                const there = document.elementFromPoint(x, y);
                if (node.contains(there)) return [x, y, null];
                return [x, y, there === null
                    ? 'nothing of the page' : `${there.tagName}.${there.className}`];
            })()""",
            selector,
        )
        if covered_by is None:
            self.lab.page.mouse.click(x, y)
        else:
            self.complaints.append(
                f"{place}: no mouse reaches {selector}: at {x:.0f}, {y:.0f} is {covered_by}"
            )
            self.lab.shot("walk-covered")
            view.read("view.element.querySelector(argument).click()", selector)

    def _answered(self, view: GraphView, panel: str, place: str) -> None:
        """Wait until the panel in front says something that is no promise."""
        says = """(() => {
            const dock = view.element.querySelector('.jp-MaxLab-dock');
            const busy = [...dock.querySelectorAll('.jp-MaxLab-placeholder, .jp-MaxLab-waiting')]
                .some(one => one.getClientRects().length > 0);
            const text = dock.innerText.replace(/\\s+/g, ' ').trim();
            const drawn = dock.querySelector('.jp-MaxLab-dockBody canvas, .jp-MaxLab-dockBody svg');
            const tabs = dock.querySelector('.jp-MaxLab-dockHead').innerText.length;
            return !busy && !/\\w…( |$)/.test(dock.querySelector('.jp-MaxLab-dockBody').innerText)
                && (text.length > tabs + 12 || drawn !== null);
        })()"""
        try:
            view.wait_for(says, timeout=PATIENCE_S)
        except Exception:
            text = view.read("view.element.querySelector('.jp-MaxLab-dock').innerText")
            self.complaints.append(f"{place}: the panel {panel} only says {text[-200:]!r}")

    def _clipped(self, view: GraphView, place: str) -> None:
        cut = view.read(_CLIPPED)
        self.complaints += [f"{place}: {one}" for one in cut]

    # ------------------------------------------------------------ other views
    def _dashboard(self, index: int, place: str) -> None:
        dash = self._output(index).locator(".jp-MaxLab-dash").first
        dash.locator(".u-over").first.wait_for()
        page = self.lab.page
        if self.way == "mouse":
            dash.locator(".u-over").first.hover(force=True)
            page.mouse.move(2, 2)
            return
        dash.focus()
        for key in ("Space", "+", "ArrowLeft", "0"):
            page.keyboard.press(key)
        for _ in range(MOST_TABS):
            page.keyboard.press("Tab")
            if not dash.evaluate("node => node.contains(document.activeElement)"):
                return
        self.complaints.append(f"{place}: Tab does not leave the dashboard")

    def _steps(self, index: int, place: str) -> None:
        """What ``%%cuda_sim`` shows: a list of steps, one of which is in front."""
        steps = self._output(index).locator(".mx-cs").first
        steps.wait_for()
        radios = steps.get_by_role("radio")
        if radios.count() < 2:
            return
        if self.way == "mouse":
            steps.locator("label").nth(1).click()
            return
        radios.first.focus()
        self.lab.page.keyboard.press("ArrowDown")
        if not steps.evaluate("node => node.contains(document.activeElement)"):
            self.complaints.append(f"{place}: ArrowDown leaves the steps")


_IS_PANEL_OPEN = """view.element.querySelector('[data-command=toggle-panel]')
    .getAttribute('aria-pressed') === 'true'"""

_ACTIVE = """(() => {
    const item = document.activeElement?.closest('[role=treeitem]');
    if (!item || !view.element.contains(item)) return [null, null];
    const state = item.getAttribute('aria-expanded');
    return [item.dataset.key ?? null, state === null ? null : state === 'true'];
})()"""

_CLIPPED = """(() => {
    const frame = view.element.getBoundingClientRect();
    const parts = view.element.querySelectorAll('.jp-MaxLab-bar, .jp-MaxLab-dockHead');
    const found = [];
    for (const part of parts) {
        for (const node of part.querySelectorAll('*')) {
            const box = node.getBoundingClientRect();
            const style = getComputedStyle(node);
            const isText = [...node.childNodes].some(n => n.nodeType === 3 && n.data.trim() !== '');
            const isShown = box.width > 1 && box.height > 1 && style.visibility === 'visible'
                && style.clipPath === 'none';
            if (!isShown || !(isText || node.tagName === 'BUTTON')) continue;
            const words = (node.textContent.trim() || node.getAttribute('aria-label') || '')
                .slice(0, 40);
            const outside = box.right > frame.right + 1 || box.left < frame.left - 1;
            const cut = node.scrollWidth > node.clientWidth + 1 && style.overflowX !== 'visible'
                && style.textOverflow !== 'ellipsis' && node.clientWidth > 0;
            const under = [...parts].includes(part) && part.scrollWidth > part.clientWidth + 1
                && getComputedStyle(part).overflowX === 'hidden'
                && box.right > part.getBoundingClientRect().right + 1;
            if (outside || cut || under) found.push(`${words} is cut off`);
        }
    }
    return found;
})()"""
