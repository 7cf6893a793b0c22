"""When the steps of a model ran, and which thread was busy when: raw stamps of timed runs.

All stamps are nanoseconds of ``time.monotonic_ns``, which is the clock of the executor and of the
event stream, so that runs, compilations and the user's own spans stand on one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BEGIN, END, CHUNKS = 0, 1, 2
"""Columns of ``Stamps.threads``."""


@dataclass(frozen=True, slots=True)
class Stamps:
    """The stamps of timed runs, int64 nanoseconds of ``time.monotonic_ns``.

    Attributes:
        calls: [runs, 2], when the caller began and ended each run.
        steps: [runs, steps, 2], begin and end of each step of the plan; waiting for the slowest
            thread is part of the step.
        threads: [runs, threads, steps, 3], for each thread when it began its first and ended its
            last chunk of the step, and how many chunks it took; zeros where it took none. No
            threads where steps are not shared by threads: on a GPU.
        callers: [runs], the thread that called, as ``threading.get_ident`` numbers it.
        turns: [runs, steps], how often each step ran: once, but for what branches and loops run,
            whose stamps are of all turns together.
    """

    calls: Array
    steps: Array
    threads: Array
    callers: Array
    turns: Array

    @property
    def runs(self) -> int:
        """How many runs were timed."""
        return len(self.calls)

    @property
    def spent(self) -> Array:
        """Nanoseconds of each step, [runs, steps]."""
        found: Array = self.steps[:, :, 1] - self.steps[:, :, 0]
        return found

    @property
    def busy(self) -> Array:
        """Nanoseconds that each thread was busy with each step, [runs, threads, steps]."""
        found: Array = self.threads[..., END] - self.threads[..., BEGIN]
        return found

    @property
    def representative(self) -> int:
        """The run whose steps together took the median time, the earlier of two; the one to look
        at alone."""
        total = self.spent.sum(axis=1)
        return int(np.argsort(total, kind="stable")[(len(total) - 1) // 2])


@dataclass(frozen=True, slots=True)
class Taken:
    """The stamps of one run: a row of ``Stamps``.

    Attributes:
        call: Begin and end.
        steps: [steps, 2].
        threads: [threads, steps, 3].
        caller: The thread that called.
        turns: [steps].
    """

    call: tuple[int, int]
    steps: Array
    threads: Array
    caller: int
    turns: Array

    @property
    def spent_ns(self) -> int:
        """Nanoseconds of all steps."""
        return int((self.steps[:, 1] - self.steps[:, 0]).sum())


def stacked(rows: Sequence[Taken]) -> Stamps:
    """The ``Stamps`` of runs that were timed one by one."""
    return Stamps(
        np.array([row.call for row in rows], np.int64),
        np.stack([row.steps for row in rows]),
        np.stack([row.threads for row in rows]),
        np.array([row.caller for row in rows], np.int64),
        np.stack([row.turns for row in rows]),
    )


def imbalance(busy: Sequence[float]) -> float:
    """How much shorter a kernel could be if its threads, busy for ``busy`` ns, had equal shares: a
    fraction of the busiest thread's time.

    Example:
        >>> imbalance([100.0, 50.0]), imbalance([100.0, 0.0]), imbalance([])
        (0.25, 0.5, 0.0)
    """
    longest = max(busy, default=0.0)
    return 1 - sum(busy) / len(busy) / longest if longest > 0 else 0.0


def side_by_side(steps: Array, threads: Array, begin: int) -> Array:
    """How often each step of a program ran. Their stamps, the number of turns and the nanoseconds
    of all of them, become stamps one behind the other from ``begin`` on: what a loop took stands
    there once, step by step.
    """
    turns: Array = steps[:, 0].copy()
    spent = steps[:, 1].copy()
    steps[:, 1] = begin + np.cumsum(spent)
    steps[:, 0] = steps[:, 1] - spent
    ran = threads[..., CHUNKS] > 0
    threads[..., BEGIN] = np.where(ran, steps[:, 0], 0)
    threads[..., END] = np.where(ran, threads[..., END] + steps[:, 0], 0)
    return turns
