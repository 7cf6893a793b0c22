"""The steps of a scheduler in their order, from the event stream or from a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from maxlab import files
from maxlab.errors import DocumentError
from maxlab.markup import visible
from maxlab.pipelines.lib.scheduler import StepRecord
from maxlab.pipelines.lib.scheduler.records import KIND
from maxlab.trace import Event

MOST_KEPT = 5000
"""Steps that are kept, the newest."""
MOST_BYTES = 256 * 2**20
"""Bytes of a file that are read."""
_FORMAT = "maxlab schedule 1"


class ScheduleRun:
    """The steps of a scheduler in their order; the newest 5000 are kept.

    Args:
        scheduler: The name of the scheduler; "" takes the steps of all.

    Attributes:
        steps: The steps that are kept.
        dropped: The number of steps before them, which are not kept any more.

    Example:
        >>> from maxlab import trace
        >>> run = ScheduleRun()
        >>> run.extend(trace.recorder().events("schedule"))
    """

    def __init__(self, scheduler: str = "") -> None:
        self.scheduler = scheduler
        self.steps: list[StepRecord] = []
        self.dropped = 0
        self._lock = threading.Lock()

    def kept(self) -> tuple[int, list[StepRecord]]:
        """`dropped`, and a copy of `steps` of the same moment."""
        with self._lock:
            return self.dropped, self.steps[:]

    def add(self, event: Event) -> bool:
        """Whether an event is a step of the scheduler, which is the last one then.

        Args:
            event: An event of any kind.
        """
        if event.kind != KIND:
            return False
        if self.scheduler and event.data.get("scheduler") != self.scheduler:
            return False
        self._append(StepRecord.of(event.data))
        return True

    def extend(self, events: Iterable[Event]) -> None:
        """Adds the events that are steps of the scheduler.

        Args:
            events: Events of any kind.
        """
        for event in events:
            self.add(event)

    def _append(self, step: StepRecord) -> None:
        with self._lock:
            self.steps.append(step)
            many = len(self.steps) - MOST_KEPT
            if many > 0:
                del self.steps[:many]
                self.dropped += many

    def save(self, path: str | Path) -> Path:
        """Writes the steps to a file, a line of JSON each; returns its path.

        Args:
            path: The file, which is replaced if it is there.

        Raises:
            FileError: ML001, ML003 (an OSError), it cannot be written.
        """
        lines = [json.dumps(_FORMAT), *(json.dumps(step.data()) for step in self.kept()[1])]
        return files.write_text(path, "\n".join(lines) + "\n", "the run")

    @classmethod
    def load(cls, path: str | Path) -> ScheduleRun:
        """The run in a file that `save` wrote.

        Args:
            path: The file.

        Raises:
            DocumentError: ML477 (a ValueError), it holds something else.
            FileError: ML001, ML002 (an OSError), it cannot be read.
        """
        first, *lines = files.read_text(path, "the run", MOST_BYTES).splitlines() or [""]
        if first != json.dumps(_FORMAT):
            raise DocumentError(
                "ML477",
                f"{visible(str(path))} is no recorded run of a scheduler: a first line "
                f"{json.dumps(_FORMAT)} expected ≠ {visible(first[:60])!r}",
                fix="pass a file that ScheduleRun.save wrote",
            )
        run = cls()
        for number, line in enumerate(lines, 2):
            run._append(_read(line, path, number))
        return run

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"ScheduleRun({len(self.steps)} steps)"


def _read(line: str, path: Any, number: int) -> StepRecord:
    """The step of a line.

    Raises:
        DocumentError: ML477, the line is no step.
    """
    import msgspec

    try:
        return msgspec.convert(json.loads(line), StepRecord)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise DocumentError(
            "ML477",
            f"line {number} of {visible(str(path))} is no step of a scheduler",
            why=[visible(str(error))],
            fix="pass a file that ScheduleRun.save wrote",
        ) from error


__all__ = ["MOST_KEPT", "ScheduleRun"]
