"""Folders of tiny models as GGUF files, in the names and orders of llama.cpp, and the models of
transformers with the numbers that the blocks stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxlab.opset.quantized import random_blocks
from tests.pipelines.decoders.tiny import decoder_folder

SIZES: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "vocab_size": 300,
}
HEADS, KEYS = 4, 2
KINDS: dict[str, dict[str, str]] = {
    "float32": {"": "F32"},
    "q4_0": {"": "Q4_0"},
    "q4_k": {"": "Q4_K", "v_proj": "Q6_K", "down_proj": "Q6_K", "lm_head": "Q6_K"},
    "q5_k": {"": "Q5_K", "embed_tokens": "Q6_K"},
    "q6_k": {"": "Q6_K"},
}
"""The types of matrices by their names, of each encoding; of others that of ``""``. Those of q4_k
are mixed as in files of Q4_K_M."""
SCALES = {"Q4_0": slice(0, 2), "Q4_K": slice(0, 4), "Q5_K": slice(0, 4), "Q6_K": slice(208, 210)}
"""The bytes of a block that are its factors, in float16."""
PERMUTED = ("llama", "granite", "olmo")
"""What llama.cpp calls the models whose queries and keys it reorders."""


def neighbours(rows: Any, heads: int) -> Any:
    """The rows of queries or keys in the order of those files: pairs beside each other."""
    return rows.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def halves(rows: Any, heads: int) -> Any:
    """The inverse of ``neighbours``."""
    return rows.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _blocks(rng: np.random.Generator, kind: str, rows: int, columns: int) -> tuple[Any, Any]:
    """Random blocks, whose numbers have the standard deviation 0.1, and these numbers."""
    import gguf

    packing = gguf.GGMLQuantizationType[kind]
    elements, nbytes = gguf.GGML_QUANT_SIZES[packing]
    made = random_blocks(rng, kind, (rows, columns // elements)).reshape(rows, -1)
    factor = 0.1 / gguf.quants.dequantize(made, packing).std()
    scales = made.reshape(rows, -1, nbytes)[..., SCALES[kind]]
    scales[...] = (scales.copy().view(np.float16) * np.float16(factor)).view(np.uint8)
    return made, gguf.quants.dequantize(made, packing)


def _rounded(kind: str, x: Any) -> Any:
    """The input ``x`` of a product with a matrix of the type ``kind``, as ggml rounds it."""
    import gguf
    import torch

    if kind == "Q4_0":  # meets numbers of Q8_0
        packing = gguf.GGMLQuantizationType.Q8_0
        packed = gguf.quants.quantize(x.numpy(), packing)
        return torch.from_numpy(gguf.quants.dequantize(packed, packing)).reshape(x.shape)
    parts = x.unflatten(-1, (-1, 256))  # Q8_K: the largest of a block becomes -127
    at = parts.abs().argmax(-1, keepdim=True)
    inverse = -127 / parts.gather(-1, at)
    return ((parts * inverse).round().clamp(-127, 127) / inverse).flatten(-2)


def gguf_folder(
    folder: Path, name: str, kind: str, *, add: tuple[str, ...] = (), **entries: Any
) -> Any:
    """Writes config.json and a GGUF file of a tiny model; returns the model of transformers.

    Inputs of its products are rounded as ggml rounds them for the encoding.

    Args:
        folder: Where they are written.
        name: The class of transformers.
        kind: A key of ``KINDS``.
        add: Names of tables that the file has, and nobody reads.
        **entries: Further entries of config.json.
    """
    import gguf
    import torch

    entries = {**SIZES, "num_attention_heads": HEADS, "num_key_value_heads": KEYS, **entries}
    model = decoder_folder(folder, name, **entries)
    (folder / "model.safetensors").unlink()
    arch = {"gemma3_text": "gemma3", "mistral": "llama"}.get(
        model.config.model_type, model.config.model_type
    )
    number = next(one for one, text in gguf.MODEL_ARCH_NAMES.items() if text == arch)
    known = gguf.get_tensor_name_map(number, entries["num_hidden_layers"])
    rng = np.random.default_rng(2)
    writer = gguf.GGUFWriter(folder / f"model-{kind}.gguf", arch)
    heads = {"q_proj": HEADS, "k_proj": KEYS} if arch in PERMUTED else {}
    types: dict[str, str] = {}
    with torch.no_grad():
        for full, weight in model.named_parameters():
            path = known.get_name(full, try_suffixes=(".weight", ".bias"))
            assert path is not None, full
            layer = full.split(".")[-2]
            turned = heads.get(layer)
            if weight.dim() == 1:
                vector = weight if turned is None else neighbours(weight, turned)
                writer.add_tensor(path, (vector + (arch == "gemma3")).numpy())  # norms + 1
                continue
            types[full.removesuffix(".weight")] = packing = KINDS[kind].get(layer, KINDS[kind][""])
            if packing == "F32":
                matrix = weight if turned is None else neighbours(weight, turned)
                writer.add_tensor(path, matrix.numpy())
                continue
            blocks, numbers = _blocks(rng, packing, *weight.shape)
            writer.add_tensor(path, blocks, raw_dtype=gguf.GGMLQuantizationType[packing])
            made = torch.from_numpy(numbers)
            weight.copy_(made if turned is None else halves(made, turned))
    for table in add:
        writer.add_tensor(table, np.ones(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    head = types.get("lm_head", types["model.embed_tokens"])
    for full, module in model.named_modules():
        packing = head if full == "lm_head" else types.get(full, "F32")
        if isinstance(module, torch.nn.Linear) and packing not in ("F32", "Q5_K"):
            module.register_forward_pre_hook(
                lambda _, given, packing=packing: (_rounded(packing, given[0]), *given[1:])
            )
    return model


__all__ = ["HEADS", "KEYS", "KINDS", "SIZES", "gguf_folder", "halves", "neighbours"]
