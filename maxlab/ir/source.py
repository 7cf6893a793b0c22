"""Where in the user's code an op was written: file or cell, line, column, and the call path that
becomes its scope."""

from __future__ import annotations

import itertools
import linecache
import os
import sys
from collections.abc import Iterator
from types import CodeType, FrameType

from maxlab.errors import Location

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INTERNAL: dict[CodeType, bool] = {}
_LOCATIONS: dict[tuple[CodeType, int, str], Location] = {}
SCOPE_LOCAL = "_maxlab_scope"
"""A frame inside the package that has a local of this name opens a scope with that (absolute)
path."""


def _is_internal(code: CodeType) -> bool:
    known = _INTERNAL.get(code)
    if known is None:
        name = code.co_filename
        known = name.startswith((_PACKAGE, "<frozen"))
        _INTERNAL[code] = known
    return known


def display_name(filename: str) -> str:
    """The name of a source file as the user knows it: ``cell [7]``, or a path relative to the
    working directory."""
    base = os.path.basename(os.path.dirname(filename))
    if base.startswith("ipykernel_") or filename.startswith("<ipython-input"):
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is not None:
            formatted = shell.compile.format_code_name(filename)
            if formatted:
                number = str(formatted[1]).removeprefix("In[").rstrip("]")
                return f"cell [{number}]"
        return "cell"
    if filename.startswith("<"):
        return filename
    try:
        relative = os.path.relpath(filename)
    except ValueError:  # another drive
        return filename
    return filename if relative.startswith("..") else relative


def _location(frame: FrameType) -> Location:
    code, offset = frame.f_code, frame.f_lasti
    name = display_name(code.co_filename)
    key = (code, offset, name)
    found = _LOCATIONS.get(key)
    if found is None:
        line, column, end = frame.f_lineno, 0, 0
        position = next(itertools.islice(code.co_positions(), offset // 2, None), None)
        if position is not None and position[0] == line:
            column = position[2] or 0
            end = (position[3] or 0) if position[1] == line else 0
        text = linecache.getline(code.co_filename, line).rstrip("\n")
        function = "" if code.co_name.startswith("<") else code.co_name
        found = _LOCATIONS[key] = Location(name, line, column, text, function, end)
    return found


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of the stack that is not maxlab's own."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and _is_internal(frame.f_code):
        frame = frame.f_back
    return frame


def user_location() -> Location | None:
    """The place in the user's code that led here; None when there is none, as in an embedded
    call."""
    frame = user_frame(2)
    return _location(frame) if frame is not None else None


class Scopes:
    """Turns the stack of an op into a scope path, such as ``encoder.layers.0.attention``.

    The path is read from the frames between the one that opened the graph and the op: a call of a
    module contributes the module's path, a call of one of the user's functions its name, numbered
    when one function is called again. The frames of the newest op are kept alive, so that a frame
    at the same depth is the same call if and only if it is the same object; ``close`` lets them go.
    """

    def __init__(self, base: FrameType | None) -> None:
        self._base = base
        self._frames: list[FrameType] = []
        self._paths: list[str] = []
        self._taken: dict[str, int] = {}

    def close(self) -> None:
        """Forget all frames; the numbering stays."""
        self._base = None
        self._frames = []
        self._paths = []

    def capture(self, depth: int = 2) -> tuple[Location | None, str]:
        """The location and the scope path of the code that is adding an op."""
        frame: FrameType | None = sys._getframe(depth)
        stack: list[FrameType] = []
        innermost: FrameType | None = None
        while frame is not None and frame is not self._base:
            if _is_internal(frame.f_code):
                if SCOPE_LOCAL in frame.f_code.co_varnames:
                    stack.append(frame)
            else:
                if innermost is None:
                    innermost = frame
                stack.append(frame)
            frame = frame.f_back
        if innermost is None and frame is not None:
            innermost = frame if not _is_internal(frame.f_code) else None
        if frame is None and self._base is not None:
            stack = [f for f in stack if _is_internal(f.f_code)]  # called from elsewhere
        stack.reverse()
        location = _location(innermost) if innermost is not None else None
        return location, self._path(stack)

    def _path(self, stack: list[FrameType]) -> str:
        same = 0
        for old, new in zip(self._frames, stack, strict=False):
            if old is not new:
                break
            same += 1
        del self._frames[same:], self._paths[same:]
        for frame in stack[same:]:
            parent = self._paths[-1] if self._paths else ""
            self._paths.append(self._enter(parent, frame))
            self._frames.append(frame)
        return self._paths[-1] if self._paths else ""

    def _enter(self, parent: str, frame: FrameType) -> str:
        name = frame.f_code.co_name
        if _is_internal(frame.f_code):
            return str(frame.f_locals.get(SCOPE_LOCAL, parent))
        if name.startswith(("<", "__")) or name == "forward":
            return parent
        path = f"{parent}.{name}" if parent else name
        count = self._taken.get(path, 0)
        self._taken[path] = count + 1
        return f"{path}.{count}" if count else path


def source_lines(location: Location) -> Iterator[str]:
    """The source text of ``location``, a line at a time."""
    yield from location.excerpt().splitlines()
