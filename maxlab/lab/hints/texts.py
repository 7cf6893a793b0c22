"""The text that a cell or an imported file had when it ran: its lines, statements and names."""

from __future__ import annotations

import ast
import io
import os
import re
import struct
import sys
import sysconfig
import tokenize
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType
from typing import Any

from maxlab.errors import Location, MaxlabError
from maxlab.files import open_regular
from maxlab.ir.cells import cell_of_run, shell

_CELL = re.compile(r"cell \[(\d+)\]")
_TIMED = "<timed exec>"
"""The name that IPython gives to the body of a cell that begins with ``%%time``."""

Span = tuple[int, int, int]
"""Where an expression stands: its line, its first column and the column after it, in bytes of
UTF-8. The last is 0 where it ends on another line."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a text: its lines, from 1; of one that has a body, those before the body."""

    first: int
    last: int


@dataclass(slots=True)
class Code:
    """The code that Python reads in a text.

    Attributes:
        statements: Those that each line is of, by the line.
        names: The variables that an expression is given to, by where it stands.
        is_read: Whether it is Python.
    """

    is_read: bool = True
    statements: Mapping[int, Statement] = field(default_factory=dict)
    names: Mapping[Span, Sequence[str]] = field(default_factory=dict)


def plain(text: str) -> str:
    """``text`` with plain line ends.

    Example:
        >>> plain("a\\r\\nb\\rc")
        'a\\nb\\nc'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_code(text: str, shift: int = 0) -> Code:
    """The statements and names of ``text``; none where it is no Python.

    Args:
        text: What to read.
        shift: What to add to the numbers of lines.

    Example:
        >>> code = read_code("x = (a +\\n  b)\\nfor i in c: y, z = i * 2, -i")
        >>> code.statements[2], code.names[3, 19, 24], code.names[3, 26, 28]
        (Statement(first=1, last=2), ['y'], ['z'])
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Code(is_read=False)
    ast.increment_lineno(tree, shift)
    statements: dict[int, Statement] = {}
    names: dict[Span, Sequence[str]] = {}
    for node in ast.walk(tree):  # outer statements come before the inner ones, which win
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = node.end_lineno or node.lineno
            if isinstance(body, list) and body:
                last = max(node.lineno, min(last, body[0].lineno - 1))
            for line in range(node.lineno, last + 1):
                statements[line] = Statement(node.lineno, last)
        names.update(_names(node))
    return Code(True, statements, names)


def _names(node: ast.AST) -> Iterator[tuple[Span, list[str]]]:
    """The expressions that ``node`` gives to variables, and these."""
    match node:
        case ast.Assign(targets=[target, *_], value=value):
            yield from _given(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _given(target, value)
        case ast.NamedExpr(target=target, value=value):
            yield from _given(target, value)
        case ast.AugAssign(target=target):
            # The instruction that adds is placed at the whole statement.
            yield _span(node), [ast.unparse(target)]
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="run_line_magic"),
                args=[ast.Constant(value="time"), ast.Constant(value=str() as text)],
            ) as call
        ):
            yield from ((_span(call), names) for names in _timed(text))
        case _:
            pass


