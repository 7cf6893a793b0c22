"""Folders of adapters as ``peft`` writes them, and what transformers makes of their matrices."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


def adapter_folder(
    folder: Path,
    model: Any,
    seed: int,
    rank: int,
    alpha: float,
    targets: tuple[str, ...] = ATTENTION + MLP,
    **entries: Any,
) -> Any:
    """Writes a random adapter of a model of transformers; returns the model with it merged.

    The merged weight of a layer is ``W + B @ A * alpha / rank``, of which ``entries`` of
    adapter_config.json may say another rank or alpha for a layer.
    """
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(seed)
    merged = copy.deepcopy(model)
    weights: dict[str, Any] = {}
    ranks, alphas = entries.get("rank_pattern", {}), entries.get("alpha_pattern", {})
    for path, layer in merged.named_modules():
        name = path.rpartition(".")[2]
        if name not in targets:
            continue
        own = ranks.get(name, rank)
        a = torch.randn(own, layer.in_features, generator=generator) * 0.15
        b = torch.randn(layer.out_features, own, generator=generator) * 0.15
        factor = alphas.get(name, alpha) / (own**0.5 if entries.get("use_rslora") else own)
        layer.weight.data += (b @ a) * factor
        for letter, matrix in (("A", a), ("B", b)):
            weights[f"base_model.model.{path}.lora_{letter}.weight"] = matrix.contiguous()
    folder.mkdir(parents=True)
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "base",
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.05,
        "target_modules": list(targets),
        "bias": "none",
        "fan_in_fan_out": False,
        "use_dora": False,
        "use_rslora": False,
        "modules_to_save": None,
    }
    (folder / "adapter_config.json").write_text(json.dumps({**config, **entries}))
    return merged


__all__ = ["ATTENTION", "MLP", "adapter_folder"]
