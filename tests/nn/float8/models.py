"""Small models of the three formats: texts of config.json as publishers write them, and weights."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np

from maxlab.graph.weights import WeightData

F8, BF16, F32 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.float32

FBGEMM = """{
  "architectures": ["LlamaForCausalLM"],
  "num_hidden_layers": 3,
  "quantization_config": {
    "activation_scale_ub": 1200.0,
    "modules_to_not_convert": [
      "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj",
      "model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.o_proj",
      "model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.k_proj",
      "model.layers.1.self_attn.v_proj", "model.layers.1.self_attn.o_proj",
      "model.layers.2.self_attn.q_proj", "model.layers.2.self_attn.k_proj",
      "model.layers.2.self_attn.v_proj", "model.layers.2.self_attn.o_proj",
      "model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj",
      "model.layers.0.mlp.down_proj", "lm_head"
    ],
    "quant_method": "fbgemm_fp8"
  },
  "torch_dtype": "bfloat16"
}"""

BLOCKS = """{
  "architectures": ["Qwen3ForCausalLM"],
  "num_hidden_layers": 2,
  "quantization_config": {
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "modules_to_not_convert": ["lm_head", "model.layers.1"],
    "quant_method": "fp8",
    "weight_block_size": [128, 128]
  }
}"""

PER_TOKEN = """{
  "architectures": ["LlamaForCausalLM"],
  "num_hidden_layers": 12,
  "quantization_config": {
    "config_groups": {
      "group_0": {
        "input_activations": {
          "actorder": null, "block_structure": null, "dynamic": true, "group_size": null,
          "num_bits": 8, "observer": null, "observer_kwargs": {}, "strategy": "token",
          "symmetric": true, "type": "float"
        },
        "output_activations": null,
        "targets": ["Linear"],
        "weights": {
          "actorder": null, "block_structure": null, "dynamic": false, "group_size": null,
          "num_bits": 8, "observer": "minmax", "observer_kwargs": {}, "strategy": "channel",
          "symmetric": true, "type": "float"
        }
      }
    },
    "format": "float-quantized",
    "global_compression_ratio": null,
    "ignore": ["lm_head", "re:model\\\\.layers\\\\.1\\\\..*"],
    "kv_cache_scheme": null,
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
    "sparsity_config": {},
    "version": "0.9.0"
  }
}"""

STATIC = """{
  "num_hidden_layers": 1,
  "quantization_config": {
    "config_groups": {
      "group_0": {
        "input_activations": {
          "dynamic": false, "num_bits": 8, "strategy": "tensor", "symmetric": true, "type": "float"
        },
        "targets": ["Linear"],
        "weights": {
          "dynamic": false, "num_bits": 8, "strategy": "tensor", "symmetric": true, "type": "float"
        }
      }
    },
    "format": "naive-quantized",
    "ignore": ["lm_head"],
    "quant_method": "compressed-tensors"
  }
}"""

TEXTS = {"fbgemm": FBGEMM, "blocks": BLOCKS, "per token": PER_TOKEN, "static": STATIC}

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


def config(name: str) -> dict[str, Any]:
    """The config.json ``name``, as a dict of its own."""
    read: dict[str, Any] = json.loads(TEXTS[name])
    return read


class Model:
    """Weights by name, added a projection at a time."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.weights: dict[str, WeightData] = {}

    def put(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        """Adds a weight of ones."""
        full = f"{self.prefix}{name}"
        self.weights[full] = WeightData.from_numpy(np.ones(shape, dtype), full)

    def layer(
        self,
        number: int,
        part: str,
        scale: tuple[int, ...] | None,
        names: tuple[str, ...] = (),
        last: str = "weight_scale",
        dtype: Any = F32,
    ) -> Model:
        """Adds the projections of a part of a layer: in float8 with scales of a shape, or in
        bfloat16 without."""
        for name in names or (MLP if part == "mlp" else ATTENTION):
            stem = f"layers.{number}.{part}.{name}"
            self.put(f"{stem}.weight", (256, 200), BF16 if scale is None else F8)
            if scale is not None:
                self.put(f"{stem}.{last}", scale, dtype)
        return self


__all__ = ["ATTENTION", "BF16", "F32", "F8", "MLP", "Model", "config"]
