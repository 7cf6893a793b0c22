"""Where in the user's code an op was written: file or cell, line, column, and the call path that
becomes its scope."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import linecache
import os
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType

from maxlab.errors import Location
from maxlab.ir.cells import cell_of, execution_of, watch

_NOBODYS = (threading.__file__, contextlib.__file__, functools.__file__)
"""Files of Python's own that maxlab calls, and that call it: no line of the user's is in them."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INTERNAL: dict[str, bool] = {}
"""Whether a source file is maxlab's own, by its name."""
_SCOPED: dict[int, bool] = {}
"""Whether code of maxlab has the local `SCOPE_LOCAL`, by its id. Comparing code is slow."""
_KEPT: list[CodeType] = []
"""The code that has an id in `_SCOPED`: it is not given to other code."""
_LOCATIONS: dict[tuple[CodeType, int, str], Location] = {}
SCOPE_LOCAL = "_maxlab_scope"
"""A frame inside the package that has a local of this name opens a scope with that (absolute)
path."""
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Code whose frames may be called from one place first and from another one later."""


watch()


def _is_internal(code: CodeType) -> bool:
    name = code.co_filename
    known = _INTERNAL.get(name)
    if known is None:
        known = _INTERNAL[name] = name.startswith((_PACKAGE, "<frozen")) or name in _NOBODYS
    return known


def _scoped(code: CodeType) -> bool | None:
    """Whether frames of ``code`` open a scope; None if it is not maxlab's own."""
    if not _is_internal(code):
        return None
    _KEPT.append(code)
    known = _SCOPED[id(code)] = SCOPE_LOCAL in code.co_varnames
    return known


def display_name(filename: str) -> str:
    """The name of a source file as the user knows it: ``cell [7]``, or a path relative to the
    working directory."""
    base = os.path.basename(os.path.dirname(filename))
    if base.startswith("ipykernel_") or filename.startswith("<ipython-input"):
        number = execution_of(filename)
        return "cell" if number is None else f"cell [{number}]"
    if filename.startswith("<"):
        return filename
    return _within(filename, os.getcwd())


@functools.lru_cache(maxsize=1 << 12)
def _within(filename: str, folder: str) -> str:
    """``filename`` as a path relative to ``folder``, where it lies in that."""
    try:
        relative = os.path.relpath(filename, folder)
    except ValueError:  # another drive
        return filename
    return filename if relative.startswith("..") else relative


def _location(frame: FrameType) -> Location:
    return location_of(frame.f_code, frame.f_lasti)


def location_of(code: CodeType, offset: int) -> Location:
    """The place in the source of the instruction of ``code`` that begins at ``offset``, as
    ``frame.f_lasti`` has it."""
    name = display_name(code.co_filename)
    key = (code, offset, name)
    found = _LOCATIONS.get(key)
    if found is not None and not found.cell and name.startswith("cell"):
        # Its text ran before as no cell, below `%%capture`, in a run with the number of this one.
        found = None if cell_of(code.co_filename) else found
    if found is None:
        column, end, last = 0, 0, (0, 0)
        position = next(itertools.islice(code.co_positions(), max(offset, 0) // 2, None), None)
        line = code.co_firstlineno
        if position is not None and position[0] is not None:
            line = position[0]
            column = position[2] or 0
            end = (position[3] or 0) if position[1] == line else 0
            last = (position[1] or 0, position[3] or 0)
        text = linecache.getline(code.co_filename, line).rstrip("\n")
        function = "" if code.co_name.startswith("<") else code.co_name
        cell = cell_of(code.co_filename) if name.startswith("cell") else ""
        found = _LOCATIONS[key] = Location(name, line, column, text, function, end, cell, last)
    return found


def user_frame() -> FrameType | None:
    """The innermost frame of the stack that is not maxlab's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code):
        frame = frame.f_back
    return frame


def user_location() -> Location | None:
    """The place in the user's code that led here; None when there is none, as in an embedded
    call."""
    frame = user_frame()
    return _location(frame) if frame is not None else None


class Scopes:
    """Turns the stack of an op into a scope path, such as ``encoder.layers.0.attention``.

    The path is read from the frames between the one that opened the graph and the op: a call of a
    module contributes the module's path, a call of one of the user's functions its name, numbered
    when one function is called again. The frames of the newest op are kept alive, so that a frame
    that is met again is the same call, with the same callers; ``close`` lets them go.
    """

    def __init__(self, base: FrameType | None = None) -> None:
        self.open(base)
        self._taken: dict[str, int] = {}
        self.calls: dict[str, tuple[str, Location]] = {}
        """Of each path that a call gave: the path around it, and where the user wrote the call."""

    def open(self, base: FrameType | None) -> None:
        """Read paths from ``base`` on, the frame in which the graph was opened."""
        self._base = base
        self._frames: list[FrameType] = []
        self._paths: list[str] = []
        self._depth_of: dict[FrameType, int] = {}
        self._places: dict[tuple[int, int], tuple[CodeType, Location]] = {}
        self._strayed = False  # whether the newest op was added from elsewhere than below the base

    def close(self) -> None:
        """Forget all frames; the numbering stays."""
        self.open(None)

    def capture(self) -> tuple[Location | None, str]:
        """The location and the scope path of the code that is adding an op."""
        base, depth_of, known = self._base, self._depth_of, _SCOPED
        frame: FrameType | None = sys._getframe(1)
        innermost: FrameType | None = None
        new: list[FrameType] = []  # frames that the newest op did not have, from the inside out
        same = 0
        while frame is not None and frame is not base:
            code = frame.f_code
            scoped = known.get(id(code))
            if scoped is None:
                scoped = _scoped(code)
            if scoped is False:
                frame = frame.f_back
                continue
            if scoped is None and innermost is None:
                innermost = frame
            depth = depth_of.get(frame)
            if depth is not None and not code.co_flags & _RESUMED:
                same = depth + 1
                break
            new.append(frame)
            frame = frame.f_back
        end = frame
        if innermost is None:
            while frame is not None and _is_internal(frame.f_code):
                frame = frame.f_back
            innermost = frame
        if not same:
            self._strayed = end is None and base is not None
        if self._strayed:
            new = [f for f in new if _is_internal(f.f_code)]
        frames, paths = self._frames, self._paths
        while (
            new and same < len(frames) and new[-1] is frames[same]
        ):  # resumed, by the same callers
            new.pop()
            same += 1
        location = self._place(innermost) if innermost is not None else None
        if new or same != len(paths):
            self._turn(same, new)
        return location, paths[-1] if paths else ""

    def _place(self, frame: FrameType) -> Location:
        """The location of ``frame``, which is looked up once for each instruction."""
        code = frame.f_code
        key = (id(code), frame.f_lasti)
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = (code, _location(frame))
        return found[1]

    def _turn(self, same: int, new: list[FrameType]) -> None:
        """Keep the ``same`` outermost frames, and enter those that are ``new``."""
        for frame in self._frames[same:]:
            self._depth_of.pop(frame, None)
        del self._frames[same:], self._paths[same:]
        for frame in reversed(new):
            parent = self._paths[-1] if self._paths else ""
            path = self._enter(parent, frame)
            if path != parent:
                self._note_call(path, parent, frame)
            self._paths.append(path)
            self._depth_of[frame] = len(self._frames)
            self._frames.append(frame)

    def _note_call(self, path: str, parent: str, frame: FrameType) -> None:
        caller = frame.f_back
        while caller is not None and _is_internal(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            self.calls[path] = (parent, self._place(caller))

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
