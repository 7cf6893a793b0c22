"""Recording a whole session: CPU, memory, GPUs, and what kernels did meanwhile.

:class:`Monitor` owns the process that samples; :class:`Recording` is what it wrote. The numbers of
:mod:`maxlab.diagnostics.gpu` are among the columns; what is beyond them (clocks, power,
temperature, links, processes) is only here.

``_process``    the process: samples on a grid, into a ring of files
``_users``      what each process of this user takes, and which kernel started it
``_host``, ``_nvidia``, ``_amd``, ``_gpus``    where its numbers come from
``line_format`` the lines of a recording, and their versions
``decoder``     what the lines say, kept in little memory
``segments``    bounded, append-only files, and reading them while they grow
``places``      whose recording it is, where it lies, who records, and when it may go
``_own``        files that maxlab keeps for itself, opened through no link
``_settings``   what the user asks a monitor for, checked
``marks``       what a kernel adds: its cells, model runs and memory of tensors
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxlab.diagnostics.monitor.monitor import Monitor

if TYPE_CHECKING:
    from maxlab.diagnostics.monitor.recording import Mark, Recording

__all__ = ["Mark", "Monitor", "Recording"]


def __getattr__(name: str) -> Any:
    # NumPy takes a tenth of a second to import, and the monitor's process does without.
    if name in ("Mark", "Recording"):
        from maxlab.diagnostics.monitor import recording

        return getattr(recording, name)
    raise AttributeError(f"module 'maxlab.diagnostics.monitor' has no attribute {name!r}")
