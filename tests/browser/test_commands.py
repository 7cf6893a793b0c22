"""JupyterLab's commands and settings act on the graph views of the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import OpenLab
from tests.browser.documents import GRAPH_MIME, encoder, packed, write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

SETTINGS = "maxlab-extension/settings.jupyterlab-settings"


def open_view(lab: LabPage, server: LabServer) -> GraphView:
    """The view of a graph that a notebook was saved with."""
    saved = {GRAPH_MIME: packed(encoder()), "text/plain": "graph encoder"}
    lab.open_notebook(write_notebook(server.root, "commands.ipynb", [saved]))
    return lab.view()


def test_commands_act_on_the_view(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    view = open_view(lab, server)
    lab.execute("maxlab:unfold-all")
    view.settle()
    assert view.labels().count("gelu") == 6
    lab.execute("maxlab:fold-all")
    view.settle()
    assert "gelu" not in view.labels()

    assert view.read("view.isHeat") is True
    lab.execute("maxlab:toggle-heat")
    assert view.read("view.isHeat") is False

    lab.execute("maxlab:search")
    lab.page.keyboard.type("gelu")
    lab.page.keyboard.press("Enter")
    view.settle()
    assert "gelu" in view.labels()

    # Nothing stands behind a saved graph that could be run.
    can_profile = "() => window.jupyterapp.commands.isEnabled('maxlab:profile')"
    assert lab.page.evaluate(can_profile) is False
    assert lab.errors == []


def test_exported_page_needs_nothing(
    open_lab: OpenLab, server: LabServer, browser: Browser, tmp_path: Path
) -> None:
    lab = open_lab("light")
    open_view(lab, server)
    with lab.page.expect_download() as download:
        lab.execute("maxlab:export-html")
    assert download.value.suggested_filename == "encoder.html"
    page_file = tmp_path / "encoder.html"
    download.value.save_as(page_file)

    context = browser.new_context(offline=True, viewport={"width": 1200, "height": 800})
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda request: troubles.append(request.url))
    page.goto(page_file.as_uri())
    page.wait_for_function("() => window.__maxlabTest?.views[0]?.nodes().length > 0")
    assert page.title() == "encoder"
    assert troubles == []
    context.close()


@pytest.fixture
def settings(server: LabServer) -> Iterator[Path]:
    """The user's settings of maxlab, as a file that a test writes; removed at the end."""
    path = server.home / "settings" / SETTINGS
    path.parent.mkdir(parents=True, exist_ok=True)
    yield path
    path.unlink(missing_ok=True)


def test_settings_say_how_a_view_starts(
    open_new: OpenLab, server: LabServer, settings: Path
) -> None:
    wanted = {"theme": "dark", "fold": "unfolded", "openInspector": True}
    settings.write_text(json.dumps(wanted))
    lab = open_new("light")
    view = open_view(lab, server)
    assert view.labels().count("gelu") == 6
    assert lab.page.locator(".jp-MaxLab-view.jp-mod-dark").is_visible()
    assert lab.page.locator(".jp-MaxLab-view .jp-MaxLab-panel").is_visible()
    lab.shot("settings-dark-in-light")


REGISTRY = """async () => {
    const app = window.jupyterapp;
    const [token] = [...app.pluginRegistry._services.keys()].filter(
        ({ name }) => name === '@jupyterlab/coreutils:ISettingRegistry');
    return await app.resolveOptionalService(token);
}"""


def test_settings_change_open_views(open_lab: OpenLab, server: LabServer, settings: Path) -> None:
    """The wheel, names, types and the map, at once in a view that is open."""
    settings.write_text("{}")
    lab = open_lab("light")
    view = open_view(lab, server)
    page = lab.page
    canvas = page.locator(".jp-MaxLab-view .jp-MaxLab-stage")
    minimap = page.locator(".jp-MaxLab-view .jp-MaxLab-minimap")

    def put(name: str, value: object) -> None:
        page.evaluate(
            f"async ([name, value]) => {{ const registry = await ({REGISTRY})();"
            " await registry.set('maxlab-extension:settings', name, value); }",
            [name, value],
        )
        page.wait_for_function(
            "([name, value]) => window.__maxlabTest.graphViews[0].preferences[name] === value",
            arg=[name, value],
        )
        view.settle()

    def turned() -> tuple[float, float]:
        """How much the wheel zooms and moves the drawing."""
        place = (
            "() => { const { camera } = window.__maxlabTest.graphViews[0].stage;"
            " return [camera.k, camera.ty]; }"
        )
        zoom, top = page.evaluate(place)
        page.mouse.wheel(0, 60)
        page.wait_for_timeout(150)
        after = page.evaluate(place)
        return after[0] - zoom, after[1] - top

    def drawn() -> int:
        """How many types the view writes into a picture of itself."""
        with page.expect_download() as download:
            lab.execute("maxlab:export-svg-view")
        return download.value.path().read_text("utf-8").count("f32[")

    box = canvas.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 5, box["y"] + box["height"] / 2)
    assert turned()[0] < 0
    put("wheel", "scroll")
    zoom, moved = turned()
    assert zoom == 0
    assert moved == pytest.approx(-60)
    put("wheel", "ctrl")
    assert turned() == (0, 0)

    view.execute("actual-size")
    zoomed = drawn()
    put("types", "never")
    never = drawn()
    assert never < zoomed
    put("types", "always")
    assert drawn() == zoomed

    lab.execute("maxlab:unfold-all")
    view.settle()
    before = set(view.labels())
    put("names", "full")
    full = set(view.labels())
    assert any(name.endswith(".gelu") for name in full - before)
    lab.shot("settings-full-names")
    put("names", "short")
    assert set(view.labels()) == before

    view.execute("actual-size")
    minimap.wait_for()
    view.execute("toggle-minimap")
    minimap.wait_for(state="hidden")
    page.wait_for_function(
        "async () => { const registry = await (" + REGISTRY + ")();"
        " const got = await registry.get('maxlab-extension:settings', 'minimap');"
        " return got.user === false; }"
    )
    put("minimap", value=True)
    minimap.wait_for()
