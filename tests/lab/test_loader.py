"""The loader that is stored with every view, in a browser, with models that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from maxlab import __version__
from maxlab.lab.widget import loader
from tests.browser.page import CHROMIUM_FLAGS, chromium

pytestmark = pytest.mark.browser

# A model whose kernel answers `need_bundle` with a module that counts how often it is loaded.
SETUP = """
const code = `globalThis.loaded = (globalThis.loaded ?? 0) + 1;
export const render = ({ model, el }) => { el.push(model.name); return () => el.push("end"); };`;
globalThis.asked = [];
globalThis.makeModel = (name, answers) => {
  const listeners = new Set();
  return {
    name,
    listeners,
    on: (event, callback) => listeners.add(callback),
    off: (event, callback) => listeners.delete(callback),
    send: message => {
      asked.push([name, message.type]);
      if (!answers) return;
      const bytes = new TextEncoder().encode(code);
      setTimeout(() => {
        for (const hear of [...listeners]) hear({ type: "other" }, []);
        for (const hear of [...listeners]) {
          hear({ type: "bundle", version: "V" }, [new DataView(bytes.buffer)]);
        }
      }, 50);
    }
  };
};
globalThis.load = async text => {
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  globalThis.widget = (await import(url)).default;
};
"""


@pytest.fixture
def page() -> Iterator[Page]:
    """An empty page of which the loader knows nothing yet."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium found: apt-get install chromium, or set MAXLAB_CHROMIUM to one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        made = browser.new_page()
        made.evaluate(SETUP)
        yield made
        browser.close()


def run(page: Page, script: str) -> Any:
    """What ``script`` returns; the loader is imported anew, as each widget does it."""
    return page.evaluate(f"async text => {{ await load(text); {script} }}", loader())


def test_many_views_fetch_the_code_once(page: Page) -> None:
    seen = run(
        page,
        """
        const models = ["a", "b", "c"].map(name => makeModel(name, true));
        const drawn = [];
        const ends = await Promise.all(models.map(model => widget.render({ model, el: drawn })));
        ends[0]();
        return { asked, loaded, drawn, left: models.map(m => m.listeners.size) };
        """,
    )
    assert seen["asked"] == [["a", "need_bundle"]]
    assert seen["loaded"] == 1
    assert sorted(seen["drawn"]) == ["a", "b", "c", "end"]
    assert seen["left"] == [0, 0, 0]
    again = run(page, "await widget.render({ model: makeModel('d', true), el: [] }); return asked;")
    assert again == [["a", "need_bundle"]]


def test_a_view_asks_itself_when_the_first_was_not_answered(page: Page) -> None:
    seen = run(
        page,
        """
        void widget.render({ model: makeModel("dead", false), el: [] });
        await widget.render({ model: makeModel("alive", true), el: [] });
        return asked;
        """,
    )
    assert seen == [["dead", "need_bundle"], ["alive", "need_bundle"]]


@pytest.mark.parametrize(("version", "fetched"), [(__version__, False), ("0.0.0", True)])
def test_the_extension_lends_its_code(page: Page, version: str, fetched: bool) -> None:
    seen = page.evaluate(
        """async ([text, version]) => {
            const el = [];
            globalThis.__maxlab = { version, render: ({ el }) => el.push("lent") };
            await load(text);
            await widget.render({ model: makeModel("a", true), el });
            return { el, asked: asked.length, kept: globalThis.__maxlab.version };
        }""",
        [loader(), version],
    )
    assert seen == {"el": ["a"] if fetched else ["lent"], "asked": int(fetched), "kept": version}
