"""What hints beside code cost a kernel: ``python -m benchmarks.hints [OPS ...]``.

A graph of OPS operations, built by one line in a loop, by a thousand lines, and the same with a
profile. Told are the best of five: ``read`` the hints of a graph that has changed, ``again`` those
of graphs that have not, and ``told`` the bytes of the message. They are read on a thread beside the
cells; what a cell waits for is ``cell``, the handlers of its end.

With ``--editor``: what a keystroke costs in a cell of 2,000 lines, in JupyterLab in Chromium,
with a hint at each line and with hints off, from the change to the end of the layout that follows,
as the median and the 95th percentile of 200. ``extension/test/lab/hints.bench.ts`` measures the
same without a page.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from maxlab.lab.hints.channel import Channel
from maxlab.lab.hints.lines import made_by_lines, spent_in
from maxlab.lab.hints.sources import Sources
from maxlab.lab.hints.texts import Texts

LINES = 1000


def best(call: Callable[[], object]) -> float:
    """Milliseconds of the fastest of five calls."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def built(ops: int, lines: int) -> Graph:
    """A graph of ``ops`` operations, which ``lines`` lines of a file make."""
    text = "\n".join(f"    x = x + {n % 7}.0" for n in range(lines))
    code = f"def body(x):\n{text}\n    return x\n"
    space: dict[str, Any] = {}
    exec(compile(code, "/tmp/hinted_benchmark.py", "exec"), space)
    with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(ops // lines // 2):  # each line makes a constant too
            x = space["body"](x)
        graph.output(x)
    return graph


class Here(Texts):
    """Texts in which every place is a line of one source."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        from maxlab.lab.hints.texts import Source, read_code

        text = "def body(x):\n" + "\n".join(f"    x = x + {n % 7}.0" for n in range(lines))
        self._source = Source("", "/tmp/hinted_benchmark.py", 0, text, read_code(text))

    def source_of(self, at: Any, run: int) -> Any:
        """The one source, for the lines that it has."""
        return self._source if "hinted_benchmark" in at.file else None


def main() -> None:
    """Prints a row for each graph."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ops", nargs="*", type=int, default=[1000, 10_000])
    parser.add_argument("--editor", action="store_true")
    given = parser.parse_args()
    if given.editor:
        editor()
        return
    print(f"{'graph':<28} {'read ms':>9} {'again ms':>9} {'told kB':>9} {'cell µs':>9}")
    for ops in given.ops:
        for lines in (1, min(LINES, ops // 2)):
            graph = built(ops, lines)
            texts = Here(lines)
            read = best(partial(made_by_lines, graph, texts))
            row(f"{ops} ops of {lines} lines", graph, texts, read)
    graph = built(1000, 100)
    model = engine.InferenceSession().load(graph)
    model.profile(np.ones(64, np.float32), runs=3)
    texts = Here(100)
    read = best(lambda: made_by_lines(graph, texts, spent_in(model)))
    row("1000 ops, profiled", graph, texts, read)


def row(title: str, graph: Graph, texts: Texts, read: float) -> None:
    """Prints the times of one graph."""
    sources = Sources()
    sources.texts = texts
    told = sources.take()
    again = best(sources.take)
    size = len(json.dumps(list(told.values()))) / 1e3
    channel = Channel()
    result = SimpleNamespace(
        info=SimpleNamespace(store_history=True), error_in_exec=None, error_before_exec=None
    )
    cell = best(lambda: channel._ran(result)) * 1e3
    print(f"{title:<28} {read:>9.2f} {again:>9.2f} {size:>9.1f} {cell:>9.1f}")
    del graph


TYPE = """async () => {
    const app = window.jupyterapp;
    const cell = app.shell.currentWidget.content.activeCell;
    const view = cell.editor.editor;
    const at = view.state.doc.line(1000).to;
    const times = [];
    for (let n = 0; n < 220; n += 1) {
        await new Promise(resolve => requestAnimationFrame(resolve));
        const start = performance.now();
        const isOdd = n % 2 === 1;
        view.dispatch({ changes: isOdd ? { from: at, to: at + 1 } : { from: at, insert: 'x' } });
        view.dom.getBoundingClientRect();
        times.push(performance.now() - start);
    }
    const sorted = times.slice(20).sort((a, b) => a - b);
    const hints = view.dom.querySelectorAll('.jp-MaxLab-lineHint').length;
    return [sorted[100], sorted[190], hints];
}"""


def editor() -> None:
    """Prints what a keystroke costs with hints and without."""
    import tempfile
    from pathlib import Path

    from playwright.sync_api import sync_playwright

    from tests.browser.documents import write_notebook
    from tests.browser.page import CHROMIUM_FLAGS, LabPage, chromium
    from tests.browser.server import start_lab

    text = "with Graph('g', input_types=[TensorType(DType.float32, ['n'])]) as graph:\n"
    text += "    x = graph.inputs[0].tensor\n" + "\n".join(
        f"    x = x + {n % 7}.0" for n in range(2000)
    )
    begin = "from maxlab.dtype import DType\nfrom maxlab.graph import Graph, TensorType"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root = Path(folder) / "root"
        root.mkdir()
        server = start_lab(root, Path(folder))
        try:
            browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
            lab = LabPage.open(browser, server)
            lab.open_notebook(write_notebook(root, "typing.ipynb", []))
            lab.run_code(begin)
            lab.run_code(text)
            lab.page.locator(".jp-MaxLab-lineHint").first.wait_for()
            print(f"{'hints':<8} {'median ms':>10} {'95 % ms':>10} {'drawn':>6}")
            for state in ("on", "off", "on", "off"):
                median, high, drawn = lab.page.evaluate(TYPE)
                print(f"{state:<8} {median:>10.2f} {high:>10.2f} {drawn:>6}")
                lab.execute("maxlab:toggle-hints")
                if state == "off":
                    lab.page.locator(".jp-MaxLab-lineHint").first.wait_for()
            browser.close()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
