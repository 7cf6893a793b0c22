"""The dashboard: a recording of the machine as live charts, or a saved one replayed.

``store``    a recording in memory, handed to views piece by piece
``widget``   ``DashboardView``, the charts below a cell
``picture``  the same as a still picture, for pages without a script
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab.errors import ArgumentTypeError, missing, shown
from maxlab.habits import fitting

if TYPE_CHECKING:
    from maxlab.diagnostics import Recording
    from maxlab.lab.dashboard.widget import DashboardView

__all__ = ["DashboardView", "dashboard"]


@fitting("ML975", "maxlab.dashboard()")
def dashboard(
    replay: str | Path | Recording | None = None, *, height: int = 0, theme: str = "auto"
) -> DashboardView:
    """The dashboard of this session, live; or, with ``replay``, of a saved recording.

    As the last expression of a cell it is drawn there. It shows what the session's monitor
    records, from its start on, and has buttons to start and stop it; without ``start`` nothing is
    sampled. A replay needs no GPU and no monitor.

    Args:
        replay: A ``.mlrec`` file, or a ``Recording``; left out, this session.
        height: In CSS pixels; 0 takes what the charts need.
        theme: ``"auto"`` follows the page; ``"light"`` or ``"dark"``.

    Raises:
        DocumentError: ML830 (a ValueError), the file is not a recording; ML834, it would take more
            memory than its size allows for.
        FileError: ML001 or ML002 (an OSError), it is no regular file, or cannot be read.

    Example:
        >>> import maxlab
        >>> maxlab.dashboard()
        Dashboard(live)
    """
    from maxlab.diagnostics import Recording
    from maxlab.lab.dashboard.widget import DashboardView

    if replay is not None and not isinstance(replay, (str, Path, Recording)):
        raise ArgumentTypeError(
            "ML975",
            f"dashboard takes a recording or its path, got {shown(replay)}",
            fix="write maxlab.dashboard(), or maxlab.dashboard('run.mlrec')",
        )
    return DashboardView(replay, height=height, theme=theme)


def __getattr__(name: str) -> Any:
    # ipywidgets takes a tenth of a second to import.
    if name == "DashboardView":
        from maxlab.lab.dashboard.widget import DashboardView

        return DashboardView
    raise missing("maxlab.lab.dashboard", name, __all__)
