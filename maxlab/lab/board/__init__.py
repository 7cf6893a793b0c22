"""The board of a scheduler: its queues, batches and pages step by step, live or replayed.

``run``     the steps of schedulers, of the event stream or of a file
``facts``   facts of the requests of a run, added up from its steps
``drawn``   a moment of a run as HTML
``widget``  `BoardView`, which follows a run, and pauses and steps a scheduler
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxlab.errors import missing

if TYPE_CHECKING:
    from maxlab.lab.board.run import ScheduleRun
    from maxlab.lab.board.widget import BoardView, scheduler_board

__all__ = ["BoardView", "ScheduleRun", "scheduler_board"]


def __getattr__(name: str) -> Any:
    # ipywidgets takes a tenth of a second to import.
    if name == "ScheduleRun":
        from maxlab.lab.board.run import ScheduleRun

        return ScheduleRun
    if name in __all__:
        from maxlab.lab.board import widget

        return getattr(widget, name)
    raise missing("maxlab.lab.board", name, __all__)
