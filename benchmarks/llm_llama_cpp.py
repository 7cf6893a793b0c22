"""The Llama of ``benchmarks.llm`` in llama.cpp, from a GGUF file of float32 made for it."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path

import gguf
import llama_cpp as lc
import numpy as np

from benchmarks.llm_shapes import CASES, Array, Sizes, tokens, weights


def paired(w: Array, heads: int) -> Array:
    """Rows of queries or keys, whose pairs are neighbours: halves become pairs."""
    halves = w.reshape(heads, 2, len(w) // heads // 2, w.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(w.shape))


def write(sizes: Sizes, path: Path) -> None:
    """The weights as a GGUF file without a vocabulary."""
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(4352)
    file.add_embedding_length(sizes.hidden)
    file.add_block_count(sizes.layers)
    file.add_feed_forward_length(sizes.between)
    file.add_head_count(sizes.heads)
    file.add_head_count_kv(sizes.kv_heads)
    file.add_layer_norm_rms_eps(sizes.eps)
    file.add_rope_freq_base(sizes.theta)
    file.add_rope_dimension_count(sizes.dim)
    file.add_vocab_size(sizes.vocab)
    file.add_tokenizer_model("none")
    file.add_file_type(gguf.LlamaFileType.ALL_F32)
    names = {"norm1": "attn_norm", "norm2": "ffn_norm", "out": "attn_output", "down": "ffn_down"}
    for name, w in weights(sizes):
        if "." not in name:
            file.add_tensor({"embed": "token_embd.weight", "norm": "output_norm.weight"}[name], w)
            continue
        _, layer, part = name.split(".")
        at = f"blk.{layer}."
        if part == "qkv":
            wide, narrow = sizes.heads * sizes.dim, sizes.kv_heads * sizes.dim
            q, k, v = np.split(w, [wide, wide + narrow])
            file.add_tensor(at + "attn_q.weight", paired(q, sizes.heads))
            file.add_tensor(at + "attn_k.weight", paired(k, sizes.kv_heads))
            file.add_tensor(at + "attn_v.weight", np.ascontiguousarray(v))
        elif part == "gate_up":
            file.add_tensor(at + "ffn_gate.weight", w[: sizes.between])
            file.add_tensor(at + "ffn_up.weight", w[sizes.between :])
        else:
            file.add_tensor(f"{at}{names[part]}.weight", w)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


class LlamaCpp:
    """The model in llama.cpp, with a float32 cache."""

    def __init__(self, sizes: Sizes, threads: int) -> None:
        self.sizes = sizes
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "llama.gguf"
            write(sizes, path)
            lc.llama_log_set(_quiet, ctypes.c_void_p(0))
            settings = lc.llama_model_default_params()
            settings.use_mmap = False
            self.model = lc.llama_model_load_from_file(str(path).encode(), settings)
        assert self.model, "llama.cpp did not load the file"
        params = lc.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 2304, 2304, 512
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = 0  # GGML_TYPE_F32
        params.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_DISABLED  # it would round to float16
        self.context = lc.llama_init_from_model(self.model, params)
        self.memory = lc.llama_get_memory(self.context)

    def decode(self, ids: Array) -> Array:
        """The logits of the last of ``ids``, which follow what is cached."""
        given = (lc.llama_token * len(ids))(*ids.tolist())
        code = lc.llama_decode(self.context, lc.llama_batch_get_one(given, len(ids)))
        assert code == 0, f"llama_decode: {code}"
        found = lc.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(found, (self.sizes.vocab,)).copy()

    def prepared(self, name: str) -> Callable[[], Array]:
        """The pass of a case, whose cached tokens are in the cache."""
        case = CASES[name]
        (cached,) = case.cached
        lc.llama_memory_clear(self.memory, True)
        if cached:
            self.decode(tokens(self.sizes, cached))
        ids = tokens(self.sizes, cached + case.new)[cached:]

        def run() -> Array:
            lc.llama_memory_seq_rm(self.memory, 0, cached, -1)
            return self.decode(ids)

        return run


@lc.llama_log_callback
def _quiet(level: int, text: bytes, data: int) -> None:
    """Says nothing."""
