"""Clips that were cut, mutated or written to do harm, pasted into a graph."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from maxlab.errors import MaxlabError
from maxlab.graph import Editor, Graph, TensorType, ops
from maxlab.graph.clip import VERSION
from maxlab.lab.snapshot import take
from maxlab.opset import custom
from maxlab.opset.verify import verify
from tests.hostile.families import documents
from tests.hostile.harness import Case, Family, WrongResultError, mutated

_made: list[bytes] = []
_targets: list[Graph] = []


def _clip() -> bytes:
    """A clip with what clips have: loops, constants, a kernel, effects, weights, places."""
    with Graph("whole", input_types=documents.TYPES, custom_extensions=[documents.KERNEL]) as graph:
        documents.fill(graph)
    inner = [op.id for op in graph.function.ops if not op.ends_block]
    return Editor(graph).copy(*inner).encode()


def _ready() -> None:
    _made[:] = [_clip()]
    with Graph("target", input_types=[TensorType(documents.F32, ["n", 4])]) as graph:
        graph.output(ops.exp(graph.inputs[0].tensor))
    _targets[:] = [graph]


def _run(text: str) -> None:
    """Paste the clip, look at the graph, and take it back; nothing may be declared or run."""
    (graph,) = _targets
    editor, before, declared = Editor(graph), graph.document.text(), len(custom.DECLARED)
    try:
        editor.paste(text)
    except MaxlabError:
        if graph.document.text() != before or editor.can_undo:
            raise WrongResultError("what was refused has changed the graph") from None
        raise
    verify(graph.function)
    take(graph)
    editor.undo()
    if graph.document.text() != before:
        raise WrongResultError("the graph is another one when the paste is taken back")
    if len(custom.DECLARED) != declared:
        raise WrongResultError("pasting has declared kernels")


def _case(what: str, text: bytes) -> Case:
    def act(_: Path) -> None:
        _run(text.decode("utf-8", "replace"))

    return Case(what, act)


def _draw(random: Random) -> Case:
    whole = _made[0]
    kind = random.randrange(3)
    if kind == 0:
        return _case("a clip with other bytes", mutated(whole, random))
    if kind == 1:
        end = random.randrange(len(whole))
        return _case(f"a clip that ends after {end} of {len(whole)} bytes", whole[:end])
    data: Any = json.loads(whole)
    told = documents.changed(data, random)
    return _case(f"a clip with {', '.join(told)}", json.dumps(data).encode())


SEEDS = [
    _case(what, text)
    for what, text in {
        "nothing": b"",
        "words": b"hello",
        "a brace": b"{",
        "braces": b"{" * 100_000,
        "a listing": b"mo.graph @f() -> () {\n}",
        "no graph": b'{"format": "maxlab.clip", "version": 1}',
        "a newer version": f'{{"format": "maxlab.clip", "version": {VERSION + 1}}}'.encode(),
        "no version": b'{"format": "maxlab.clip"}',
        "lists": b'{"format": "maxlab.clip", "version": 1, "graph": [], "from": []}',
        "numbers for ids": b'{"format": "maxlab.clip", "version": 1, "from": {"graph": "g", '
        b'"reads": [1, null]}, "graph": {"name": "g", "ops": []}}',
        "a long text": b"x" * (65 << 20),
    }.items()
]

FAMILIES = (Family("clips", SEEDS, _draw, 2000, _ready),)
