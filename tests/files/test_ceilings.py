"""Ceilings that are kept in a file: whatever stands in it, they are read or measured anew."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from maxlab.analysis import machine
from maxlab.analysis.machine import Ceilings, Level, Machine, Rate
from maxlab.errors import DocumentError

KEPT = Machine(
    "a processor",
    1.0,
    1.0,
    {
        n: Ceilings(
            "cpu", n, (Level("L1", 1000, 1.0, 1.0, 1.0),), (Rate("f", 1.0, "peak", "f"),), 1.0, 1.0
        )
        for n in (1, 2)
    },
)
ODD: list[Any] = [None, "x", [], {}, [[]], -1, 10**400, float("nan"), float("inf"), [{}], "2"]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        found += [below for key, one in inner for below in _paths(one, (*path, key))]
    return found


def test_anything_in_the_place_of_any_field() -> None:
    written = json.loads(json.dumps(KEPT.to_json()))
    assert Machine.from_json(written) == KEPT
    for path in _paths(written):
        for odd in ODD:
            changed = copy.deepcopy(written)
            place = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = odd
            try:
                read = Machine.from_json(changed)
            except DocumentError:
                continue
            assert read.table()
            assert repr(read)
            assert isinstance(read.was_busy, bool)


@pytest.mark.parametrize("text", ["", "x", "{}", "[" * 100_000, "1" * 5000, "NaN", "[]"], ids=len)
def test_a_file_that_is_none_is_measured_anew(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ceilings.json"
    path.write_text(text)
    assert machine._read(path) is None


def test_ceilings_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ceilings.json"
    machine._write(path, KEPT)
    assert machine._read(path) == KEPT
    assert [one.name for one in path.parent.iterdir()] == [path.name]
