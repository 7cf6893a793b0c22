"""A picture of a graph that needs no script: for saved notebooks on pages without widgets.

``dot`` of graphviz places the boxes, within a time limit; the SVG around the places is written
here: small, with text that stands on its own fill, so that it can be read on light and dark pages.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from maxlab.errors import ArgumentTypeError, MaxlabError
from maxlab.lab import protocol
from maxlab.lab.folding import Box, Picture, fold
from maxlab.lab.splitting import members_of
from maxlab.markup import escape

LIMIT_SECONDS = 3.0
"""How long ``dot`` may take; after that there is no picture."""

MOST_BOXES = 60

Direction = Literal["down", "right"]
"""Which way a graph runs over a picture."""

_MONO, _SANS = 6.7, 7.0  # widths of a character at 11 and 13 pixels, generous
_PAD = 12.0
_TITLE_MOST, _NOTE_MOST = 34, 40


class PictureError(MaxlabError, RuntimeError):
    """No picture could be drawn; the message says what is missing."""


def draw(
    document: protocol.GraphDocument,
    *,
    direction: Direction = "down",
    limit_seconds: float = LIMIT_SECONDS,
) -> str:
    """The SVG of ``document``, folded to at most 60 boxes, which runs in ``direction``.

    Raises:
        ArgumentTypeError: ML622, ``direction`` is neither ``down`` nor ``right``.
        PictureError: ML802, ``dot`` is not installed; ML803, it failed or took too long.
    """
    if direction not in get_args(Direction):
        raise ArgumentTypeError(
            "ML622",
            f"the direction of a picture must be one of down, right, got {direction!r}",
            fix='pass direction="down" or direction="right"',
        )
    picture = fold(document, MOST_BOXES)
    times = _times(document, picture)
    placed = _place(picture, times, direction, limit_seconds)
    return _svg(document, picture, times, placed)


def _times(document: protocol.GraphDocument, picture: Picture) -> dict[str, str]:
    """The share of all kernels to write on each box; with ``≈`` where a kernel had to be split."""
    profile = document["profile"]
    total = sum(k["ns"] for k in profile["kernels"]) if profile is not None else 0.0
    if not total:
        return {}
    home = {node: box.key for box in picture.boxes for node in box.nodes}
    spent: dict[str, float] = {}
    split: set[str] = set()
    for timed, members in members_of(document):
        found = [(home[id], part) for id, part in members if id in home and part > 0]
        keys = {key for key, _ in found}
        if len(keys) > 1:
            split |= keys
        for key, part in found:
            spent[key] = spent.get(key, 0.0) + timed["ns"] * part
    return {
        key: f"≈{_share(ns / total)}" if key in split else _share(ns / total)
        for key, ns in spent.items()
        if ns
    }


def _share(part: float) -> str:
    """A share as the interactive view writes it: ``formatShare`` of ``core/model/format.ts``."""
    if part < 0.001:
        return "<0.1%"
    return f"{part:.1%}" if part < 0.0995 else f"{part:.0%}"


# ---------------------------------------------------------------- places


def _place(
    picture: Picture, times: Mapping[str, str], direction: Direction, limit_seconds: float
) -> Any:
    """The answer of ``dot``, as JSON."""
    import graphviz

    dot = graphviz.Digraph(engine="dot")
    dot.attr(rankdir="TB" if direction == "down" else "LR")
    dot.attr(nodesep="0.18", ranksep="0.28", margin="0", compound="true")
    dot.attr("node", shape="box", fixedsize="true", label="")
    dot.attr("edge", arrowhead="none")
    names = {box.key: f"b{n}" for n, box in enumerate(picture.boxes)}
    _frame(dot, picture, "", names, times)
    for source, target in picture.wires:
        dot.edge(names[source], names[target])
    for source, target in picture.turns:  # turned round, so that the loop's op stays above
        dot.edge(names[target], names[source], comment="turn")
    program = shutil.which("dot")
    if program is None:
        raise PictureError(
            "ML802",
            "the static picture needs the program `dot`, which is not on PATH",
            fix="install graphviz: apt-get install graphviz, brew install graphviz, or "
            "conda install graphviz; the interactive view works without it",
        )
    try:
        done = subprocess.run(
            [program, "-Tjson0"],
            input=dot.source.encode(),
            capture_output=True,
            timeout=limit_seconds,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise PictureError(
            "ML803",
            f"dot took longer than {limit_seconds:g} s to place {len(names)} boxes",
            fix="the interactive view works without it",
        ) from None
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        raise PictureError(
            "ML803",
            f"dot failed: {said.decode(errors='replace').strip()[:300]}",
            fix="see what `dot -V` says; the interactive view works without it",
        ) from error
    return json.loads(done.stdout)


def _frame(
    dot: Any,
    picture: Picture,
    path: str,
    names: Mapping[str, str],
    times: Mapping[str, str],
) -> None:
    for box in picture.boxes:
        if box.inside == path:
            width, height = _size(box, times)
            dot.node(names[box.key], width=f"{width / 72:.3f}", height=f"{height / 72:.3f}")
    for number, (inner, label) in enumerate(picture.frames.items()):
        if _parent(inner, picture.frames) == path:
            with dot.subgraph(name=f"cluster_{number}") as cluster:
                # The label is drawn by us: dot keeps its place free, and sees no user's text.
                room = "x" * len(_clip(label, _TITLE_MOST))
                cluster.attr(label=room, margin="8", fontname="DejaVu Sans")
                cluster.attr(fontsize="11", labeljust="l")
                _frame(cluster, picture, inner, names, times)


def _parent(path: str, frames: Mapping[str, str]) -> str:
    while path:
        path = path.rpartition(".")[0]
        if path in frames:
            return path
    return ""


def _texts(box: Box, times: Mapping[str, str]) -> tuple[str, str]:
    title = f"{box.title} ×{box.count}" if box.count > 1 else box.title
    time = times.get(box.key)
    note = " · ".join(w for w in (box.note, time) if w)
    return _clip(title, _TITLE_MOST), _clip(note, _NOTE_MOST)


def _size(box: Box, times: Mapping[str, str]) -> tuple[float, float]:
    title, note = _texts(box, times)
    width = max(len(title) * _SANS, len(note) * _MONO, 40) + _PAD
    return width, 34.0 if note else 22.0


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# ---------------------------------------------------------------- drawing

_STYLE = (
    ".p{fill:#fff}.f{fill:#f3f4f6;stroke:#c3c7ce}.o{fill:#eef3fb;stroke:#5b7fb4}"
    ".s{fill:#dfe9f8;stroke:#33598f;stroke-width:1.5}.i{fill:#e8f4ea;stroke:#4b8558}"
    ".e{fill:#fdeaea;stroke:#b3261e;stroke-width:2}.w{fill:none;stroke:#6b7280}"
    ".t{stroke-dasharray:5 4}"
    "text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#16191f;text-anchor:middle}"
    ".n{font:11px ui-monospace,'DejaVu Sans Mono',monospace;fill:#454b57}"
    ".l{font-size:11px;text-anchor:start;fill:#454b57}"
    "@media(prefers-color-scheme:dark){.p{fill:#16191f}.f{fill:#20252e;stroke:#4a515e}"
    ".o{fill:#1d2a3d;stroke:#7fa3d8}.s{fill:#25395a;stroke:#9dbdec}.i{fill:#1b3222;stroke:#7fb78d}"
    ".e{fill:#461d1b;stroke:#ff8a80}.w{stroke:#9aa3b2}text{fill:#f1f3f6}.n,.l{fill:#c6ccd7}}"
)
_CLASSES = {"op": "o", "scope": "s", "input": "i", "output": "i", "error": "e"}
_MARGIN = 8.0


def _svg(
    document: protocol.GraphDocument, picture: Picture, times: Mapping[str, str], placed: Any
) -> str:
    left, bottom, right, top = _numbers(placed["bb"])
    footer = 18.0 if picture.more else 0.0
    width = right - left + 2 * _MARGIN
    height = top - bottom + 2 * _MARGIN + footer

    def at(x: float, y: float) -> tuple[str, str]:
        return _short(x - left + _MARGIN), _short(top - y + _MARGIN)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="t d"',
        f' viewBox="0 0 {_short(width)} {_short(height)}" width="{_short(width)}">',
        f'<title id="t">{escape(document["name"])}</title>',
        f'<desc id="d">{escape(_description(picture))}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="p" width="{_short(width)}" height="{_short(height)}" rx="6"/>',
    ]
    labels = []
    frames = list(picture.frames.values())
    nodes: list[str] = []
    for item in placed.get("objects", []):
        name = item.get("name", "")
        if "bb" in item and name.startswith("cluster_"):
            x0, y0, x1, y1 = _numbers(item["bb"])
            x, y = at(x0, y1)
            parts.append(
                f'<rect class="f" x="{x}" y="{y}" width="{_short(x1 - x0)}" '
                f'height="{_short(y1 - y0)}" rx="5"/>'
            )
            lx, ly = at(x0 + 8, y1 - 14)
            label = _clip(frames[int(name.removeprefix("cluster_"))], _TITLE_MOST)
            labels.append(f'<text class="l" x="{lx}" y="{ly}">{escape(label)}</text>')
        elif "pos" in item:
            cx, cy = _numbers(item["pos"])
            nodes += _box(picture.boxes[int(name[1:])], times, *at(cx, cy))
    for edge in placed.get("edges", []):
        points = [at(*_numbers(pair)) for pair in edge["pos"].removeprefix("e,").split()]
        head, *rest = [" ".join(p) for p in points]
        kind = "w t" if edge.get("comment") == "turn" else "w"
        parts.append(f'<path class="{kind}" d="M{head}C{" ".join(rest)}"/>')
    parts += labels + nodes
    if picture.more:
        y = _short(height - 7)
        parts.append(f'<text class="l" x="8" y="{y}">… and {picture.more} more</text>')
    return "".join([*parts, "</svg>"])


def _box(box: Box, times: Mapping[str, str], x: str, y: str) -> list[str]:
    title, note = _texts(box, times)
    width, height = _size(box, times)
    cx, cy = float(x), float(y)
    place = f'x="{_short(cx - width / 2)}" y="{_short(cy - height / 2)}"'
    size = f'width="{_short(width)}" height="{_short(height)}" rx="4"'
    made = []
    if box.count > 1:  # a second sheet behind the first
        behind = f'x="{_short(cx - width / 2 + 4)}" y="{_short(cy - height / 2 + 4)}"'
        made.append(f'<rect class="s" {behind} {size}/>')
    made.append(f'<rect class="{_CLASSES[box.kind]}" {place} {size}/>')
    up = cy - 1.5 if note else cy + 4.5
    made.append(f'<text x="{x}" y="{_short(up)}">{escape(title)}</text>')
    if note:
        made.append(f'<text class="n" x="{x}" y="{_short(cy + 12)}">{escape(note)}</text>')
    return made


def _description(picture: Picture) -> str:
    words = [f"A graph of {len(picture.boxes)} boxes and {len(picture.wires)} wires"]
    names = [b.title + (f" ×{b.count}" if b.count > 1 else "") for b in picture.boxes[:12]]
    return f"{words[0]}: {', '.join(names)}{', …' if len(picture.boxes) > 12 else ''}."


def _numbers(text: str) -> Sequence[float]:
    return [float(part) for part in text.split(",")]


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
