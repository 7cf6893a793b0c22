"""Files mapped into memory, as the driver knows them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxlab.driver import mapped
from maxlab.driver.mapped import FileMemory


def test_files_may_go_while_they_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they do when the collector runs, or another thread lets go of one."""
    path = tmp_path / "weights"
    path.write_bytes(bytes(4096))
    with path.open("rb") as file:
        held = [FileMemory(path, file.fileno(), 4096) for _ in range(3)]

    class Leaving(weakref.WeakValueDictionary[int, FileMemory]):
        def keys(self) -> Iterator[int]:  # type: ignore[override]
            found = list(super().keys())
            held.clear()
            return iter(found)

        def items(self) -> Iterator[tuple[int, FileMemory]]:  # type: ignore[override]
            for pair in super().items():
                held.clear()
                yield pair

    live = Leaving()
    for one in held:
        live[id(one)] = one
    del one
    monkeypatch.setattr(mapped, "_live", live)
    mapped.require_whole([1])
    assert not held
