"""Progress of what a cell does, told to JupyterLab, which shows it below the cell.

Messages go to the page beside the cell's outputs, as those of a comm that nobody has opened: the
extension of maxlab reads them, everybody else passes over them, and nothing is saved with the
notebook. A wish to cancel comes over a comm of its own, which JupyterLab serves from a subshell
while the cell runs.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from maxlab import trace
from maxlab.ir.cells import kernel
from maxlab.lab.errands import state_of
from maxlab.lab.protocol import PROTOCOL, CellProgress, reader
from maxlab.progress import Work

CHANNEL = "maxlab.progress"
"""The comm that messages name."""
TARGET = "maxlab.cancel"
"""Name of the comms that pages open to cancel."""

_numbers = count(1)
_told: dict[int, Work] = {}


def told(work: Work) -> None:
    """Tell the page of ``work``, which a cell of this kernel does; a listener."""
    own = kernel()
    if own is None:
        return
    number = next((n for n, known in _told.items() if known is work), 0)
    if not number:
        if work.is_over or not _is_of_cell(own):
            return
        number = next(_numbers)
        _told[number] = work
        own.comm_manager.register_target(TARGET, _asked)
    if work.is_over:
        del _told[number]
    message: CellProgress = {"protocol": PROTOCOL, "work": number, **state_of(work)}
    own.session.send(
        own.iopub_socket,
        "comm_msg",
        {"comm_id": CHANNEL, "data": message},
        parent=own.get_parent(),
        ident=b"comm-" + CHANNEL.encode(),
    )


def _is_of_cell(kernel: Any) -> bool:
    """Whether what goes on now was asked for by a cell."""
    parent = kernel.get_parent()
    is_run = parent.get("header", {}).get("msg_type") == "execute_request"
    return is_run and not parent.get("content", {}).get("silent", False)


def _asked(comm: Any, message: Any) -> None:
    """Cancel what the page names; called on a subshell."""
    try:
        wish = reader.cell_cancel(message["content"]["data"])
        work = _told.get(wish["work"])
        if work is not None:
            work.cancel()
    except Exception as error:  # the page sees that nothing ends, and the kernel must go on
        trace.emit("warning", "cell", message=str(error))
    comm.close()


__all__ = ["CHANNEL", "TARGET", "told"]
