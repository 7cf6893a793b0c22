"""Folders of tiny models in 8-bit floats, in the formats of publishers, and what they compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.pipelines.decoders.tiny import decoder_folder

SIZES: dict[str, Any] = {
    "vocab_size": 251,
    "hidden_size": 64,
    "intermediate_size": 80,
    "initializer_range": 0.15,
}
BLOCK = 32


def _tensor(strategy: str, **more: Any) -> dict[str, Any]:
    return {"num_bits": 8, "type": "float", "symmetric": True, "strategy": strategy, **more}


def _compressed(weights: str, inputs: str, dynamic: bool) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": _tensor(weights, dynamic=False),
                "input_activations": _tensor(inputs, dynamic=dynamic),
            }
        },
    }


FORMATS: dict[str, dict[str, Any]] = {
    "static": _compressed("tensor", "tensor", False),
    "channels": _compressed("channel", "token", True),
    "blocks": {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [BLOCK, BLOCK],
    },
    "fbgemm": {
        "quant_method": "fbgemm_fp8",
        "activation_scale_ub": 1.5,
        "modules_to_not_convert": [
            *(f"model.layers.0.self_attn.{name}_proj" for name in "qkvo"),
            "lm_head",
        ],
    },
}
"""``quantization_config`` of config.json, by what it says of scales."""


def _rounded(x: Any, scale: Any) -> Any:
    """The codes of ``x`` over ``scale``."""
    import torch

    safe = torch.where(scale == 0, torch.ones(()), scale)
    return (x / safe).clamp(-448, 448).to(torch.float8_e4m3fn)


def _in_blocks(x: Any, scale: Any, block: int = BLOCK) -> Any:
    """The scale of each element of ``x``, where each block has one."""
    wide = scale.repeat_interleave(block, -2).repeat_interleave(block, -1)
    return wide[..., : x.shape[-2], : x.shape[-1]]


def _weight(kind: str, weight: Any) -> tuple[Any, Any, Any]:
    """The codes of a weight, its scales as a file has them, and those of each element."""
    import torch

    if kind == "static":
        scale = weight.abs().max() / 448
        return _rounded(weight, scale), scale.reshape(1), scale
    if kind != "blocks":
        scale = weight.abs().amax(-1, keepdim=True) / 448
        return _rounded(weight, scale), scale, scale
    rows, columns = (-(-size // BLOCK) for size in weight.shape)
    scale = torch.stack([
        torch.stack([
            weight[BLOCK * r : BLOCK * (r + 1), BLOCK * c : BLOCK * (c + 1)].abs().max() / 448
            for c in range(columns)
        ])
        for r in range(rows)
    ])  # fmt: skip
    each = _in_blocks(weight, scale)
    return _rounded(weight, each), scale, each


def _input(kind: str, x: Any, static: Any) -> Any:
    """What is left of ``x`` once it is rounded."""
    import torch

    dtype, x = x.dtype, x.float()
    if kind == "static":
        scale = static
    elif kind == "blocks":
        parts = [part.abs().amax(-1, keepdim=True) / 448 for part in x.split(BLOCK, -1)]
        scale = torch.cat([
            part.expand(*x.shape[:-1], min(BLOCK, x.shape[-1] - BLOCK * n))
            for n, part in enumerate(parts)
        ], -1)  # fmt: skip
    else:
        top = x.abs().amax(-1, keepdim=True)
        scale = (top.clamp(max=1.5) if kind == "fbgemm" else top) / 448
    return (_rounded(x, scale).float() * scale).to(dtype)


def float8_folder(
    folder: Path, kind: str, dtype: Any = None, name: str = "LlamaForCausalLM"
) -> Any:
    """Writes a tiny model in the format ``kind``; returns the model of transformers with the
    weights that the codes stand for, which rounds inputs as the format says.

    Args:
        folder: Where it is written.
        kind: A key of ``FORMATS``.
        dtype: The dtype of weights that are not of 8 bits; torch.float32 when left out.
        name: The class of transformers.
    """
    import torch
    from safetensors.torch import save_file

    model = decoder_folder(folder, name, **SIZES)
    state = {key: x.to(dtype or torch.float32) for key, x in model.state_dict().items()}
    kept = FORMATS[kind].get("modules_to_not_convert", [])
    number = 0
    for full, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or full == "lm_head" or full in kept:
            continue
        number += 1
        codes, scale, each = _weight(kind, module.weight.data)
        module.weight.data = codes.float() * each
        state[f"{full}.weight"] = codes
        last = "weight_scale_inv" if kind == "blocks" else "weight_scale"
        state[f"{full}.{last}"] = scale.float().contiguous()
        static = torch.tensor([0.004 + 0.0003 * number])
        if kind == "static":
            state[f"{full}.input_scale"] = static
        module.register_forward_pre_hook(
            lambda _, args, static=static: (_input(kind, args[0], static), *args[1:])
        )
    for old in folder.glob("*.safetensors"):
        old.unlink()
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = FORMATS[kind]
    (folder / "config.json").write_text(json.dumps(config))
    return model


__all__ = ["FORMATS", "float8_folder"]
