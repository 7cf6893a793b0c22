"""The op of a kernel that computes something wrong: `locate`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.difference import Difference, difference
from maxlab.analysis.check.places import Places, Scalar, element_grid, elements_of
from maxlab.analysis.check.rounding import Rounded
from maxlab.analysis.check.taps import Read, read_scalars
from maxlab.errors import MaxlabError
from maxlab.ir import Op, Value

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Located:
    """Where in a kernel it goes wrong.

    Attributes:
        op: The op of the compiled function; None when only the kernel can be named.
        message: What is wrong, in a sentence.
        difference: How far the op's result is off, when it was read.
        line: The line of the kernel's text, from 1.
        good: Values that were found right.
        among: Ids of the ops of which it is one, when ``op`` is None and others are right.
    """

    op: Op | None
    message: str
    difference: Difference | None = None
    line: int = 0
    good: list[Value] = field(default_factory=list)
    among: tuple[str, ...] = ()


def locate(
    alone: Alone,
    places: Places,
    wanted: Mapping[Value, Rounded],
    env: Mapping[str, int],
) -> Located:
    """The first op of the kernel whose scalars are not what the reference says.

    Args:
        alone: The kernel, on the memory that it had.
        places: What its scalars are.
        wanted: What the references make of that memory, for every value of the kernel.
        env: The size of every symbolic dim.
    """
    try:
        reads = read_scalars(alone, places, env)
    except MaxlabError as error:
        return Located(None, f"its values could not be read: {error.what}")
    found = Located(None, "")
    for read in reads:
        scalar = places.scalars[read.number]
        if scalar.value not in wanted:
            continue
        result = _judged(read, scalar, wanted[scalar.value], places, dict(env))
        if result is None:
            found.good.append(scalar.value)
            continue
        found.difference, what = result
        found.line = read.line
        found.op = scalar.value.op
        if scalar.loaded:
            found.op = _reader(alone.text, read.line, read.number, places) or found.op
            what = f"it reads {scalar.value.id} at a wrong place: {what}"
        found.message = what
        return found
    found.message = "every value that its text names is right"
    return found


def _judged(
    read: Read, scalar: Scalar, want: Rounded, places: Places, env: dict[str, int]
) -> tuple[Difference, str] | None:
    """How far a scalar is off; None when it is right."""
    grid = element_grid(places, env, read.inner, read.reduced)
    shape = read.array.shape
    kind = want.base.dtype
    wide = np.dtype(np.float32) if kind.itemsize == 2 and read.array.dtype == np.float32 else kind
    picked = Rounded(
        elements_of(scalar, want.base, grid, shape).astype(wide),
        tuple(elements_of(scalar, s, grid, shape).astype(wide) for s in want.samples),
    )
    written = read.written if kind.itemsize > 1 else np.ones(shape, bool)
    if not written.all() and not read.guarded and places.kind != "scores":
        at = tuple(int(n) for n in np.argwhere(~written)[0])
        count = int((~written).sum())
        here = _only(picked, written)
        made = difference(read.array[written].astype(wide), here, scalar.value.tensor_type.dtype)
        return made, f"{count} of {written.size} elements are never computed, the first at {at}"
    if not written.any():
        return None
    made = difference(
        read.array[written].astype(wide), _only(picked, written), scalar.value.tensor_type.dtype
    )
    if made.ok:
        return None
    whole = difference(
        np.where(written, read.array.astype(wide), picked.base),
        picked,
        scalar.value.tensor_type.dtype,
    )
    return whole, (made if whole.ok else whole).sentence()


def _only(value: Rounded, where: Array) -> Rounded:
    return Rounded(value.base[where], tuple(s[where] for s in value.samples))


def blamed(text: str, places: Places | None, error: MaxlabError) -> Located:
    """The op of the line of a kernel that an error of the checking simulator quotes."""
    located = Located(None, error.what)
    quoted = "\n".join(error.why)
    for number, line in enumerate(text.splitlines(), 1):
        code = line.strip()
        if places is None or len(code) < 8 or code not in quoted:
            continue
        made = re.search(r"\bv(\d+)\s*=", code)
        scalar = places.scalars.get(int(made[1])) if made else None
        if scalar is not None:
            located.op = _reader(text, number, scalar.number, places)
            # What is read from memory or from a kept row is somebody else's value.
            plain = re.search(r"= (\(\w+\))?([tpl]\d+(\.v)?\[|[lx]\d+(\[n\])?\.at\()", code)
            if located.op is None or not plain:
                located.op = scalar.value.op or located.op
        else:
            located.op = _target(code, places)
        if located.op is not None:
            located.line = number
            break
    return located


def _reader(text: str, start: int, number: int, places: Places) -> Op | None:
    """The op that reads the scalar ``number`` first, behind the line ``start``."""
    for line in text.splitlines()[start:]:
        _, _, source = line.partition("=")
        if re.search(rf"\b(v{number}\b|c{number}\[l\])", source):
            found = _target(line, places)
            if found is not None:
                return found
    return None


def _target(line: str, places: Places) -> Op | None:
    """The op whose result a line computes, folds or stores."""
    target = re.split(r"[-+|]?=", line, maxsplit=1)[0]
    made = re.search(r"\b(?:v(\d+)|x(\d+)\[l\])\s*$", target)
    if made:
        scalar = places.scalars.get(int(made[1] or made[2]))
        return scalar.value.op if scalar is not None else None
    fold = re.search(r"\b(?:[au](\d+)\b|f(\d+)\[l\])", target)
    if fold:
        return places.folds.get(int(fold[1] or fold[2]))
    store = re.search(r"\b[po](\d+)(\.v)?\[", target)
    return places.stores.get(int(store[1])) if store else None


__all__ = ["Located", "blamed", "locate"]
