"""Times the first picture of a graph: ``python -m benchmarks.first_picture [--json FILE]``.

From the kernel's receipt of a cell that shows a graph which exists already to the end of the first
frame that has its names, in headless Chromium: the sentence embedder of the second tutorial, and a
graph of 10,000 operations without scopes. Each is shown ``--runs`` times in one page, after once
that is not counted, in which modules are loaded.

With ``MAXLAB_VIEWERS`` set to a Python that has netron and ai-edge-model-explorer, both open the
same graphs, in turn, in the same run and browser: from the request of a page whose server has the
file at hand to the first frame with names (Netron), or to the first frame with triangles of the
graph (Model Explorer, which draws its names with WebGL). They need no kernel and no notebook; the
scopes of the embedder become namespaces, which only Model Explorer folds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

FLAGS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WAIT_S = 60

# Notes when the frame with the first name on a canvas of a view is over, for each view.
WATCH = """() => {
  const proto = CanvasRenderingContext2D.prototype;
  const { fillText } = proto;
  const seen = new WeakSet();
  window.__firstNames = [];
  proto.fillText = function (text, ...rest) {
    const { canvas } = this;
    const isView = canvas.isConnected && canvas.classList.contains('jp-MaxLab-canvas');
    if (isView && !seen.has(canvas) && /^[a-z]/i.test(text)) {
      seen.add(canvas);
      const channel = new MessageChannel();
      channel.port1.onmessage = () =>
        window.__firstNames.push(performance.timeOrigin + performance.now());
      // What is posted in a frame is heard after it.
      requestAnimationFrame(() => channel.port2.postMessage(0));
    }
    return fillText.call(this, text, ...rest);
  };
}"""

NETRON = """async () => {
  while (!document.querySelector('svg g.node text')) {
    await new Promise(requestAnimationFrame);
  }
  await new Promise(requestAnimationFrame);
  return performance.now();
}"""

# WebGL is drawn by three.js: the first call with many triangles is the graph.
TRIANGLES = """(() => {
  const proto = WebGL2RenderingContext.prototype;
  const calls = ['drawElementsInstanced', 'drawArraysInstanced', 'drawElements', 'drawArrays'];
  for (const name of calls) {
    const draw = proto[name];
    proto[name] = function (...args) {
      window.__firstTriangles ??= performance.now();
      return draw.apply(this, args);
    };
  }
})()"""
EXPLORER = """async () => {
  while (window.__firstTriangles === undefined) {
    await new Promise(requestAnimationFrame);
  }
  await new Promise(requestAnimationFrame);
  return performance.now();
}"""


def tutorial() -> str:
    """The code of the second tutorial up to its graph, which is not shown."""
    notebook = json.loads((ROOT / "notebooks" / "02_minilm.ipynb").read_text("utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    end = next(n for n, cell in enumerate(cells) if cell.rstrip().endswith("\ngraph"))
    return "\n".join(cells[: end + 1]).rstrip().removesuffix("\ngraph") + "\nminilm_graph = graph"


def setup(folder: Path) -> str:
    """Code that makes both graphs, and writes their documents to ``folder``."""
    return f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from benchmarks.view import large_graph
{tutorial()}
large = large_graph(10_000)
import json
from maxlab.lab.snapshot import take
for name, shown in (("minilm", minilm_graph), ("large", large)):
    with open({str(folder)!r} + f"/{{name}}.json", "w") as file:
        json.dump(take(shown).document, file)
def received(*_):
    # the hook is the first thing that a kernel does with a cell that it has received
    with open({str(folder)!r} + "/received", "w") as file:
        file.write(repr(time.time()))
get_ipython().events.register("pre_execute", received)
"""


def measure(runs: int, folder: Path, browser: Any) -> dict[str, list[float]]:
    """Milliseconds to the first names in JupyterLab, by graph."""
    from tests.browser.documents import write_notebook
    from tests.browser.page import LabPage
    from tests.browser.server import start_lab

    root = folder / "root"
    root.mkdir()
    server = start_lab(root, folder)
    times: dict[str, list[float]] = {"minilm": [], "large": []}
    try:
        lab = LabPage.open(browser, server)
        lab.open_notebook(write_notebook(root, "first.ipynb", []))
        lab.page.evaluate(WATCH)
        lab.run_code(setup(folder))
        for run in range(runs + 1):
            for name, variable in (("minilm", "minilm_graph"), ("large", "large")):
                lab.page.evaluate("() => { window.__firstNames = []; }")
                lab.run_code(variable)
                lab.page.wait_for_function(
                    "() => window.__firstNames.length > 0", timeout=WAIT_S * 1000
                )
                drawn = lab.page.evaluate("() => window.__firstNames[0]")
                received = float((folder / "received").read_text()) * 1000
                if run > 0:
                    times[name].append(drawn - received)
                lab.execute("notebook:delete-cell")
                time.sleep(0.5)
        lab.close()
    finally:
        server.stop()
    return times


def _field(number: int, content: bytes | str | int) -> bytes:
    """One field of a protocol buffer: a varint, or bytes with their length."""

    def varint(value: int) -> bytes:
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def as_onnx(document: dict[str, Any]) -> bytes:
    """The operations and edges of a document as an ONNX model, which both viewers read."""
    nodes = [
        b"".join(
            [_field(1, value) for value in node["operands"]]
            + [_field(2, value) for value in node["results"]]
            + [_field(3, f"{node['scope']}/{node['id']}".strip("/").replace(".", "/"))]
            + [_field(4, node["op"])]
        )
        for node in document["nodes"]
    ]
    graph = b"".join(
        [_field(1, node) for node in nodes]
        + [_field(2, document["name"])]
        + [_field(11, _field(1, value)) for value in document["inputs"]]
        + [_field(12, _field(1, value)) for value in document["outputs"]]
    )
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 17))


