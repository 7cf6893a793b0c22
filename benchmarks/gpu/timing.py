"""How long the device needs: contenders recorded, warmed up and timed in turns by its own clock.

A sample is the time between two events around one replay of a recording that holds many launches,
divided by their number, so that neither the host nor the gaps between launches are in it. Before
the first event stands another replay: the device is busy while the host hands over the rest.
Nobody waits between the two events. The contenders of a case take turns, forwards and backwards,
so that clocks and temperatures are the same for all.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from maxlab.driver.backend import Context, Mark, Queue

Launch = Callable[[Queue], None]
"""Gives the work of one run to a queue."""
Play = Callable[[], None]
"""Gives the work of many runs to the default queue; called by the device's owner."""


@dataclass(frozen=True)
class Effort:
    """How much time is spent on one contender.

    Attributes:
        sample_ms: what one sample should take at least.
        samples: how many there are, if ``total_ms`` allows.
        total_ms: what all samples of a contender may take; at least three are taken.
        warm_ms: how long it runs before.
    """

    sample_ms: float = 2.0
    samples: int = 31
    total_ms: float = 1500.0
    warm_ms: float = 60.0


FULL = Effort()
TINY = Effort(sample_ms=0.0, samples=3, total_ms=1e9, warm_ms=0.0)


@dataclass
class Contender:
    """One way to do a case.

    Attributes:
        name: of the row, such as ``"torch"``.
        sets: the same work over different memory, taken in turns: together they do not fit into
            the L2 cache, so that each run finds it cold where a real program would.
        capture: makes, of the number of runs, what plays them; by default they are recorded from
            ``sets`` by maxlab. Other libraries record their own.
        note: what a reader has to know, such as the backend that was chosen.
    """

    name: str
    sets: Sequence[Launch] = ()
    capture: Callable[[int], Play] | None = None
    note: str = ""


@dataclass
class Timed:
    """The samples of a contender, microseconds of one run each."""

    name: str
    samples_us: list[float] = field(default_factory=list)
    runs: int = 0
    note: str = ""
    error: str = ""

    @property
    def median_us(self) -> float:
        """The middle one."""
        return statistics.median(self.samples_us)

    @property
    def quartiles_us(self) -> tuple[float, float]:
        """A quarter of the samples is below the first, a quarter above the second."""
        if len(self.samples_us) < 2:
            return self.median_us, self.median_us
        low, _, high = statistics.quantiles(self.samples_us, n=4)
        return low, high


def repeated(work: Callable[[], object]) -> Callable[[int], Play]:
    """A `Contender.capture` for work that is simply done again and again."""

    def capture(runs: int) -> Play:
        def play() -> None:
            for _ in range(runs):
                work()

        return play

    return capture


class Timer:
    """Times contenders on one device."""

    def __init__(self, context: Context, effort: Effort = FULL) -> None:
        self.context = context
        self.effort = effort
        self._queue = context.default_queue

    def compare(self, contenders: Sequence[Contender]) -> list[Timed]:
        """The samples of each; one that raises keeps its error, and the others go on."""
        found = [Timed(c.name, note=c.note) for c in contenders]
        plays: list[tuple[Timed, Play, int]] = []
        for contender, timed in zip(contenders, found, strict=True):
            try:
                play, runs, sample_ms = self._ready(contender)
            except Exception as error:
                timed.error = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                continue
            timed.runs = runs
            wanted = int(self.effort.total_ms / max(2 * sample_ms, 1e-6))
            plays.append((timed, play, max(3, min(self.effort.samples, wanted))))
        for turn in range(max((count for _, _, count in plays), default=0)):
            for timed, play, count in plays if turn % 2 == 0 else reversed(plays):
                if turn < count:
                    ms = self._sample(play, busy=True)
                    timed.samples_us.append(ms * 1e3 / timed.runs)
        return found

    def once(self, launch: Launch) -> None:
        """Run something to its end."""

        def work() -> None:
            launch(self._queue)
            self._queue.synchronize()

        self.context.call(work)

    def _ready(self, contender: Contender) -> tuple[Play, int, float]:
        """What plays the contender, how many runs that is, and milliseconds of it, warm."""
        for launch in contender.sets:  # loads, plans and workspaces are made outside of recordings
            self.once(launch)
        capture = contender.capture or partial(self._record, contender.sets)
        step = max(len(contender.sets), 1)
        play = capture(step)
        self._sample(play, busy=False)
        ms = self._sample(play, busy=True)
        times = 1
        if ms < self.effort.sample_ms:
            times = min(-(-int(self.effort.sample_ms * 1e6) // max(int(ms * 1e6), 1)), 400)
            play = capture(step * times)
        spent = 0.0
        ms = self._sample(play, busy=False)
        while spent < self.effort.warm_ms:
            ms = self._sample(play, busy=False)
            spent += max(ms, 0.01)
        return play, step * times, ms

    def _record(self, sets: Sequence[Launch], runs: int) -> Play:
        def work(queue: Queue) -> None:
            for number in range(runs):
                sets[number % len(sets)](queue)

        recording = self.context.call(lambda: self.context.record(work))
        if recording is None:  # a device that cannot: the launches one by one
            return lambda: work(self._queue)
        return lambda: recording.launch(self._queue)

    def _sample(self, play: Play, *, busy: bool) -> float:
        """Milliseconds of one play; with ``busy`` the device has work while it is given."""
        queue = self._queue

        def work() -> tuple[Mark, Mark]:
            if busy and not self.context.properties.simulated:
                play()
            begin = queue.mark(timed=True)
            play()
            end = queue.mark(timed=True)
            end.synchronize()
            return begin, end

        def sample() -> float:
            begin, end = work()
            return end.ms_since(begin)

        return self.context.call(sample)
