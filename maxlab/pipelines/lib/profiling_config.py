"""The configuration of profiling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from maxlab.engine import GPUProfilingMode
from maxlab.pipelines.lib.max_config import MAXConfig, help_of
from maxlab.pipelines.lib.settings import Kind, member, setting


def _mode() -> Kind:
    """The kind of a mode; the variable may say 0 and 1, as that of maxlab's own profiler does."""
    plain = member(GPUProfilingMode)
    return replace(plain, parse=lambda text: plain.parse({"0": "off", "1": "on"}.get(text, text)))


@dataclass(repr=False)
class ProfilingConfig(MAXConfig):
    """How much is recorded of runs on GPUs.

    Example:
        >>> ProfilingConfig(gpu_profiling="detailed").gpu_profiling
        <GPUProfilingMode.DETAILED: 'detailed'>
    """

    section: ClassVar[str] = "profiling_config"

    gpu_profiling: GPUProfilingMode = setting(
        _mode(),
        GPUProfilingMode.OFF,
        "What is recorded of runs on GPUs: nothing, when each run began and ended, or each kernel.",
        env="MODULAR_ENABLE_PROFILING",
    )

    @staticmethod
    def help() -> dict[str, str]:
        """The settings with their descriptions."""
        return dict(help_of(ProfilingConfig))


__all__ = ["GPUProfilingMode", "ProfilingConfig"]
