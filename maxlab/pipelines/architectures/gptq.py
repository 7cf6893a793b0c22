"""Checkpoints that GPTQ packed, as AutoGPTQ and GPTQModel write them: what layers need of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxlab.errors import WeightError
from maxlab.graph.quantization import QuantizationConfig
from maxlab.graph.weights import WeightData
from maxlab.nn.gptq import sorted_by_group

_PARTS = ("qweight", "qzeros", "scales", "g_idx")


def gptq_of(config: QuantizationConfig, state: Mapping[str, WeightData]) -> dict[str, WeightData]:
    """The weights by the names of ``nn.GPTQLinear``.

    Zero points are looked at and left out: those of symmetric weights are the middle of the range.
    With ``desc_act`` the rows of words are sorted by their groups, a copy of each weight; others
    are not copied.

    Args:
        config: How the checkpoint was packed.
        state: The weights by the names of ``nn.transformer.Transformer``, with the four parts of
            each layer: ``qweight``, ``qzeros``, ``scales``, ``g_idx``.

    Raises:
        WeightError: ML524, a layer whose zero points or groups are others than the config says.
        ModuleError: ML799, a ``g_idx`` of another length.
    """
    made = {}
    for name, weight in state.items():
        layer, _, part = name.rpartition(".")
        if part not in _PARTS or f"{layer}.qweight" not in state:
            made[name] = weight
        elif part == "qzeros":
            _require_middle(layer, np.asarray(weight.data), config)
        elif part == "scales":
            made[name] = weight
        elif part == "qweight":
            groups = state.get(f"{layer}.g_idx")
            if groups is not None:
                _require_groups(layer, np.asarray(groups.data), config)
            if not config.desc_act:
                made[name] = weight
                continue
            if groups is None:
                raise _unlike(layer, "has no g_idx, and the config says desc_act")
            words, order = sorted_by_group(
                np.asarray(weight.data), np.asarray(groups.data), config.bits
            )
            for each, array in ((name, words), (f"{layer}.perm_idx", order)):
                made[each] = WeightData.from_numpy(array, each)
    return made


def is_scale(name: str) -> bool:
    """Whether a weight is the scales of words, which keep their dtype.

    Args:
        name: The name of the weight.
    """
    return name.endswith(".scales")


def _require_middle(layer: str, zeros: np.ndarray[Any, Any], config: QuantizationConfig) -> None:
    """Raises unless all zero points are the middle, or 1 less, as the first format has them."""
    shifts = np.arange(0, 32, config.bits, dtype=np.uint32)
    packed = np.ascontiguousarray(zeros).view(np.uint32)
    found = np.unique(packed[..., None] >> shifts & np.uint32(2**config.bits - 1))
    middle = 2 ** (config.bits - 1)
    if found.tolist() not in ([middle - 1], [middle]):
        shown = ", ".join(map(str, found[:4]))
        raise _unlike(layer, f"has the zero points {shown}, not {middle - 1} or {middle} alone")


def _require_groups(layer: str, groups: np.ndarray[Any, Any], config: QuantizationConfig) -> None:
    """Raises unless every group has as many rows as the config says; without ``desc_act``, rows
    that follow each other."""
    size = len(groups) if config.group_size == -1 else config.group_size
    wanted = np.arange(len(groups)) // size
    if not np.array_equal(np.sort(groups) if config.desc_act else groups, wanted):
        order = "in any order" if config.desc_act else "behind each other"
        raise _unlike(layer, f"has a g_idx that is not groups of {size} rows {order}")


def _unlike(layer: str, what: str) -> WeightError:
    return WeightError(
        "ML524",
        f"{layer}: the layer {what}",
        fix="take a checkpoint that is symmetric, and whose config.json says how it was packed",
    )


__all__ = ["gptq_of", "is_scale"]
