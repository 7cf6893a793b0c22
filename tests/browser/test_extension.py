"""The extension in JupyterLab: plugins, commands, launcher tile and panel, in light and dark."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.page import LabPage

pytestmark = pytest.mark.browser

PLUGINS = {
    "maxlab-extension:charts",
    "maxlab-extension:code",
    "maxlab-extension:commands",
    "maxlab-extension:compare",
    "maxlab-extension:cell-progress",
    "maxlab-extension:core",
    "maxlab-extension:diagnostics",
    "maxlab-extension:editor",
    "maxlab-extension:files",
    "maxlab-extension:graphs",
    "maxlab-extension:hints",
    "maxlab-extension:insert",
    "maxlab-extension:keys",
    "maxlab-extension:launcher",
    "maxlab-extension:menu",
    "maxlab-extension:mime",
    "maxlab-extension:monitor",
    "maxlab-extension:panels",
    "maxlab-extension:reveal",
    "maxlab-extension:settings",
    "maxlab-extension:show-cell",
    "maxlab-extension:status",
}
COMMANDS = {
    "maxlab:new-notebook",
    "maxlab:show-graphs",
    "maxlab:fold-all",
    "maxlab:unfold-all",
    "maxlab:profile",
    "maxlab:toggle-direction",
    "maxlab:toggle-heat",
    "maxlab:search",
    "maxlab:copy-python",
    "maxlab:export-html",
    "maxlab:export-png",
    "maxlab:export-svg",
    "maxlab:open-diagnostics",
}
# WCAG AA for normal text.
LEGIBLE = 4.5


def test_plugins_are_active(open_lab: OpenLab) -> None:
    lab = open_lab("light")
    plugins = lab.plugins("maxlab-extension:")
    assert set(plugins) == PLUGINS
    assert all(plugins.values()), plugins
    assert lab.errors == []


def test_launcher_tile(lab: LabPage) -> None:
    tile = lab.page.locator('.jp-LauncherCard[data-category="maxlab"]', has_text="graph notebook")
    tile.wait_for()
    lab.shot(f"launcher-{lab_theme(lab)}")
    assert "maxlab" in (tile.get_attribute("title") or "")


def test_command_palette(lab: LabPage) -> None:
    assert set(lab.commands("maxlab:")) >= COMMANDS
    labels = lab.find_in_palette("maxlab")
    lab.shot(f"palette-{lab_theme(lab)}")
    # The palette hides what cannot be done now: without a view, all that acts on one.
    assert any("graph notebook" in label for label in labels), labels
    assert any("Show the graphs" in label for label in labels), labels
    assert not any("Fold" in label for label in labels), labels


def test_graphs_panel_without_a_notebook(lab: LabPage) -> None:
    lab.execute("maxlab:show-graphs")
    panel = lab.page.locator("#maxlab-graphs")
    panel.wait_for()
    assert panel.is_visible()
    assert "notebook" in panel.inner_text()
    lab.shot(f"panel-empty-{lab_theme(lab)}")
    faint = [(text, ratio) for text, ratio in lab.contrast("#maxlab-graphs") if ratio < LEGIBLE]
    assert not faint, faint
    assert lab.errors == []


def test_source_line_of_a_file(open_lab: OpenLab) -> None:
    lab = open_lab("light")
    file = lab.server.root / "spot.py"
    file.write_text("a = 1\nb = 2\nc = 3\nd = 4\n")
    lab.page.evaluate(
        """detail => document.body.dispatchEvent(
            new CustomEvent("maxlab:reveal", {bubbles: true, detail}))""",
        {"file": str(file), "line": 3, "col": 2},
    )
    lab.page.locator(".jp-FileEditor .cm-content").wait_for()
    lab.page.wait_for_function(
        """() => {
            const {editor} = jupyterapp.shell.currentWidget.content;
            const {line, column} = editor.getCursorPosition();
            return editor.hasFocus() && line === 2 && column === 2;
        }"""
    )
    assert lab.errors == []


def lab_theme(lab: LabPage) -> str:
    """``light`` or ``dark``, as the page says."""
    is_light: bool = lab.page.evaluate("() => document.body.dataset.jpThemeLight === 'true'")
    return "light" if is_light else "dark"
