"""The gallery: documents that are shipped with maxlab, templates to build on and lessons.

Their files stand beside this one, and are written by ``scripts/gen_templates.py``.

Example:
    >>> from maxlab.lab import templates
    >>> templates.graph("mlp")
    Graph('mlp', 1 input, 6 ops)
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from maxlab import files
from maxlab.errors import ArgumentError
from maxlab.graph import Graph
from maxlab.graph.document_json import MOST_BYTES
from maxlab.graph.reading import graph_of
from maxlab.lab.protocol.editor import TemplateEntry, TemplateList

NAMES = (
    "mlp",
    "attention",
    "convolution",
    "residual",
    "layer-norm",
    "softmax",
    "nearest",
    "edges",
    "search",
    "lesson-1-first-step",
    "lesson-2-shapes",
    "lesson-3-softmax",
    "lesson-4-shortcut",
)
"""The names of the documents, in the order of the gallery."""


def text(name: str) -> str:
    """The text of the document ``name``.

    Raises:
        ArgumentError: ML825, there is none of this name.
    """
    if name not in NAMES:
        raise ArgumentError(
            "ML825", f"there is no template {name!r:.80}", fix=f"they are {', '.join(NAMES)}"
        )
    place = Path(__file__).with_name(f"{name}.mlgraph")
    return files.read_text(place, "the template", MOST_BYTES)


def graph(name: str) -> Graph:
    """The graph of the document ``name``, a new one each time.

    Raises:
        ArgumentError: ML825, there is none of this name.
    """
    return graph_of(text(name), name)


@cache
def listing() -> TemplateList:
    """The entries of the gallery."""
    return {"templates": [_entry(name) for name in NAMES]}


def _entry(name: str) -> TemplateEntry:
    document = graph(name).document
    lesson = document.lesson
    return {
        "name": name,
        "title": name if lesson is None else lesson.title,
        "says": "" if lesson is None else lesson.says,
        "lesson": document.goal is not None,
    }
