"""The data that a page shows of a kept model, ``.mlmodel``: its contents, and the graph in it.

Nothing of the file is run, compiled or trusted, and no other file that it names is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maxlab.engine.kept.contents import contents, graph_text
from maxlab.engine.kept.manifest import Argument, MachineEntry, Manifest
from maxlab.graph import Graph
from maxlab.graph.reading import graph_of
from maxlab.lab.protocol.files import ArgumentRow, MetadataRow, ModelContents

MOST_ROWS = 5000
"""Rows of each list that are sent; the page says how many there are."""
_LONG = 2000
"""Characters of a text."""
_MOST_NUMBER = (1 << 53) - 1
"""The largest number that a page takes for a whole one."""


def contents_of(place: str, stamp: str) -> ModelContents:
    """The description that the kept model at ``place``, whose stamp is ``stamp``, has of itself.

    Raises:
        FileError: ML001 or ML002, it cannot be read.
        ParseError: ML512, it is no whole model; ML513, a newer maxlab wrote it; ML514, it was
            changed after it was saved.
    """
    found = contents(place)
    told = found.manifest
    paths = [_clip(file.path) for file in told.files]
    return {
        "stamp": stamp,
        "name": _clip(told.name),
        "bytes": found.nbytes,
        "digest": found.digest,
        "written": _clip(told.maxlab),
        "operations": _whole(told.operations),
        "parts": list(found.sizes.items()),
        "members": [
            (_clip(one.name), one.part, one.offset, one.nbytes, _clip(one.sha256))
            for one in found.members[:MOST_ROWS]
        ],
        "inputs": _arguments(told.inputs),
        "outputs": _arguments(told.outputs),
        "weights": [
            (
                _clip(one.name),
                _clip(one.dtype),
                _shape(one.shape),
                _whole(one.nbytes),
                paths[one.file] if 0 <= one.file < len(paths) else "",
            )
            for one in told.weights[:MOST_ROWS]
        ],
        "kernels": [
            (_clip(one.name), _clip(one.language), len(one.steps), _clip(one.library))
            for one in told.kernels[:MOST_ROWS]
        ],
        "files": [
            (path, _whole(one.nbytes))
            for path, one in zip(paths[:MOST_ROWS], told.files, strict=False)
        ],
        "custom": [_clip(name) for name in told.custom[:MOST_ROWS]],
        "machine": _machine(told.machine),
        "options": _pairs(told.options),
        "counts": _counts(told, len(found.members)),
    }


def graph_in(place: str) -> Graph:
    """The graph of the kept model at ``place``. Kernels of users in it are not compiled.

    Raises:
        FileError: ML001 or ML002, the file cannot be read.
        ParseError: ML512 to ML514, it is no whole model; ML864 to ML866, its graph is none.
        GraphError: ML301, an op that is not known; ML356 to ML358, ops that do not fit together.
    """
    return graph_of(graph_text(place), place)


def _counts(told: Manifest, members: int) -> dict[str, int]:
    rows = (told.inputs, told.outputs, told.weights, told.kernels, told.files, told.custom)
    names = ("inputs", "outputs", "weights", "kernels", "files", "custom")
    return {"members": members, **dict(zip(names, map(len, rows), strict=True))}


def _arguments(rows: Iterable[Argument]) -> list[ArgumentRow]:
    return [
        (_clip(one.name), _clip(one.dtype), _shape(one.shape), _clip(one.device))
        for one in list(rows)[:MOST_ROWS]
    ]


def _machine(made: MachineEntry | None) -> list[MetadataRow]:
    if made is None:
        return []
    features = " ".join(made.features)
    rows = (
        ("architecture", made.machine),
        ("features of its CPU", features),
        ("compiler", made.compiler),
        ("maxlab", made.maxlab),
        ("plan", made.plan),
    )
    return [(name, _clip(text)) for name, text in rows]


def _pairs(found: Mapping[str, Any]) -> list[MetadataRow]:
    return [(_clip(str(key)), _clip(str(found[key]))) for key in list(found)[:MOST_ROWS]]


def _shape(sizes: Iterable[object]) -> str:
    return _clip(" × ".join(map(str, sizes)))


def _whole(number: int) -> int:
    return min(max(number, 0), _MOST_NUMBER)


def _clip(text: str) -> str:
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
