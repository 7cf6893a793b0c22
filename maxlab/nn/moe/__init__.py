"""Mixtures of experts: perceptrons of which each token takes a few, chosen by a gate."""

from __future__ import annotations

from maxlab.nn.moe.fp8 import MoEFp8
from maxlab.nn.moe.gate import MoEGate
from maxlab.nn.moe.moe import MoE
from maxlab.nn.moe.routing import Routing, tokens_per_expert

__all__ = ["MoE", "MoEFp8", "MoEGate", "Routing", "tokens_per_expert"]
