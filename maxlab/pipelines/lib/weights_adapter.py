"""The type of functions that convert the weights of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from maxlab.graph.weights import WeightData

WeightsAdapter: TypeAlias = Callable[..., dict[str, WeightData]]
"""A function of the weights of a checkpoint by name, and of keywords such as the configuration. It
returns weights by the names that a model has, in the layout that the model reads."""

__all__ = ["WeightsAdapter"]
