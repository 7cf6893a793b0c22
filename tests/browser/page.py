"""JupyterLab in headless Chromium: what a test does there, with the waiting done right."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    ViewportSize,
)
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.browser.server import LabServer

SHOTS = Path(__file__).parent / "shots"
AXE = Path(__file__).parents[2] / "extension" / "node_modules" / "axe-core" / "axe.min.js"
THEMES = {
    "light": "JupyterLab Light",
    "dark": "JupyterLab Dark",
    "contrast": "JupyterLab Dark High Contrast",
}

# As root in a closed network: no sandbox, and no calls home, which would be refused one by one.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]

# Seconds; generous, because test machines are slow and share their cores.
TIMEOUT = 60.0
VIEWPORT: ViewportSize = {"width": 1440, "height": 900}


def chromium() -> str | None:
    """The path of a Chromium to drive, or None."""
    given = os.environ.get("MAXLAB_CHROMIUM")
    if given:
        return given
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


_OF_A_RECENT_FILE = "?content=0&hash=0"
"""In what JupyterLab asks when it starts: whether the files that it lists as recent are there."""


@dataclass
class LabPage:
    """One browser page with JupyterLab, or a page of Notebook 7, in it."""

    server: LabServer
    page: Page
    context: BrowserContext
    errors: list[str] = field(default_factory=list)
    """What went wrong: uncaught exceptions, console errors, failed or foreign requests."""
    allowed: list[str] = field(default_factory=list)
    """Parts of errors and of shown problems that a test causes on purpose."""

    @classmethod
    def open(cls, browser: Browser, server: LabServer, theme: str = "light") -> LabPage:
        """JupyterLab, started up, in a fresh profile."""
        lab = cls.at(browser, server, "lab")
        lab.page.locator("#jp-main-dock-panel").wait_for()
        lab.page.locator("#jupyterlab-splash").wait_for(state="detached")
        lab.set_theme(theme)
        return lab

    @classmethod
    def at(cls, browser: Browser, server: LabServer, path: str) -> LabPage:
        """The page ``path`` of the server, such as ``tree`` of Notebook 7, in a fresh profile."""
        context = browser.new_context(viewport=VIEWPORT)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT * 1000)
        lab = cls(server, page, context)
        page.on("pageerror", lambda error: lab.errors.append(f"uncaught: {error.stack or error}"))
        page.on("console", lab._console)
        page.on("requestfailed", lab._request_failed)
        page.on("request", lab._request)
        page.goto(f"{server.url}/{path}?token={server.token}&reset")
        page.wait_for_function("() => window.jupyterapp")
        page.evaluate("async () => { await window.jupyterapp.restored; }")
        return lab

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            where = message.location.get("url", "")
            if "404" in message.text and _OF_A_RECENT_FILE in where:
                return  # a test before this one has removed it
            self.errors.append(f"console: {message.text} {where}".rstrip())

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.errors.append(f"request leaves the machine: {request.url}")

    def _request_failed(self, request: Request) -> None:
        # A page that goes away aborts what it had asked for.
        if request.failure != "net::ERR_ABORTED":
            self.errors.append(f"failed: {request.url} {request.failure}")

    def faults(self) -> list[str]:
        """The errors so far, and the problems that a view shows now, but for those allowed."""
        shown = self.page.evaluate(
            """() => [...document.querySelectorAll('.jp-MaxLab-problem')]
                .filter(box => box.getClientRects().length > 0)
                .map(box => `a view shows: ${box.textContent}`)"""
        )
        return [
            fault
            for fault in (*self.errors, *shown)
            if not any(part in fault for part in self.allowed)
        ]

    def close(self) -> None:
        """Close the page and forget its profile."""
        self.context.close()

    def tidy(self) -> bool:
        """Whether the page is as good as a new one, now that what was open in it is closed and what
        it had kept is forgotten."""
        if self.page.viewport_size != VIEWPORT:
            self.page.set_viewport_size(VIEWPORT)
        self.close_all()
        left: int = self.page.evaluate(
            """async () => {
                const { shell, commands, serviceManager } = window.jupyterapp;
                shell.collapseRight();
                shell.activateById('filebrowser');
                await commands.execute('filebrowser:go-to-path', { path: '/' });
                localStorage.clear();
                sessionStorage.clear();
                await serviceManager.sessions.shutdownAll();
                await serviceManager.kernels.shutdownAll();
                return document.querySelectorAll('.jp-MaxLab-view, .jp-Dialog, .lm-Menu').length;
            }"""
        )
        return left == 0

    # -- the application ---------------------------------------------------------------------------

    def execute(self, command: str, args: dict[str, Any] | None = None) -> None:
        """Run a JupyterLab command and wait for it; what it returns stays in the page."""
        self.page.evaluate(
            "async ([id, args]) => { await window.jupyterapp.commands.execute(id, args); }",
            [command, args or {}],
        )

    def commands(self, prefix: str) -> dict[str, str]:
        """Id and label of every command whose id starts with ``prefix``."""
        found: dict[str, str] = self.page.evaluate(
            """(prefix) => {
                const { commands } = window.jupyterapp;
                return Object.fromEntries(commands.listCommands()
                    .filter(id => id.startsWith(prefix)).map(id => [id, commands.label(id)]));
            }""",
            prefix,
        )
        return found

    def plugins(self, prefix: str) -> dict[str, bool]:
        """Id of every plugin that starts with ``prefix``, and whether it is active."""
        found: dict[str, bool] = self.page.evaluate(
            """(prefix) => Object.fromEntries(window.jupyterapp.listPlugins()
                .filter(id => id.startsWith(prefix))
                .map(id => [id, window.jupyterapp.isPluginActivated(id)]))""",
            prefix,
        )
        return found

    def find_in_palette(self, words: str) -> list[str]:
        """What the command palette lists for ``words``; it stays open.

        The palette closes when anything else takes the focus, which JupyterLab may give to the
        launcher for some time after its start: then once more.
        """
        items = self.page.locator(".lm-CommandPalette-item:visible")
        for _ in range(5):
            self.execute("apputils:activate-command-palette")
            try:
                self.page.locator(".lm-CommandPalette-input:visible").fill(words, timeout=5000)
                items.first.wait_for(timeout=5000)
            except PlaywrightTimeout:
                continue
            found = items.all_text_contents()
            if found:  # it may have closed since
                return found
        raise AssertionError("the command palette does not stay open")

    def set_theme(self, theme: str) -> None:
        """Change to a theme of ``THEMES`` and wait until it is there."""
        self.execute("apputils:change-theme", {"theme": THEMES[theme]})
        self.page.wait_for_function(
            "(name) => document.body.dataset.jpThemeName === name",
            arg=THEMES[theme],
        )
        # Another change of the theme while this one's splash is there breaks JupyterLab's own.
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    # -- notebooks ---------------------------------------------------------------------------------

    def open_notebook(self, path: str) -> None:
        """Open ``path`` (relative to the server's root) and wait until its kernel answers.

        The session's kernel info is the one sign that what is run from now on is not lost.
        """
        self.page.evaluate(
            """async (path) => {
                const app = window.jupyterapp;
                const panel = await app.commands.execute(
                    'docmanager:open', { path, factory: 'Notebook' });
                await panel.context.ready;
                await panel.sessionContext.ready;
                await panel.sessionContext.session.kernel.info;
                app.shell.activateById(panel.id);
            }""",
            path,
        )
        self.page.locator(".jp-Notebook:visible .jp-Cell").first.wait_for()

    def wait_for_kernel(self) -> None:
        """Wait until the kernel of the active notebook answers."""
        self.page.evaluate(
            """async () => {
                const panel = window.jupyterapp.shell.currentWidget;
                await panel.context.ready;
                await panel.sessionContext.ready;
                await panel.sessionContext.session.kernel.info;
            }"""
        )

    def current_id(self) -> str:
        """Id of the active tab of the main area."""
        found: str = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.id")
        return found

    def activate(self, tab: str) -> None:
        """Make the tab with the id ``tab`` the active one."""
        self.page.evaluate("(id) => window.jupyterapp.shell.activateById(id)", tab)
        self.page.wait_for_function(
            "(id) => window.jupyterapp.shell.currentWidget.id === id", arg=tab
        )

    def run_all(self, timeout: float = 180) -> None:
        """Run every cell of the active notebook; fails with the first traceback."""
        self.page.set_default_timeout(timeout * 1000)
        self.execute("notebook:run-all-cells")
        self.page.set_default_timeout(TIMEOUT * 1000)
        errors = [output for output in self.outputs() if output["output_type"] == "error"]
        assert not errors, _plain("\n".join(errors[0]["traceback"]))

    def run_code(self, source: str, wait: bool = True) -> list[dict[str, Any]]:
        """Outputs of ``source``, run in a new last cell of the active notebook.

        With ``wait`` false it is only started, and there are none.
        """
        outputs: list[dict[str, Any]] = self.page.evaluate(
            """async ([source, wait]) => {
                const app = window.jupyterapp;
                const panel = app.shell.currentWidget;
                const notebook = panel.content;
                notebook.activeCellIndex = notebook.widgets.length - 1;
                await app.commands.execute('notebook:insert-cell-below');
                notebook.activeCell.model.sharedModel.setSource(source);
                const done = app.commands.execute('notebook:run-cell');
                if (!wait) return [];
                await done;
                return notebook.activeCell.model.outputs.toJSON();
            }""",
            [source, wait],
        )
        for output in outputs:
            assert output["output_type"] != "error", _plain("\n".join(output["traceback"]))
        return outputs

    def outputs(self) -> list[dict[str, Any]]:
        """Every output of the active notebook, in order, as its file would hold it."""
        found: list[dict[str, Any]] = self.page.evaluate(
            """() => window.jupyterapp.shell.currentWidget.content.widgets
                .filter(cell => cell.model.type === 'code')
                .flatMap(cell => cell.model.outputs.toJSON())"""
        )
        return found

    def show_cell(self, index: int) -> Locator:
        """Cell ``index`` of the active notebook, scrolled to: those out of sight are not there."""
        self.page.evaluate(
            """async (index) => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                notebook.activeCellIndex = index;
                await notebook.scrollToItem(index, 'start');
            }""",
            index,
        )
        cell = self.page.locator(
            f'.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell[data-windowed-list-index="{index}"]'
        )
        cell.wait_for()
        return cell

    def show_output_of(self, last_line: str) -> None:
        """Scroll to the output of the first cell that ends with ``last_line``."""
        found = self.page.evaluate(
            """async (line) => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                const ends = cell => cell.model.sharedModel.getSource().trim().split('\\n').pop();
                const index = notebook.widgets.findIndex(
                    cell => cell.model.type === 'code' && ends(cell) === line);
                if (index < 0) return false;
                notebook.activeCellIndex = index;
                await notebook.scrollToItem(index, 'smart');
                const output = notebook.widgets[index].outputArea.node;
                output.scrollIntoView({ block: 'center' });
                return true;
            }""",
            last_line,
        )
        assert found, f"no cell ends with {last_line!r}"

    def close_all(self) -> None:
        """Close all tabs of the main area without a question about unsaved changes."""
        self.page.evaluate(
            """() => { for (const widget of [...window.jupyterapp.shell.widgets('main')]) {
                widget.context && (widget.context.model.dirty = false);
                widget.dispose();
            } }"""
        )

    # -- graph views -------------------------------------------------------------------------------

    def view(self, index: int = 0) -> GraphView:
        """The graph view number ``index`` of those in the page, laid out."""
        self.page.wait_for_function("(n) => window.__maxlabTest?.views.length > n", arg=index)
        view = GraphView(self, index)
        view.settle()
        return view

    def visible_view(self) -> GraphView:
        """The graph view that is nearest to the middle of the page, laid out."""
        nearest = """() => {
            const middle = window.innerHeight / 2;
            const away = ({ element }) => {
                const box = element.getBoundingClientRect();
                const seen = element.isConnected && box.height > 0
                    && box.bottom > 0 && box.top < window.innerHeight;
                return seen ? Math.abs((box.top + box.bottom) / 2 - middle) : Infinity;
            };
            const views = window.__maxlabTest?.views ?? [];
            const distances = views.map(away);
            const least = Math.min(...distances);
            return Number.isFinite(least) ? distances.indexOf(least) : -1;
        }"""
        self.page.wait_for_function(f"() => ({nearest})() >= 0")
        return self.view(self.page.evaluate(nearest))

    # -- looking -----------------------------------------------------------------------------------

    def shot(self, name: str) -> Path:
        """A screenshot of the whole page, for a person to look at."""
        SHOTS.mkdir(exist_ok=True)
        path = SHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def barriers(self, selector: str) -> list[str]:
        """What axe-core finds below ``selector`` against WCAG 2.1 A and AA, a line each."""
        if not self.page.evaluate("() => typeof window.axe === 'object'"):
            self.page.evaluate(AXE.read_text("utf-8"))
        found: list[str] = self.page.evaluate(
            """async (selector) => {
                const { violations } = await window.axe.run(selector, {
                    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] });
                return violations.flatMap(({ id, nodes }) => nodes.map(
                    ({ target, failureSummary }) =>
                        `${id}: ${target.join(' ')}: ${failureSummary.replace(/\\s+/g, ' ')}`));
            }""",
            selector,
        )
        return found

    def contrast(self, selector: str) -> list[tuple[str, float]]:
        """Text and WCAG contrast ratio of each visible element with own text below ``selector``."""
        found: list[tuple[str, float]] = [
            (text, ratio) for text, ratio in self.page.evaluate(_CONTRAST, selector)
        ]
        return found


@dataclass
class GraphView:
    """One graph view in the page. A canvas has no elements to query: the view says what it drew."""

    lab: LabPage
    index: int

    def read(self, expression: str, argument: Any = None) -> Any:
        """What ``expression`` gives, with ``view`` and ``argument`` in scope; awaited."""
        return self.lab.page.evaluate(
            f"async ([index, argument]) => {{"
            f" const view = window.__maxlabTest.views[index]; return await ({expression}); }}",
            [self.index, argument],
        )

    def settle(self) -> None:
        """Wait until the newest layout is drawn and nothing moves."""
        self.read("view.layoutDone()")
        self.lab.page.wait_for_function(
            """(index) => {
                const view = window.__maxlabTest.views[index];
                // JupyterLab may make a view anew as it restores a page.
                return view !== undefined && view.nodes().length > 0 && !view.isMoving;
            }""",
            arg=self.index,
        )

    def wait_for(self, expression: str, timeout: float = TIMEOUT) -> None:
        """Wait until ``expression``, with ``view`` in scope, is true."""
        self.lab.page.wait_for_function(
            f"(index) => {{ const view = window.__maxlabTest.views[index]; return {expression}; }}",
            arg=self.index,
            timeout=timeout * 1000,
        )

    def nodes(self) -> list[dict[str, Any]]:
        """What is drawn: id, label, kind, scope, heat and place of each item."""
        found: list[dict[str, Any]] = self.read("view.nodes()")
        return found

    def labels(self) -> list[str]:
        """The label of each item that is drawn."""
        return [node["label"] for node in self.nodes()]

    def execute(self, command: str) -> None:
        """Do what a key or button of the view does."""
        assert self.read("view.execute(argument)", command), command
        self.settle()

    def expand(self, path: str) -> None:
        """Unfold the box of the scope ``path``."""
        assert self.read("view.expand(argument)", path), path
        self.settle()

    def collapse(self, path: str) -> None:
        """Fold the box of the scope ``path``."""
        assert self.read("view.collapse(argument)", path), path
        self.settle()

    def click(self, item: str) -> None:
        """Press the mouse on the first drawn item with this id or label."""
        rect = next(n["rect"] for n in self.nodes() if item in (n["id"], n["label"]))
        self.lab.page.mouse.click(rect["x"] + rect["w"] / 2, rect["y"] + min(12, rect["h"] / 2))
        self.settle()

    def inspector(self) -> str:
        """The text of the inspector."""
        text: str = self.read("view.inspectorText()")
        return text


def _plain(text: str) -> str:
    """``text`` without terminal colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


