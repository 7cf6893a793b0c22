"""``BoardView``: the steps of a scheduler as they happen, and again later."""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from maxlab import trace
from maxlab.engine.times import plural
from maxlab.entrypoints.llm import LLM
from maxlab.errors import InputTypeError, MaxlabError, shown
from maxlab.lab import bundle
from maxlab.lab.board.drawn import drawn
from maxlab.lab.board.facts import RunFacts
from maxlab.lab.board.run import ScheduleRun
from maxlab.lab.mime import forms_of
from maxlab.lab.protocol import reader
from maxlab.lab.widget import loader
from maxlab.pipelines.lib.scheduler import StepRecord, TextGenerationScheduler

PERIOD_S = 0.2
"""Seconds between two pictures of a run that goes on, at least."""


class BoardView(anywidget.AnyWidget):
    """The board of a scheduler: who waits, who is in each batch, pages, and speed.

    The slider goes back to any step; at its end it follows the run. A scheduler can be paused and
    taken step by step, by buttons or by methods; a recorded run is replayed.

    Args:
        run: The steps.
        owner: A scheduler or an `LLM` that can be paused, if there is one.
        live: Whether steps of the event stream are added.

    Attributes:
        run: The steps, which can be saved.
        position: The number of steps that are shown, from the beginning of those that are kept;
            set it to go to a step.
        count: The number of steps.
    """

    _esm = loader()

    kind = traitlets.Unicode("board").tag(sync=True)
    page = traitlets.Unicode("").tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)
    count = traitlets.Int(0).tag(sync=True)
    is_live = traitlets.Bool(False).tag(sync=True)
    can_control = traitlets.Bool(False).tag(sync=True)
    is_paused = traitlets.Bool(False).tag(sync=True)
    problem = traitlets.Unicode("").tag(sync=True)
    revision = traitlets.Int(0).tag(sync=True)

    def __init__(self, run: ScheduleRun, owner: Any = None, *, live: bool = False) -> None:
        self.run = run
        self._controls = owner
        self._drawing = threading.RLock()
        self._waking = threading.Lock()
        self._pending: threading.Timer | None = None
        self._is_moving = False
        self._facts = RunFacts()
        self._dropped = self._known = run.dropped
        super().__init__(
            is_live=live,
            can_control=owner is not None,
            is_paused=bool(getattr(owner, "is_paused", False)),
        )
        self.on_msg(self._received)
        self.observe(self._moved, "position")
        self.refresh()
        if live:
            trace.recorder().listen(self._hear)

    def close(self) -> None:
        """Takes the board off every page, and lets it follow nothing any more."""
        trace.recorder().unlisten(self._hear)
        with self._waking:
            if self._pending is not None:
                self._pending.cancel()
        super().close()

    # ------------------------------------------------------------ what is shown
    def _hear(self, event: trace.Event) -> None:
        """Adds a step, and draws it soon."""
        if not self.run.add(event):
            return
        with self._waking:
            if self._pending is None:
                self._pending = threading.Timer(PERIOD_S, self._follow)
                self._pending.daemon = True
                self._pending.start()

    def _follow(self) -> None:
        """Draws the steps that have come."""
        with self._waking:
            self._pending = None
        self.refresh()

    def refresh(self) -> None:
        """Draws the newest steps at once, where the slider is at its end."""
        with self._drawing:
            # Whoever else has the scheduler may have paused it.
            self.is_paused = bool(getattr(self._controls, "is_paused", self.is_paused))
            follows = self.position >= self.count
            dropped, steps = self.run.kept()
            # The step that is shown stays, though there are fewer before it.
            moved, self._dropped = dropped - self._dropped, dropped
            stays = min(max(self.position - moved, 1), len(steps))
            self._draw(steps, len(steps) if follows else stays)

    def _moved(self, _: Any) -> None:
        with self._drawing:
            if not self._is_moving:
                dropped, steps = self.run.kept()
                self._dropped = dropped
                self._draw(steps, min(max(self.position, 0), len(steps)))

    def _draw(self, steps: list[StepRecord], position: int) -> None:
        """Draws the first of some steps."""
        shown = steps[:position]
        self._is_moving = True
        try:
            with self.hold_sync():
                self.count, self.position = len(steps), position
                self.page = drawn(shown, self._state(), self._facts_of(shown))
                self.revision += 1
        finally:
            self._is_moving = False

    def _facts_of(self, shown: list[StepRecord]) -> RunFacts:
        """The facts of the steps that are shown, which are added to those that were."""
        wanted = self._dropped + len(shown)
        if not self._dropped <= self._known <= wanted:
            self._facts, self._known = RunFacts(), self._dropped
        for step in shown[self._known - self._dropped :]:
            self._facts.take(step)
        self._known = wanted
        return self._facts

    def _state(self) -> str:
        if self.is_paused:
            return "paused"
        behind = self.count - self.position
        if self.is_live:
            return "live" if behind <= 0 else f"{plural(behind, 'step')} before the last one"
        return "replay"

    # ------------------------------------------------------------ the scheduler
    def pause(self) -> None:
        """Lets the scheduler take no step until `resume`.

        Raises:
            InputTypeError: ML478 (a TypeError), a recorded run is shown.
            ExecutionError: ML142 (a RuntimeError), the process of the model has ended.
        """
        self._controlled().pause()
        self._set_paused(True)

    def resume(self) -> None:
        """Lets the scheduler take steps again.

        Raises:
            InputTypeError, ExecutionError: As by `pause`.
        """
        self._controlled().resume()
        self._set_paused(False)

    def step(self) -> None:
        """Lets the scheduler take one step, if it has something to do.

        Raises:
            InputTypeError, ExecutionError: As by `pause`.
        """
        owner = self._controlled()
        if not isinstance(owner, TextGenerationScheduler):
            owner.step()
        elif owner.has_work:
            owner.step()
            self.refresh()

    def _controlled(self) -> Any:
        if self._controls is None:
            raise InputTypeError(
                "ML478",
                "a scheduler or an LLM expected ≠ a recorded run, which nobody can pause",
                fix="show the scheduler itself: scheduler_board(scheduler)",
            )
        return self._controls

    def _set_paused(self, is_paused: bool) -> None:
        self.is_paused = is_paused
        self.refresh()

    def _received(self, _widget: object, content: Any, _buffers: object) -> None:
        """Does what a button asks for, on any thread; what fails is said beside the buttons."""
        try:
            message = reader.board_message(content)
            if message["type"] == "need_bundle":
                self.send(*bundle.message())
                return
            {"pause": self.pause, "resume": self.resume, "step": self.step}[message["action"]]()
            problem = ""
        except Exception as error:  # a page can only be told, and the kernel must go on
            trace.emit("warning", "board", message=str(error), request=str(content)[:200])
            problem = error.what if isinstance(error, MaxlabError) else str(error)
        with self.hold_sync():
            self.problem = problem
            self.revision += 1

    # ------------------------------------------------------------ forms
    def __repr__(self) -> str:
        return f"BoardView({'live' if self.is_live else 'replay'})"

    def _repr_mimebundle_(
        self,
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        **_: Any,
    ) -> Any:
        return forms_of(
            include,
            exclude,
            text=self.__repr__,
            page=lambda: self.page,
            view=lambda: self,
            still=True,
        )


