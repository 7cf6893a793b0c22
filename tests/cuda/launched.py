"""Launches as a test wants them: `launch_as`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from maxlab.compiler import cached
from maxlab.compiler.plan import GpuLaunch, Step
from maxlab.driver.backend import Properties
from maxlab.engine.launching import device_launch


@dataclass(frozen=True)
class _Changed:
    """A formula, and what a test makes of its launches."""

    usual: Any
    change: Callable[[GpuLaunch], GpuLaunch]
    seen: Callable[[Properties], Properties]


@device_launch.register
def _(formula: _Changed, env: Mapping[str, int], properties: Properties) -> GpuLaunch:
    return formula.change(device_launch(formula.usual, env, formula.seen(properties)))


def launch_as(
    step: Step,
    change: Callable[[GpuLaunch], GpuLaunch] = lambda found: found,
    seen: Callable[[Properties], Properties] = lambda properties: properties,
) -> None:
    """Launch ``step`` from now on as ``change`` makes it of its usual launch, which is that of a
    device with the properties ``seen``."""
    assert step.gpu is not None
    cached.drop(step)
    formula: Any = _Changed(step.gpu.launch, change, seen)
    step.gpu.launch = formula