_CONTRAST = """(selector) => {
    const parse = (text) => {
        const m = text.match(/rgba?\\(([^)]+)\\)/);
        if (!m) return null;
        const [r, g, b, a = 1] = m[1].split(/[ ,/]+/).filter(Boolean).map(Number);
        return { r, g, b, a };
    };
    const over = (top, under) => ({
        r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a),
        b: top.b * top.a + under.b * (1 - top.a), a: 1 });
    const background = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) {
            const colour = parse(getComputedStyle(e).backgroundColor);
            if (colour && colour.a > 0) { layers.push(colour); if (colour.a === 1) break; }
        }
        const page = { r: 255, g: 255, b: 255, a: 1 };
        return layers.reverse().reduce((under, top) => over(top, under), page);
    };
    const luminance = ({ r, g, b }) => {
        const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const [x, y, z] = [r / 255, g / 255, b / 255].map(linear);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const result = [];
    for (const root of document.querySelectorAll(selector)) {
        for (const element of [root, ...root.querySelectorAll('*')]) {
            const texts = [...element.childNodes].filter(n => n.nodeType === 3);
            const own = texts.map(n => n.data.trim()).join(' ').trim();
            const box = element.getBoundingClientRect();
            const style = getComputedStyle(element);
            const hidden = box.width < 2 || box.height < 2 || style.visibility !== 'visible';
            if (!own || hidden) continue;
            const under = background(element);
            const colour = parse(style.color);
            if (!colour) continue;
            const [a, b] = [luminance(over(colour, under)), luminance(under)];
            result.push([own, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]);
        }
    }
    return result;
}"""
