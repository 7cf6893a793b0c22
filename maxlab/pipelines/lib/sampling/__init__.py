"""How tokens are drawn: the configuration of the sampler."""

from __future__ import annotations

from maxlab.pipelines.lib.sampling.sampling_config import SamplingConfig

__all__ = ["SamplingConfig"]
