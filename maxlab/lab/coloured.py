"""``overlay``: colours graphs by numbers of the user's own, from Python or from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from maxlab import files
from maxlab.lab import overlays
from maxlab.lab.overlays import Colors, Combine, Overlay, Shown
from maxlab.lab.snapshot import take


def add(
    shown: Shown,
    values: Mapping[str, float] | files.AnyPath,
    title: str = "",
    *,
    unit: str | None = None,
    low: float | None = None,
    high: float | None = None,
    colors: Colors | None = None,
    combine: Combine | None = None,
) -> None:
    """Let views of ``shown`` offer an overlay; see ``Displayed.overlay``.

    Raises:
        ArgumentError: ML893, there is no such operation; ML894, several have the name; ML895, what
            is given is no overlay.
        DocumentError: ML896, the file is no overlay.
    """
    if isinstance(values, (str, os.PathLike)):
        name = os.fspath(values)
        given = overlays.of_text(files.read_text(values, "the overlay", overlays.MOST_BYTES), name)
        # What is said here goes before what the file says.
        fields: dict[str, Any] = {name: getattr(given, name) for name in overlays.FIELDS}
        values = given.values
    else:
        fields = {"title": "overlay"}
    said = {"title": title or None, "unit": unit, "low": low, "high": high}
    said |= {"colors": colors, "combine": combine}
    fields |= {name: value for name, value in said.items() if value is not None}
    given = overlays.checked(fields, values)
    attach(shown, given)


def attach(shown: Shown, overlay: Overlay) -> None:
    """Let views of ``shown`` offer ``overlay``, all of whose names must be known.

    Raises:
        ArgumentError: ML893, there is no such operation; ML894, several have the name.
    """
    overlays.resolved(take(shown, sources=False).document, overlay, is_strict=True)
    overlays.keep(shown, overlay)
