"""Views come and go: what was opened and closed leaves nothing behind in the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from playwright.sync_api import Browser, CDPSession

from maxlab.lab.export import page_of
from maxlab.lab.protocol import GraphDocument
from maxlab.lab.snapshot import Snapshot
from tests.browser.documents import encoder

pytestmark = pytest.mark.browser

# Mounts a view in the page, opens every panel, unfolds the graph, and closes it again.
OPEN_AND_CLOSE = """async ([text, times]) => {
  const [first] = window.__maxlabTest.graphViews;
  const View = first.constructor;
  const frame = () => new Promise(requestAnimationFrame);
  for (let n = 0; n < times; n += 1) {
    const host = document.createElement('div');
    document.body.append(host);
    const view = new View(host, { noProfile: 'a test' });
    view.setDocument(text);
    await view.layoutDone();
    for (const id of view.commands.keys()) {
      if (id.startsWith('panel-')) { view.execute(id); await frame(); }
    }
    view.execute('unfold-all');
    view.select([view.model.nodes[n % view.model.nodes.length].node.id]);
    await view.layoutDone();
    await frame();
    view.dispose();
    host.remove();
  }
  return window.__maxlabTest.graphViews.length;
}"""


def heap(session: CDPSession) -> int:
    """Bytes of live objects in the page."""
    for _ in range(3):  # what one collection frees may hold on to more
        session.send("HeapProfiler.collectGarbage")
    used: int = session.send("Runtime.getHeapUsage")["usedSize"]
    return used


def test_fifty_views_give_the_heap_back(browser: Browser, tmp_path: Path) -> None:
    document = encoder(layers=12)
    file = tmp_path / "page.html"
    file.write_text(page_of(Snapshot(cast(GraphDocument, document))), "utf-8")
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_function("() => window.__maxlabTest?.graphViews?.length === 1")
    session = context.new_cdp_session(page)
    session.send("HeapProfiler.enable")
    text = json.dumps(document)
    assert page.evaluate(OPEN_AND_CLOSE, [text, 20]) == 1  # the engine compiles what runs often
    before, held = heap(session), session.send("Memory.getDOMCounters")
    assert page.evaluate(OPEN_AND_CLOSE, [text, 50]) == 1
    after = heap(session)
    assert session.send("Memory.getDOMCounters") == held
    # A view that stayed would hold its graph, some hundred kilobytes.
    assert after - before < 600_000, (before, after)
    assert errors == []
    context.close()
