"""Layers that draw tokens: by min-p, and by a target's distribution where a draft proposed some."""

from __future__ import annotations

from maxlab.nn.sampling.min_p import MinPSampler
from maxlab.nn.sampling.rejection import RejectionSampler
from maxlab.nn.sampling.residuals import RejectionSamplerWithResiduals

__all__ = ["MinPSampler", "RejectionSampler", "RejectionSamplerWithResiduals"]
