"""Views that follow their graphs: the end of each cell, told seldom enough."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from maxlab.lab import following


def test_a_burst_of_cells_is_told_of_at_its_ends() -> None:
    clock = [100.0]
    calls: list[float] = []
    paced = following.Paced(lambda: calls.append(clock[0]), lambda: clock[0])

    async def cells() -> None:
        for _ in range(5):
            paced.cell_ended()
            clock[0] += 0.01
        assert calls == [100.0]
        clock[0] = 100.2
        await asyncio.sleep(0.15)

    asyncio.run(cells())
    assert calls == [100.0, 100.2]
    clock[0] = 101.0
    paced.cell_ended()
    assert calls == [100.0, 100.2, 101.0]


def test_where_nothing_can_be_called_later_every_cell_counts() -> None:
    calls: list[int] = []
    paced = following.Paced(lambda: calls.append(1), lambda: 100.0)
    paced.cell_ended()
    paced.cell_ended()
    assert len(calls) == 2


@pytest.mark.parametrize("kernel", [None, object()])
def test_only_a_kernel_has_cells(monkeypatch: pytest.MonkeyPatch, kernel: Any) -> None:
    registered: list[tuple[str, Callable[..., None]]] = []
    events = types.SimpleNamespace(register=lambda *given: registered.append(given))
    shell = types.SimpleNamespace(kernel=kernel, events=events)
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    calls: list[int] = []
    assert following.after_each_cell(lambda: calls.append(1)) == (kernel is not None)
    for name, call in registered:
        assert name == "post_run_cell"
        call(object())
    assert len(calls) == len(registered) == (kernel is not None)