def as_explored(document: dict[str, Any]) -> dict[str, Any]:
    """The document as Model Explorer's own JSON."""
    made = {value: node["id"] for node in document["nodes"] for value in node["results"]}
    nodes = [
        {
            "id": node["id"],
            "label": node["op"],
            "namespace": node["scope"].replace(".", "/"),
            "attrs": [],
            "incomingEdges": [
                {
                    "sourceNodeId": made[value],
                    "sourceNodeOutputId": "0",
                    "targetNodeInputId": str(place),
                }
                for place, value in enumerate(node["operands"])
                if value in made
            ],
        }
        for node in document["nodes"]
    ]
    return {"label": document["name"], "graphs": [{"id": "graph", "nodes": nodes}]}


SERVE_NETRON = """
import netron, sys, time
address = netron.start(sys.argv[1], address=0, browse=False)
print(f"http://{address[0]}:{address[1]}", flush=True)
time.sleep(3600)
"""

SERVE_EXPLORER = """
import sys
import model_explorer
path, port = sys.argv[1], int(sys.argv[2])
config = model_explorer.config().add_model_from_path(path)
print(f"http://localhost:{port}/?data={config.to_url_param_value()}", flush=True)
model_explorer.visualize_from_config(config, port=port, no_open_in_browser=True)
"""


def peers(runs: int, folder: Path, browser: Any, python: str) -> dict[str, dict[str, list[float]]]:
    """Milliseconds to the first names of Netron and of Model Explorer, by graph."""
    from tests.browser.server import free_port

    results: dict[str, dict[str, list[float]]] = {"netron": {}, "model explorer": {}}
    for name in ("minilm", "large"):
        document = json.loads((folder / f"{name}.json").read_text())
        onnx = folder / f"{name}.onnx"
        onnx.write_bytes(as_onnx(document))
        explored = folder / f"{name}-explored.json"
        explored.write_text(json.dumps(as_explored(document)))
        viewers: list[tuple[str, list[str], str | None, str]] = [
            ("netron", [SERVE_NETRON, str(onnx)], None, NETRON),
            (
                "model explorer",
                [SERVE_EXPLORER, str(explored), str(free_port())],
                TRIANGLES,
                EXPLORER,
            ),
        ]
        for viewer, arguments, before, until in viewers:
            with _Served([python, "-c", *arguments]) as url:
                first = _opened(browser, url, before, until)
                # What does not open once within the limit is not waited for again.
                more = runs if first < float("inf") else 0
                again = [_opened(browser, url, before, until) for _ in range(more)]
                results[viewer][name] = again or [first]
    return results


def _opened(browser: Any, url: str, before: str | None, until: str) -> float:
    """Milliseconds from the request of a page to the end of the script ``until``, or infinity."""
    from playwright.sync_api import Error

    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(WAIT_S * 1000)
    told: list[float] = []

    def tell(ms: float) -> None:
        told.append(ms)

    try:
        # Netron asks once about its statistics, and waits for where the reader is.
        site = url.split("/?", maxsplit=1)[0]
        context.add_cookies([{"name": "consent", "value": "1", "url": site}])
        page.route(lambda asked: "localhost" not in asked, lambda route: route.abort())
        # Netron forbids `eval`, so that nothing can be asked of its page: it tells by itself.
        page.expose_function("__tell", tell)
        page.add_init_script(f"{before or ''}; ({until})().then(ms => window.__tell(ms))")
        page.goto(url, wait_until="commit")
        started = time.monotonic()
        while not told and time.monotonic() - started < WAIT_S:
            page.wait_for_timeout(100)
        return told[0] if told else float("inf")
    except Error as error:
        print(f"{url}: {error}")
        return float("inf")
    finally:
        context.close()


class _Served:
    """The address that a command prints, while it runs."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    def __enter__(self) -> str:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("http"):
                time.sleep(3)
                return line.strip()
        raise RuntimeError("the viewer did not start")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def _row(times: list[float]) -> dict[str, float]:
    """The median and the spread of milliseconds; a limit where nothing came within it."""
    if max(times) == float("inf"):
        return {"more_than_ms": WAIT_S * 1000}
    return {
        "median_ms": round(statistics.median(times), 1),
        "least_ms": round(min(times), 1),
        "most_ms": round(max(times), 1),
        "runs": len(times),
    }


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    from tests.browser.page import CHROMIUM_FLAGS, chromium

    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=[*CHROMIUM_FLAGS, *FLAGS]
        )
        rows = {"maxlab": measure(options.runs, folder, browser)}
        python = os.environ.get("MAXLAB_VIEWERS")
        if python:
            rows |= peers(options.runs, folder, browser, python)
        else:
            print("without Netron and Model Explorer: MAXLAB_VIEWERS names no Python that has them")
        browser.close()
    table = {
        viewer: {name: _row(times) for name, times in graphs.items()}
        for viewer, graphs in rows.items()
    }
    for viewer, graphs in table.items():
        for name, row in graphs.items():
            if "more_than_ms" in row:
                words = f"more than {row['more_than_ms']:.0f} ms"
            else:
                spread = f"{row['least_ms']:.0f} to {row['most_ms']:.0f}, {row['runs']:.0f} runs"
                words = f"{row['median_ms']:7.0f} ms ({spread})"
            print(f"{viewer:>15} {name:>7}: {words}")
    after = os.getloadavg()[0]
    print(f"load {load:.1f} before, {after:.1f} after")
    if options.json:
        made = {"load": [round(load, 1), round(after, 1)], **table}
        options.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