def _timed(text: str) -> Iterator[list[str]]:
    """The variables that a line behind ``%time`` gives what it makes."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    match body:
        case [*_, ast.Assign(targets=[target, *_])]:
            many = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            yield [ast.unparse(one) for one in many]
        case _:
            pass


def _given(target: ast.expr, value: ast.expr) -> Iterator[tuple[Span, list[str]]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        whole = [ast.unparse(one) for one in target.elts]
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(whole):
            for name, one in zip(whole, value.elts, strict=True):
                yield _span(one), [name]
        else:
            yield _span(value), whole
    else:
        yield _span(value), [ast.unparse(target)]


def _span(node: ast.expr | ast.stmt) -> Span:
    is_one = node.end_lineno == node.lineno
    return node.lineno, node.col_offset, (node.end_col_offset or 0) if is_one else 0


# ---------------------------------------------------------------- cells and files


@dataclass
class Source:
    """A text that ran.

    Attributes:
        cell: Id of the cell; empty for a file.
        path: Absolute path of the file; empty for a cell.
        run: The number of the execution; 0 of a file.
        text: It, with plain line ends.
        code: What Python reads in it.
        shift: How many lines of it stand before the first that Python counts.
        parsed: The lines that Python saw, where these are others.
    """

    cell: str
    path: str
    run: int
    text: str
    code: Code
    shift: int = 0
    parsed: Sequence[str] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The key under which the page knows it."""
        return self.cell, self.path

    @cached_property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.split("\n")

    @property
    def is_magic(self) -> bool:
        """Whether it is a cell that begins with ``%%``."""
        return self.shift > 0 and self.lines[self.shift - 1].lstrip().startswith("%%")

    @cached_property
    def checksum(self) -> tuple[int, int]:
        """Length and CRC-32 of the text in UTF-8."""
        return checksum(self.text)

    def line_of(self, at: Location) -> int | None:
        """The line of the text that ``at`` means; None where it is not to be found."""
        said = "" if self.path else at.text.rstrip()
        first = at.line + self.shift
        for line in (first, first + self._blank)[at.file == _TIMED :]:
            if 1 <= line <= len(self.lines) and said in ("", self.lines[line - 1].rstrip()):
                return line
        # A line with a magic is another one to Python.
        was = self.parsed[at.line - 1].rstrip() if 1 <= at.line <= len(self.parsed) else None
        return first if was == said and first <= len(self.lines) else None

    @cached_property
    def _blank(self) -> int:
        """Empty lines behind the magic of a cell, which are dropped where the rest runs as a
        cell."""
        return _leading(self.lines[self.shift :])


def checksum(text: str) -> tuple[int, int]:
    """Length and CRC-32 of ``text`` in UTF-8.

    Example:
        >>> checksum("maxlab")
        (6, 2447770495)
    """
    data = text.encode("utf-8", "surrogatepass")
    return len(data), zlib.crc32(data)


def _leading(lines: Sequence[str]) -> int:
    """How many of ``lines`` are empty before the first that is not."""
    return next((n for n, line in enumerate(lines) if line.strip()), 0)


def cell_source(cell: str, run: int, raw: str, parsed: str) -> Source:
    """The text of a cell that ran.

    Args:
        cell: Its id.
        run: The number of the execution.
        raw: What was typed.
        parsed: What IPython made of it.

    Example:
        >>> source = cell_source("c1", 3, "\\n%%time\\nx = a @ b", "run_cell_magic(...)")
        >>> source.shift, source.code.names
        (2, {(3, 4, 9): ['x']})
    """
    text = plain(raw)
    lines = text.split("\n")
    shift = _leading(lines)
    if lines[shift].lstrip().startswith("%%"):
        shift += 1
        return Source(cell, "", run, text, read_code("\n".join(lines[shift:]), shift), shift)
    seen = plain(parsed)
    return Source(cell, "", run, text, read_code(seen, shift), shift, seen.split("\n"))


class Texts:
    """The texts of this process that ran, each read once."""

    def __init__(self) -> None:
        self._cells: dict[int, Source] = {}
        self._files: dict[str, tuple[object, Source | None]] = {}
        self._paths: dict[str, str] = {}
        self._specs: dict[str, object] = {}

    def look(self) -> None:
        """See which modules were loaded since; called before the texts of a graph are asked for."""
        self._specs = {
            file: getattr(module, "__spec__", None)
            for module in list(sys.modules.values())
            if isinstance(file := getattr(module, "__file__", None), str)
        }

    def source_of(self, at: Location, run: int) -> Source | None:
        """The text that ``at`` is in; None where it is in none that a page could show.

        Args:
            at: A place in the user's code.
            run: The number of the execution that was going on.
        """
        found = _CELL.fullmatch(at.file)
        if found is not None and at.cell:
            return self.cell(int(found[1]))
        if found is not None or at.file == _TIMED:
            # What runs inside of a magic has the number of the next execution, or none.
            source = self.cell(run)
            return source if source is not None and source.is_magic else None
        return None if at.file.startswith("<") or at.file == "cell" else self.file(at.file)

    def cell(self, run: int) -> Source | None:
        """The text of the execution ``run``; None where it is not known."""
        found = self._cells.get(run)
        if found is None:
            found = _read_cell(run)
            if found is not None:  # one that begins right now may be known a moment later
                self._cells[run] = found
        return found

    def file(self, name: str) -> Source | None:
        """The text of the file ``name`` when it was first asked for, or loaded again since; None
        where it is no file of the user."""
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = os.path.abspath(name)
        spec = self._specs.get(path)
        known = self._files.get(path)
        if known is None or known[0] is not spec:
            known = self._files[path] = (spec, None if _is_foreign(path) else _read_file(path))
        return known[1]


