"""What keeping the text of an open document costs: ``python -m benchmarks.document_edits``.

    python -m benchmarks.document_edits [--nodes 1000] [--edits 500] [--json FILE]

A chain of operations is open as a document, and is edited in several ways, all over the graph. Of
each kind of edit are told the milliseconds in which the kernel writes the text anew and finds the
lines that became others, and the characters that it sends. Then a shared text of Yjs, as
JupyterLab has, takes what was sent: milliseconds of an edit there, and how many bytes longer the
text's whole state is in the end than that of a text which was never edited. Beside it stands a text
that gets, for each edit, all between the first character that is another and the last.

Node and the front end's packages (``extension/node_modules``) have to be there, and the front end
built.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.hand_edits import chain
from maxlab.graph import Editor
from maxlab.lab.editors import OpenDocument
from maxlab.lab.protocol.editor import EditorServerMessage

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("insert", "place", "name", "comment", "undo")
SHARED = """
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
const [root, file, module] = process.argv.slice(2);
const Y = createRequire(`${root}/extension/package.json`)('yjs');
const { replacement, replacements } = await import(module);
const { text, edits } = JSON.parse(readFileSync(file, 'utf8'));
const size = doc => Y.encodeStateAsUpdate(doc).length;
const result = {};
for (const way of ['parts', 'one']) {
  const doc = new Y.Doc();
  const shared = doc.getText('source');
  shared.insert(0, text);
  const times = [];
  let written = 0;
  for (const { now, parts } of edits) {
    const start = performance.now();
    const before = shared.toString();
    const made = way === 'one' ? [replacement(before, now)] : replacements(before, now, parts);
    doc.transact(() => {
      for (const { start, end, value } of made.reverse()) {
        shared.delete(start, end - start);
        shared.insert(start, value);
        written += value.length;
      }
    });
    times.push(performance.now() - start);
    if (shared.toString() !== now) throw new Error('another text');
  }
  const fresh = new Y.Doc();
  fresh.getText('source').insert(0, shared.toString());
  times.sort((a, b) => a - b);
  const at = share => times[Math.floor(times.length * share)];
  result[way] = { written, last: size(doc), fresh: size(fresh), middle: at(0.5), p95: at(0.95) };
}
console.log(JSON.stringify(result));
"""


class Document:
    """An open document of a chain, and what its page would be sent."""

    def __init__(self, nodes: int) -> None:
        text = chain(nodes).document.text()
        self.document = OpenDocument("chain.mlgraph", text, text)
        self.sent: list[Any] = []
        self.document.send = self._take  # type: ignore[method-assign]  # there is no page
        self.editor = Editor(self.document.graph)

    def _take(self, message: EditorServerMessage) -> None:
        self.sent.append(message)

    def edit(self, number: int) -> tuple[str, float, int]:
        """Do edit number ``number``; its kind, the milliseconds and the characters of its text."""
        kind = KINDS[number % len(KINDS)]
        inner = self.document.graph.function.ops[1:-2]
        op = inner[number * 7919 % len(inner)]
        ways: dict[str, Callable[[], object]] = {
            "insert": lambda: self.editor.insert("abs", op.id, 0),
            "place": lambda: self.editor.place(op.id, 10.0 * number, 3),
            "name": lambda: op.result.rename(f"h{number}"),
            "comment": lambda: self.editor.comment("why?", on=op.id),
            "undo": self.editor.undo,
        }
        ways[kind]()
        self.sent.clear()
        start = time.perf_counter()
        self.document.tell()
        took = (time.perf_counter() - start) * 1e3
        lines = [line for one in self.sent for part in one["parts"] for line in part["lines"]]
        return kind, took, sum(len(line) + 1 for line in lines)


def measured(nodes: int, edits: int) -> dict[str, Any]:
    """What ``edits`` edits cost, by kind, and in a shared text."""
    made = Document(nodes)
    text = made.document.text
    kinds: dict[str, list[tuple[float, int]]] = {kind: [] for kind in KINDS}
    told = []
    for number in range(edits):
        kind, took, characters = made.edit(number)
        kinds[kind].append((took, characters))
        parts = [part for one in made.sent for part in one["parts"]]
        told.append({"now": made.document.text, "parts": parts})
    return {
        "characters": len(text),
        "kernel": {
            kind: {
                "middle_ms": round(statistics.median(ms for ms, _ in found), 2),
                "p95_ms": round(statistics.quantiles([ms for ms, _ in found], n=20)[-1], 2),
                "characters": statistics.median(size for _, size in found),
                "most_characters": max(size for _, size in found),
            }
            for kind, found in kinds.items()
        },
        "shared": _shared({"text": text, "edits": told}),
    }


def _shared(given: dict[str, Any]) -> Any:
    built = ROOT / "extension" / "lib" / "lab" / "editor" / "kernel-text.js"
    with tempfile.TemporaryDirectory() as folder:
        script, data, module = (Path(folder, name) for name in ("run.mjs", "data.json", "text.mjs"))
        script.write_text(SHARED, "utf-8")
        data.write_text(json.dumps(given), "utf-8")
        module.write_text(built.read_text("utf-8"), "utf-8")
        command = ["node", str(script), str(ROOT), str(data), str(module)]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    """Measures, and prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = measured(args.nodes, args.edits)
    print(f"{args.nodes} operations, {found['characters']:,} characters, {args.edits} edits")
    for kind, row in found["kernel"].items():
        print(
            f"  {kind:8} {row['middle_ms']:7.2f} ms, p95 {row['p95_ms']:7.2f}; "
            f"{row['characters']:9,.0f} characters, at most {row['most_characters']:,}"
        )
    for way, row in found["shared"].items():
        grown = row["last"] - row["fresh"]
        print(
            f"  shared, {way:5} {row['middle']:7.2f} ms, p95 {row['p95']:7.2f}; "
            f"{row['written']:11,} characters written; {grown:,} bytes of history, "
            f"{grown / args.edits:.0f} an edit"
        )
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