def scheduler_board(source: Any = None) -> BoardView:
    """The board of a scheduler, live; or of a recorded run, replayed.

    As the last expression of a cell it is drawn there. Steps from before are on it too, as far as
    the event stream still has them.

    Args:
        source: A `TextGenerationScheduler` or an `LLM`; a `ScheduleRun`, or the path of a file that
            `ScheduleRun.save` wrote; None shows the steps of all schedulers of this process.

    Raises:
        InputTypeError: ML478 (a TypeError), ``source`` is none of these.
        DocumentError: ML477 (a ValueError), the file holds something else.
        FileError: ML001, ML002 (an OSError), the file cannot be read.

    Example:
        >>> from maxlab.lab.board import ScheduleRun, scheduler_board
        >>> scheduler_board(ScheduleRun())
        BoardView(replay)
    """
    if isinstance(source, (str, Path)):
        source = ScheduleRun.load(source)
    if isinstance(source, ScheduleRun):
        return BoardView(source)
    if source is not None and not isinstance(source, (TextGenerationScheduler, LLM)):
        raise InputTypeError(
            "ML478",
            f"a scheduler, an LLM, a recorded run or its path expected ≠ {shown(source)} given",
            fix="write scheduler_board(scheduler)",
        )
    run = ScheduleRun("" if source is None else source.name)
    run.extend(trace.recorder().events())
    return BoardView(run, source, live=True)


__all__ = ["BoardView", "scheduler_board"]