def _read_cell(run: int) -> Source | None:
    cell = cell_of_run(run)
    history: Any = getattr(shell(), "history_manager", None)
    if not cell or history is None:
        return None
    raw, parsed = history.input_hist_raw, history.input_hist_parsed
    if not 0 < run < min(len(raw), len(parsed)):
        return None  # the history was cleared
    return cell_source(cell, run, raw[run], parsed[run])


def _read_file(path: str) -> Source | None:
    try:
        with open_regular(path) as file:
            data = file.read()
        text = data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
    except (MaxlabError, OSError, SyntaxError, UnicodeError, ValueError, LookupError):
        return None
    if changed_since_import(path) or differs_from_loaded(path, text):
        return None  # nobody knows the lines that were imported any more
    return Source("", path, 0, plain(text), read_code(plain(text)))


def changed_since_import(path: str) -> bool:
    """Whether the file ``path`` is another one than that which Python compiled last; False where
    that is not known, as where Python writes no bytecode."""
    try:
        with open_regular(cache_from_source(path)) as file:
            head = file.read(16)
        now = os.stat(path)
    except (MaxlabError, OSError, NotImplementedError, ValueError):
        return False
    if len(head) < 16 or head[:4] != MAGIC_NUMBER or head[4:8] != b"\0\0\0\0":
        return False  # of another Python, or known by a hash
    stamp, size = struct.unpack("<II", head[8:])
    return (stamp, size) != (int(now.st_mtime) & 0xFFFFFFFF, now.st_size & 0xFFFFFFFF)


def differs_from_loaded(path: str, text: str) -> bool:
    """Whether a function that was loaded from the file ``path`` is not one that ``text`` defines at
    the same lines; False where the module has no function, or none is loaded from there."""
    loaded = [
        code
        for module in list(sys.modules.values())
        if getattr(module, "__file__", None) == path
        for code in _codes_of(vars(module), module.__name__, path)
    ]
    if not loaded:
        return False
    try:
        defined = list(_nested(compile(text, path, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError):
        return True
    return not all(
        any(code == other and _lines(code) == _lines(other) for other in defined) for code in loaded
    )


def _codes_of(names: Mapping[str, object], module: str, path: str) -> Iterator[CodeType]:
    """The code from the file ``path`` of the functions that ``names``, of ``module``, stand for,
    and of those of its classes."""
    for value in list(names.values()):
        if isinstance(value, type):
            if value.__module__ == module:
                yield from _codes_of(vars(value), module, path)
            continue
        made: Any = value
        seen: list[object] = []  # what stands under a name may be wrapped around the function
        while made is not None and not any(made is other for other in seen):
            seen.append(made)
            code = getattr(made, "__code__", None)
            if isinstance(code, CodeType) and code.co_filename == path:
                yield code
            parts = (getattr(made, part, None) for part in ("__wrapped__", "__func__", "fget"))
            made = next((part for part in parts if callable(part)), None)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _lines(code: CodeType) -> list[int | None]:
    return [line for _, _, line in code.co_lines()]


_LIBRARY = tuple(
    {os.path.join(found, "") for key, found in sysconfig.get_paths().items() if "lib" in key}
)


def _is_foreign(path: str) -> bool:
    """Whether ``path`` is of Python's library or an installed package."""
    return path.startswith(_LIBRARY) or f"{os.sep}site-packages{os.sep}" in path
