"""maxlab: build tensor graphs, see them, compile them to C, and read on the graph what each
operation cost.

``import maxlab`` does no work: it compiles nothing, starts no process and touches no device.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import Any

from maxlab import progress as _progress
from maxlab import trace as _trace

__version__ = "0.1.0"

# What stands at the front door, each imported when it is first asked for: name -> module:attribute.
_LAZY = {
    "dashboard": "maxlab.lab.dashboard:dashboard",
    "doctor": "maxlab.lab.doctor:doctor",
    "record": "maxlab.analysis.recording:record",
    "profile": "maxlab.torch.front:profile",
    "compile_report": "maxlab.analysis.compile_report:compile_report",
    "machine": "maxlab.analysis.machine:machine",
    "roofline": "maxlab.analysis.roofline:roofline",
    "advice": "maxlab.analysis.advice:advice",
    "experiments": "maxlab.analysis.advice:experiments",
    "try_action": "maxlab.analysis.trial:try_action",
    "memory": "maxlab.analysis.memory:memory",
    "stages": "maxlab.analysis.stages:stages",
    "why": "maxlab.analysis.fusion:why",
    "diff": "maxlab.analysis.runs:diff",
    "load_run": "maxlab.analysis.runs:load_run",
    "compare": "maxlab.analysis.check:compare",
    "values": "maxlab.analysis.check:values",
    "watch": "maxlab.analysis.check:watch",
    "tripwire": "maxlab.analysis.check:tripwire",
    "first_nonfinite": "maxlab.analysis.check:first_nonfinite",
    "sweep": "maxlab.analysis.runs:sweep",
}

# What references, models and profiles offer of the packages above them: see ``trace.reading``.
_READINGS: dict[str, str] = {
    "checked_document": "maxlab.lab.documents:checked_document",
    "document_of": "maxlab.lab.documents:document_of",
    "open_device": "maxlab.driver.accelerator:open_device",
    "edit_kernel": "maxlab.analysis.edit:edit_kernel",
    "find": "maxlab.lab.query:find",
    "remember_run": "maxlab.analysis.runs.history:remember",
    "save_run": "maxlab.analysis.runs:save_run",
    "to_svg": "maxlab.lab.export:to_svg",
    "timeline": "maxlab.analysis.timeline:of_profile",
}

__all__ = ["__version__", "load_ipython_extension", *_LAZY]  # noqa: PLE0604


def _found(place: str) -> Any:
    """The object at ``module:attribute``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _load_lab() -> Any:
    from maxlab.lab import display

    return display.mimebundle


def _load_export() -> Any:
    from maxlab.lab import export

    return export.to_html


def _tell_cell(work: Any) -> None:
    _found("maxlab.lab.cells:told")(work)


def __getattr__(name: str) -> Any:
    place = _LAZY.get(name)
    if place is None:
        raise AttributeError(f"module 'maxlab' has no attribute {name!r}")
    return _found(place)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


def load_ipython_extension(shell: Any) -> None:
    """Add maxlab's magics to an IPython shell: what ``%load_ext maxlab`` does."""
    from maxlab.lab.cuda_sim import magic as cuda_sim
    from maxlab.lab.kernel_magic import magic as kernel
    from maxlab.lab.maxprof import magic as maxprof

    cuda_sim.register(shell)
    kernel.register(shell)
    maxprof.register(shell)


_trace.set_display_hook(_load_lab)
if sys.stderr is not None and sys.stderr.isatty():
    _progress.listen(_progress.TerminalLine())
if "ipykernel" in sys.modules:
    _progress.listen(_tell_cell)
_trace.set_export_hook(_load_export)
for _name, _place in _READINGS.items():
    _trace.set_reading(_name, partial(_found, _place))
