"""The built front end that the wheel carries: the code of the view, and of exported pages."""

from __future__ import annotations

import json
from pathlib import Path

from maxlab import __version__
from maxlab.errors import DocumentError, MaxlabError
from maxlab.lab.protocol import BundleMessage

STATIC = Path(__file__).resolve().parents[1] / "static"
LABEXTENSION = Path(__file__).resolve().parents[1] / "labextension"


def read(name: str) -> bytes:
    """The contents of the built file ``name``, ``"widget.js"`` or ``"export.js"``.

    Raises:
        DocumentError: ML810, the front end was not built.
    """
    path = STATIC / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise DocumentError(
            "ML810",
            f"the front end was not built: {path.parent.name}/{name} cannot be read "
            f"({error.strerror})",
            fix="install maxlab from a wheel, or build it: cd extension && jlpm && jlpm build",
        ) from error


def message() -> tuple[BundleMessage, list[bytes]]:
    """The message that carries the code of the view, and its buffers."""
    try:
        code = read("widget.js")
    except MaxlabError as error:
        # The loader runs whatever comes; so the answer is a view that says what is wrong.
        text = json.dumps(str(error))
        code = f"export const render = ({{ el }}) => {{ el.textContent = {text}; }};".encode()
    return {"type": "bundle", "version": __version__}, [code]
