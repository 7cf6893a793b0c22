"""Where the processes of a server meet: prefixes of endpoints on this machine."""

from __future__ import annotations

import tempfile
import uuid
from typing import Any

from maxlab.interfaces import fields
from maxlab.pipelines.lib.settings import Kind, text


def endpoint_base() -> str:
    """A new prefix of endpoints, in the folder for temporary files where its path is short."""
    folder = tempfile.gettempdir()
    folder = folder if len(folder.encode()) <= 40 else "/tmp"
    return f"ipc://{folder}/maxlab-{uuid.uuid4().hex}"


def endpoint() -> Kind:
    """The kind of a prefix of endpoints on this machine."""
    plain = text(filled=True)

    def rule(field: str, value: Any) -> None:
        plain.rule(field, value)
        if not value.startswith("ipc://") or len(value.encode()) > 90:
            raise fields.out_of_range(field, value, "ipc:// with a path of at most 84 bytes")

    return Kind(rule, str, told="ipc://PATH")


__all__ = ["endpoint", "endpoint_base"]
