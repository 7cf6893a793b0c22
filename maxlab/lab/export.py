"""``to_html()``: one page with the view and the document inside, which needs no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import overload

from maxlab import files
from maxlab.analysis.runs.shown import Recorded
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.graph import Graph
from maxlab.lab import bundle, svg
from maxlab.lab.snapshot import Snapshot, take
from maxlab.markup import escape

# The policy lets the page run what is written in it, and ask for nothing.
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' \
blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>html, body, #maxlab-view {{ height: 100%; margin: 0; }}</style>
</head>
<body>
<div id="maxlab-view"></div>
{text}<script type="application/octet-stream" id="maxlab-graph">{data}</script>
<script>{code}</script>
</body>
</html>
"""


@overload
def to_html(obj: Graph | Model | Profile | Recorded, path: None = None) -> str: ...


@overload
def to_html(obj: Graph | Model | Profile | Recorded, path: Path | str) -> Path: ...


def to_html(obj: Graph | Model | Profile | Recorded, path: Path | str | None = None) -> str | Path:
    """The page of ``obj``; when ``path`` is given it is written there, and the path returned.

    Raises:
        DocumentError: ML810, the front end was not built.
        FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
    """
    text = obj.table(rows=None) if isinstance(obj, Recorded) else ""
    page = page_of(take(obj, sources=True), text)
    if path is None:
        return page
    return files.write_text(path, page, "the page")


@overload
def to_svg(
    obj: Graph | Model | Profile | Recorded,
    path: None = None,
    *,
    direction: svg.Direction = "down",
) -> str: ...


@overload
def to_svg(
    obj: Graph | Model | Profile | Recorded,
    path: Path | str,
    *,
    direction: svg.Direction = "down",
) -> Path: ...


def to_svg(
    obj: Graph | Model | Profile | Recorded,
    path: Path | str | None = None,
    *,
    direction: svg.Direction = "down",
) -> str | Path:
    """The SVG picture of ``obj``, which runs ``down`` or to the ``right``; or, when ``path`` is
    given, the path it was written to.

    Raises:
        ArgumentTypeError: ML622, ``direction`` is neither of them.
        PictureError: ML802, the program ``dot`` is missing; ML803, it failed or took too long.
        FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
    """
    made = svg.draw(take(obj, sources=False).document, direction=direction)
    return made if path is None else files.write_text(path, made, "the picture")


def page_of(snapshot: Snapshot, text: str = "") -> str:
    """The page of ``snapshot``, with ``text`` for readers that run no script.

    The document stands in it as base64, which has no character that HTML could take for its own.

    Raises:
        DocumentError: ML810, the front end was not built.
    """
    code = bundle.read("export.js").decode("utf-8")
    # Inside of a script element only these two begin something of HTML's.
    code = re.sub(r"<(?=/script|!--)", r"\\x3c", code, flags=re.IGNORECASE)
    title = escape(snapshot.document["name"])
    text = f"<noscript><pre>{escape(text)}</pre></noscript>\n" if text else ""
    return _PAGE.format(text=text, title=title, data=snapshot.base64, code=code)
