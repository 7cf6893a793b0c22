"""Where in the user's code a node of an exported graph was written, and in which module."""

from __future__ import annotations

import linecache
import os
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch.fx.proxy import TracerBase

from maxlab.errors import Location
from maxlab.ir.source import display_name

if TYPE_CHECKING:
    import torch.fx

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_MAXLAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAME = re.compile(
    r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$', re.MULTILINE
)

_ROOT = re.compile(r"^L\['\w+'\]\.?")
"""The text that ``torch.compile`` writes before the path of a module: the variable that holds the
root.
"""


def location_in(stack: str | None) -> Location | None:
    """The innermost place of the Python stack written in ``stack`` that is neither torch's own
    nor maxlab's."""
    frames = frames_in(stack)
    if not frames:
        return None
    return location_at(*frames[-1])


def location_at(file: str, line: int, function: str) -> Location:
    """The ``line`` of ``file``, which is in ``function``."""
    text = linecache.getline(file, line).rstrip("\n")
    start = len(text) - len(text.lstrip())
    return Location(display_name(file), line, start, text, function, len(text) if text else 0)


def frames_in(stack: str | None) -> list[tuple[str, int, str]]:
    """The file, line and function of each frame of the Python stack written in ``stack`` that is
    neither torch's own nor maxlab's, the outermost first."""
    return [
        (frame["file"], int(frame["line"]), frame["function"])
        for frame in _FRAME.finditer(stack or "")
        if not _is_internal(frame["file"])
    ]


@contextmanager
def whole_stacks() -> Iterator[None]:
    """Lets an export note all of the user's functions on the way to an operation.

    torch notes those named ``forward``, and a module often calls functions of its own. What it
    notes is for subclasses of its tracer to change, and the tracer is made inside of the export.
    """
    noted: Any = getattr(TracerBase, "_filter_traceback_frames", None)
    if noted is None:
        yield
        return

    def users_own(self: TracerBase, stack: traceback.StackSummary) -> traceback.StackSummary:
        names = [frame.name for frame in stack]
        first = names.index("forward") if "forward" in names else len(names)
        found = [frame for frame in stack[first:] if not _is_internal(frame.filename)]
        return traceback.StackSummary.from_list(found) if found else noted(self, stack)

    with mock.patch.object(TracerBase, "_filter_traceback_frames", users_own):
        yield


def _is_internal(file: str) -> bool:
    return file.startswith((_TORCH, _MAXLAB, "torch" + os.sep, "<frozen", "<string>"))


def location_of(node: torch.fx.Node) -> Location | None:
    """Where ``node`` was written."""
    return location_in(node.meta.get("stack_trace"))


def scope_of(node: torch.fx.Node) -> tuple[str, dict[str, str]]:
    """The path of the module that ``node`` is in, ``"encoder.layer.0"``, and the class of each
    module on the way there, by path."""
    path, types = "", {}
    for where, kind in (node.meta.get("nn_module_stack") or {}).values():
        # A module that is called twice has "@1" at the end of its path the second time.
        path = _ROOT.sub("", str(where).partition("@")[0])
        if path == "_empty_nn_module_stack_from_metadata_hook":
            return "", {}
        name = kind if isinstance(kind, str) else kind.__qualname__
        if path:
            types[path] = name.rpartition(".")[2]
    return path, types
