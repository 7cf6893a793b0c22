"""Intermediate values of a fused kernel, read out of the very text that ran: `read_scalars`.

Values that are fused away are never in memory; they are scalars of the generated text, one to a
line, ``const f32 v12 = ...;``. Behind each of these lines another one is put that writes the scalar
down, and the kernel is run again on the memory it had. So what is seen is what this text computes,
whatever is wrong with it, and not what a kernel compiled anew would.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.places import Places

Array = np.ndarray[Any, Any]

_DECLARED = re.compile(r"^\s*(const )?(\w+) v(\d+) = .*;$")
_LOOP = re.compile(r"^\s*for \((?:i64|int) (\w+) = .*;.*; .*\) \{$")
_LAMBDA = re.compile(r"\[=\]\(i64 item, i64 row, i64 j, f32 (\w+)\) \{$")
_ELEMENT = re.compile(r"^\s*const i64 (?:j = (h\d+) \+ .*\bl|(k) = k0.*);$")
_LANES = re.compile(r"h\d+$")
_REST = re.compile(r"^if \((h\d+|n) < ")
_ROW = re.compile(r"^const i64 row = own \? ")
_SHARED = re.compile(r"^\s*const bool own = ", re.MULTILINE)
_LANE = re.compile(r"^const i64 j = first \+ e;$")
_COLUMN = re.compile(r"^\s*const i64 j = item % ")
_VECTOR = re.compile(r"e < (\d+);")
_TYPES = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "bool": np.bool_,
}  # fmt: skip
UNWRITTEN = 0xCB
"""Every byte of memory that nobody has written a scalar to."""
MOST_BYTES = 1 << 30
"""Bytes of scalars that are read at once; of larger kernels only some are."""


@dataclass(slots=True)
class Read:
    """One scalar over the whole kernel.

    Attributes:
        number: Of its expression.
        array: Its values, one for each element of the grid.
        written: Where it was computed.
        inner: Whether the grid has the inner axis.
        reduced: Whether the grid has the reduced axis.
        guarded: Whether it is computed under a condition.
        line: Its line in the kernel's own text, from 1.
    """

    number: int
    array: Array
    written: Array
    inner: bool
    reduced: bool
    guarded: bool
    line: int


@dataclass(slots=True)
class _Tap:
    """A line to add."""

    number: int
    kind: np.dtype[Any]
    place: str
    shape: tuple[int, ...]
    inner: bool
    reduced: bool
    guarded: bool
    line: int
    vector: bool
    axis: str
    offset: int = 0
    fits: bool = False
    same: _Tap | None = None  # that of another loop over other elements of the same axis

    def goes_on(self, first: _Tap) -> bool:
        """Whether ``first`` writes down other elements of the same scalar, as a loop over vectors
        does, or over some rows at once, before one over what is left; or the same, where a kernel
        takes vectors on one condition and single elements otherwise.
        """
        if self.number != first.number:
            return False
        if self.axis:
            return self.axis == first.axis
        otherwise = first.guarded and not self.guarded and self.place == first.place
        return (first.vector and not self.vector) or otherwise


def read_scalars(alone: Alone, places: Places, env: Mapping[str, int]) -> list[Read]:
    """The scalars of a kernel that are elements of values, in the order of its text.

    Raises:
        ToolchainError: The compiler refused the text with the added lines.
        ExecutionError: The kernel found something wrong.
    """
    taps = list(_taps(alone, places, dict(env)))
    total, chosen = 0, []
    for tap in taps:
        if tap.same is not None:
            if not tap.same.fits:
                continue
            tap.offset = tap.same.offset
            chosen.append(tap)
            continue
        nbytes = int(np.prod(tap.shape, dtype=np.int64)) * tap.kind.itemsize
        if total + nbytes > MOST_BYTES:
            continue
        tap.offset = total
        total += -(-nbytes // 64) * 64
        tap.fits = True
        chosen.append(tap)
    if not chosen:
        return []
    memory = np.full(max(total, 64), UNWRITTEN, np.uint8)
    alone.run(_with_lines(alone, chosen), memory)
    found = []
    for tap in chosen:
        if tap.same is not None:
            continue
        count = int(np.prod(tap.shape, dtype=np.int64))
        raw = memory[tap.offset : tap.offset + count * tap.kind.itemsize]
        written = (raw.reshape(count, tap.kind.itemsize) != UNWRITTEN).any(axis=1)
        array = raw.view(tap.kind).reshape(tap.shape)
        found.append(
            Read(
                tap.number,
                array,
                written.reshape(tap.shape),
                tap.inner,
                tap.reduced,
                tap.guarded,
                tap.line,
            )
        )
    return found


def _taps(alone: Alone, places: Places, env: dict[str, int]) -> list[_Tap]:
    """Where scalars are declared that are elements of values, and how their place is spelt."""
    cuda = alone.headers is not None
    axes = [size.evaluate(env) for _, size in places.axes]
    rows, inner_size = axes[: places.outer], places.inner.evaluate(env)
    width = places.width.evaluate(env)
    depth = places.reduced.evaluate(env) if places.reduced is not None else 1
    found: list[_Tap] = []
    # What each open brace belongs to: a loop's variable, "if", or ""; of a loop over the lanes of a
    # vector the variable that counts vectors.
    scope: list[str] = []
    vector = 1
    extra: set[str] = set()
    for number, line in enumerate(alone.text.splitlines(), 1):
        text = line.strip()
        if text.startswith("}"):
            closed = scope.pop() if scope else ""
            if closed in ("item", "block"):
                extra.clear()
        match = _DECLARED.match(line)
        if match and int(match[3]) in places.scalars and match[2] in _TYPES:
            names = {*scope, *extra}
            if "first" in names:
                names = {*names, "j"} - {"n"}
            lanes = next((name for name in scope if _LANES.match(name)), "")
            if lanes:
                names.add("j")
            spelt = _place(places, names, rows, width, depth, vector)
            if spelt is not None:
                place, inner, reduced = spelt
                shape = (*(axes if inner else rows), *((depth,) if reduced else ()))
                if inner:
                    shape = (*shape, inner_size)
                kind = np.dtype(_TYPES[match[2]])
                tap = _Tap(
                    int(match[3]), kind, place, shape, inner, reduced,
                    "if" in names or match[1] is None, number, "e" in names,
                    "k" if reduced and not cuda else lanes,
                )  # fmt: skip
                tap.same = next((t for t in found if t.same is None and tap.goes_on(t)), None)
                found.append(tap)
        element = None if cuda else _ELEMENT.match(line)
        if element and scope:
            scope[-1] = element[1] or element[2]
        if cuda and scope and _LANE.match(text):
            scope[-1] = "first"  # the elements of a row that a thread keeps
        if cuda and _ROW.match(text):
            extra.add("row")
        if cuda and _COLUMN.match(line):
            extra |= {"j", "row"} if "row =" in line else {"j"}
        if text.endswith("{"):
            loop, lambda_ = _LOOP.match(line), _LAMBDA.search(line)
            if loop:
                scope.append(loop[1])
                if loop[1] == "e":
                    vector = int((_VECTOR.search(line) or ["", "1"])[1])
            elif lambda_:
                scope.append("item")
                extra |= {"row", "j"}
            else:
                asked = text.startswith(("if", "else")) and not _REST.match(text)
                scope.append("if" if asked else "")
    return found


def _place(
    places: Places, names: set[str], rows: list[int], width: int, depth: int, vector: int
) -> tuple[str, bool, bool] | None:
    """The element of the grid that a line computes, as C; whether it has the inner and the reduced
    axis; None where it cannot be said.
    """
    if "n" in names:  # rows beside each other, an element after another: no variable counts these
        return None
    inner = "j" in names or "e" in names
    column = f"(q * {vector} + e)" if {"q", "e"} <= names else "j"
    row: str | None
    if places.kind == "scores":
        if not inner:
            return None
        own = f"i{len(rows) - 1}"
        if len(rows) == 3:
            row = f"((batch * {rows[1]} + head) * {rows[2]} + {own})"
        else:
            row = f"(batch * {rows[-1]} + {own})"
        return f"{row} * {width} + {column}", True, False
    if not rows:
        row = "0"
    elif "row" in names:
        row = "row"
        if places.batch:
            count = int(np.prod(rows[places.batch :], dtype=np.int64))
            row = f"(item * {count} + row)"
    elif "item" in names and places.kind == "columns":
        row = "row"
    elif "q" in names or names & {"j"}:  # a flat kernel: its rows are merged with the inner axis
        return column, True, False
    else:
        return None
    reduced = "k" in names and places.kind == "columns"
    if reduced:
        row = f"({row} * {depth} + k)"
    if inner:
        return f"{row} * {width} + {column}", True, reduced
    return (row, False, reduced) if rows or reduced else None


def _with_lines(alone: Alone, taps: list[_Tap]) -> str:
    """The text of the kernel with a line for each tap."""
    lines = alone.text.splitlines()
    after: dict[int, list[str]] = {}
    memory = "tap" if alone.headers is not None else f"((char *)b[{len(alone.memory)}])"
    for tap in taps:
        kind = next(name for name, known in _TYPES.items() if np.dtype(known) == tap.kind)
        text = f"(({kind} *)({memory} + {tap.offset}LL))[{tap.place}] = v{tap.number};"
        own = "own" if alone.headers is not None and _SHARED.search(alone.text) else ""
        if alone.headers is not None and not tap.inner and not tap.reduced:
            # All threads of a row know it; one writes it down, or they would race.
            others = "" if "row = blockIdx.y" in alone.text else " && blockIdx.y == 0"
            own = f"threadIdx.x == 0{others}{own and ' && own'}"
        if own:
            text = f"if ({own}) {text}"
        after.setdefault(_behind(lines, tap), []).append(text)
    made = []
    for number, line in enumerate(lines, 1):
        if alone.headers is not None:
            line = re.sub(r"i64 \*fault\) \{$", "i64 *fault, unsigned char *tap) {", line)
        made.append(line)
        made.extend(after.get(number, ()))
    return "\n".join(made) + "\n"


def _behind(lines: list[str], tap: _Tap) -> int:
    """The line behind which a scalar has its value: its own, or the end of the condition that
    gives it another one.
    """
    if lines[tap.line - 1].strip().startswith("const "):
        return tap.line
    depth = 0
    for number in range(tap.line + 1, len(lines) + 1):
        text = lines[number - 1].strip()
        depth += text.count("{") - text.count("}")
        if depth <= 0:
            return number
    return tap.line


__all__ = ["Read", "read_scalars"]
