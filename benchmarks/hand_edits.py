"""What an edit by hand costs while a view shows the graph: ``python -m benchmarks.hand_edits``.

    python -m benchmarks.hand_edits [--nodes 1000] [--edits 500] [--json FILE]

A view shows a chain of operations, and gets what its page would send: edits of several kinds, one
after the other. Told is, of each kind, the middle and the 95th of 100 times in wall milliseconds,
from the message to the answer; the change that the view sends to its pages is in it. What a page
does with it is not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab import GraphView

BAR_MS = 50.0
"""Milliseconds that 95 of 100 edits may take."""


def chain(nodes: int) -> Graph:
    """A chain of ``nodes`` operations, an output included."""
    with Graph("chain", input_types=[TensorType(DType.float32, ["n", 16])]) as graph:
        x = graph.inputs[0].tensor
        for number in range(nodes - 1):
            x = (ops.tanh, ops.exp, ops.relu)[number % 3](x)
        graph.output(x)
    return graph


class Hand:
    """Sends edits to the view of a graph."""

    def __init__(self, nodes: int) -> None:
        self.graph = chain(nodes)
        self.view = GraphView(self.graph)
        self.sent: list[dict[str, Any]] = []
        self.view.send = lambda content, buffers=None: self.sent.append(content)
        self.number = 0

    def edit(self, do: str, **given: Any) -> float:
        """Milliseconds that the edit took.

        Raises:
            RuntimeError: It was refused, or the view did not follow.
        """
        self.number += 1
        args = {"name": "", "on": [], "op": "", "operand": 0, "fields": {}, "do": do, **given}
        message = {"type": "ask", "protocol": 2, "id": self.number, "what": "change", "args": args}
        self.sent.clear()
        start = time.perf_counter()
        self.view._handle_custom_msg(message, [])
        took = (time.perf_counter() - start) * 1e3
        answers = [one for one in self.sent if one["type"] == "answer"]
        if not (answers and answers[0]["ok"] and answers[0]["id"] == self.number):
            raise RuntimeError(f"{do}: {answers}")
        if not any(one["type"] in ("difference", "document") for one in self.sent):
            raise RuntimeError(f"{do}: the view was not told")
        return took

    def op(self, number: int) -> str:
        """The id of an operation, another one each time, all over the graph."""
        inner = self.graph.function.ops[1:-2]
        return inner[number * 7919 % len(inner)].id


KINDS = ("insert", "set", "duplicate", "group", "undo")


def measured(nodes: int, edits: int) -> dict[str, list[float]]:
    """The times of ``edits`` edits, by kind."""
    hand = Hand(nodes)
    hand.edit("insert", name="abs", op=hand.op(1))  # imports what edits need
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(edits):
        kind, op = KINDS[number % len(KINDS)], hand.op(number)
        given: dict[str, dict[str, Any]] = {
            "insert": {"name": "abs", "op": op},
            "set": {"op": op, "fields": {"name": f"h{number}"}},
            "duplicate": {"on": [op]},
            "group": {"on": [op], "fields": {"name": f"g{number}"}},
            "undo": {},
        }
        found[kind].append(hand.edit(kind, **given[kind]))
    return found


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = measured(args.nodes, args.edits)
    rows = {**found, "all": [ms for times in found.values() for ms in times]}
    told = {
        kind: {
            "edits": len(times),
            "middle_ms": round(statistics.median(times), 2),
            "p95_ms": round(statistics.quantiles(times, n=20)[-1], 2),
            "most_ms": round(max(times), 2),
        }
        for kind, times in rows.items()
    }
    print(f"{args.nodes} nodes; at most {BAR_MS:g} ms for 95 of 100 is the aim")
    for kind, row in told.items():
        print(
            f"{kind:>10}  {row['edits']:>4} edits  middle {row['middle_ms']:>6} ms  "
            f"p95 {row['p95_ms']:>6} ms  most {row['most_ms']:>6} ms"
        )
    if args.json:
        args.json.write_text(json.dumps({"nodes": args.nodes, "kinds": told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
