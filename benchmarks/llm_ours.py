"""The Llama of ``benchmarks.llm`` in maxlab: over a paged cache, of float32 or of Q4_K weights."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from transformers import LlamaConfig

from benchmarks.llm_shapes import CASES, Array, Case, Sizes, tokens, weights
from maxlab import engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.weights import load_weights
from maxlab.nn import kernels
from maxlab.nn.attention import MHAMaskVariant
from maxlab.nn.kv_cache import KVCacheParams, PagedCacheInputSymbols, PagedCacheValues
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.architectures.decoder_parts import Given
from maxlab.pipelines.architectures.llama import Llama

F32, U32, I64, HOST = DType.float32, DType.uint32, DType.int64, DeviceRef.CPU()
PAGE, LONGEST = 128, 2304
Q4_K = QuantizationEncoding.Q4_K


def params(sizes: Sizes) -> KVCacheParams:
    """The parameters of the cache."""
    return KVCacheParams(F32, n_kv_heads=sizes.kv_heads, head_dim=sizes.dim, page_size=PAGE)


def config(sizes: Sizes) -> Any:
    """What the layers read of the configuration of a checkpoint."""
    return LlamaConfig(
        vocab_size=sizes.vocab, hidden_size=sizes.hidden, num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads, num_key_value_heads=sizes.kv_heads,
        intermediate_size=sizes.between, rms_norm_eps=sizes.eps, max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.theta},
    )  # fmt: skip


def graph(sizes: Sizes, state: dict[str, Any], quantized: bool = False) -> tuple[Graph, Any]:
    """The graph of ``maxlab.pipelines.architectures``, and its weights: tokens, row offsets and the
    cache give the logits of each sequence's last token.

    Args:
        sizes: The sizes.
        state: The weights by the names of checkpoints.
        quantized: Whether the weights of the layers are Q4_K; the embeddings are float32.
    """
    cached = params(sizes)
    encoding = Q4_K if quantized else None
    given = Given(F32, HOST, cached, LONGEST, ReturnLogits.LAST_TOKEN, encoding)
    module = Llama(config(sizes), given)
    module.load_state_dict(state)
    types = [TensorType(I64, ["tokens"], HOST), TensorType(U32, ["ends"], HOST)]
    types.append(TensorType(I64, [1], HOST))
    symbols = PagedCacheInputSymbols.of(cached, sizes.layers, HOST)
    with Graph("llama", input_types=[*types, *symbols]) as made:
        ids, offsets, count = (value.tensor for value in made.inputs[:3])
        made.output(*module(ids, PagedCacheValues.of(made.inputs[3:]), count, offsets))
    return made, module.state_dict()


def packed(name: str, values: Array) -> Array:
    """Random blocks of Q4_K in place of ``values``, with as many rows: their scales are small."""
    rows, width = values.shape
    rng = np.random.default_rng(len(name))
    blocks = rng.integers(0, 256, (rows, width // 256, 144), np.uint8)
    blocks[..., :2] = np.frombuffer(np.float16(0.001).tobytes(), np.uint8)
    blocks[..., 2:4] = np.frombuffer(np.float16(0.008).tobytes(), np.uint8)
    return blocks.reshape(rows, -1)


def named(sizes: Sizes) -> Iterator[tuple[str, Array]]:
    """The weights by the names that checkpoints have."""
    wide, narrow = sizes.heads * sizes.dim, sizes.kv_heads * sizes.dim
    names = {
        "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "gate_up": ("mlp.gate_proj", "mlp.up_proj"), "out": ("self_attn.o_proj",),
        "down": ("mlp.down_proj",), "norm1": ("input_layernorm",),
        "norm2": ("post_attention_layernorm",),
    }  # fmt: skip
    cuts = {"qkv": [wide, wide + narrow], "gate_up": [sizes.between]}
    for name, w in weights(sizes):
        if name in ("embed", "norm"):
            yield {"embed": "embed_tokens.weight", "norm": "norm.weight"}[name], w
            continue
        at, part = name.rsplit(".", 1)
        for one, rows in zip(names[part], np.split(w, cuts.get(part, [])), strict=True):
            yield f"{at}.{one}.weight", rows


def registry(sizes: Sizes, quantized: bool = False) -> dict[str, Any]:
    """The weights, mapped from a file that has no name any more."""
    made = {
        name: packed(name, w) if quantized and w.ndim == 2 and name != "embed_tokens.weight" else w
        for name, w in named(sizes)
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "llama.safetensors"
        save_file(made, path)
        read = {name: one.data() for name, one in load_weights([path]).items()}
    return {
        name: replace(w, quantization_encoding=Q4_K) if w.dtype is DType.uint8 else w
        for name, w in read.items()
    }


class Ours:
    """The model with a cache of pages in random order.

    Attributes:
        model: The loaded model.
        sizes: Its sizes.
        blocks: The pages.
    """

    def __init__(self, sizes: Sizes, threads: int, quantized: bool = False) -> None:
        self.sizes = sizes
        session = engine.InferenceSession(num_threads=threads)
        made, state = graph(sizes, registry(sizes, quantized), quantized)
        self.model = session.load(made, weights_registry=state)
        most = max(sum(-(-(n + case.new) // PAGE) for n in case.cached) for case in CASES.values())
        self.shape = (2, sizes.layers, PAGE, sizes.kv_heads, sizes.dim)
        self.blocks = Tensor.zeros((most + 4, *self.shape), F32)
        self.count = Tensor.from_numpy(np.ones(1, np.int64))
        self.order = np.random.default_rng(5).permutation(most + 4).astype(np.uint32)

    def inputs(self, case: Case) -> list[Any]:
        """The inputs of one pass: each sequence has pages of its own, in no order."""
        batch, total = len(case.cached), [n + case.new for n in case.cached]
        table = np.full((batch, max(-(-n // PAGE) for n in total)), len(self.order), np.uint32)
        given = 0
        for row, n in zip(table, total, strict=True):
            pages = -(-n // PAGE)
            row[:pages] = self.order[given : given + pages]
            given += pages
        ids = [tokens(self.sizes, n)[n - case.new :] for n in total]
        arrays = [
            np.concatenate(ids),
            (np.arange(batch + 1) * case.new).astype(np.uint32),
            np.array(case.cached, np.uint32),
            table,
            np.array([[case.new, max(total)]], np.uint32),
        ]
        first, offsets, *rest = [Tensor.from_numpy(a) for a in arrays]
        return [first, offsets, self.count, self.blocks, *rest]

    def prepared(self, name: str) -> Callable[[], Any]:
        """The pass of a case, whose cached tokens are in the cache."""
        case = CASES[name]
        given = self.inputs(case)
        if max(case.cached):
            self._fill(case, given)

        def run() -> Array:
            found: Array = self.model(*given)[0].to_numpy()
            return found

        return run

    def _fill(self, case: Case, given: list[Any]) -> None:
        """Compute the cached tokens of all sequences, 512 at a time."""
        table = given[5].to_numpy()
        for row, n in zip(table, case.cached, strict=True):
            for begin in range(0, n, 512):
                end = min(begin + 512, n)
                self.model(
                    tokens(self.sizes, end)[begin:],
                    np.array([0, end - begin], np.uint32),
                    self.count,
                    self.blocks,
                    np.array([begin], np.uint32),
                    row[None, : -(-end // PAGE)].copy(),
                    np.array([[end - begin, end]], np.uint32),
                )

    def facts(self, case: Case) -> dict[str, Any]:
        """What a profile counts of one pass.

        Returns:
            ``moved``, the bytes that its kernels read and write; ``cache_moved``, those of kernels
            that touch the cache; ``kernels``, their number.
        """
        kernels = self.model.profile(*self.inputs(case)).kernels
        return {
            "moved": sum(k.nbytes for k in kernels),
            "cache_moved": sum(k.nbytes for k in kernels if k.name.startswith("cache.")),
            "kernels": len(kernels),
        }


def attention_peak(sizes: Sizes, length: int) -> int:
    """The bytes by which a process grows for attention of ``length`` queries to as many tokens of
    one sequence, inputs not counted: its result, and all that it works with.
    """
    cached = params(sizes)
    q = TensorType(F32, ["tokens", sizes.heads, sizes.dim], HOST)
    symbols = PagedCacheInputSymbols.of(cached, 1, HOST)
    with Graph("attention", input_types=[q, TensorType(U32, ["ends"], HOST), *symbols]) as made:
        x, offsets = (value.tensor for value in made.inputs[:2])
        cache, layer = PagedCacheValues.of(made.inputs[2:]), ops.constant(0, U32, HOST)
        causal = MHAMaskVariant.CAUSAL_MASK
        made.output(
            kernels.flash_attention_ragged(
                cached, x, offsets, cache, layer, causal, sizes.dim**-0.5
            )
        )
    model = engine.InferenceSession().load(made)
    pages = length // PAGE
    blocks = Tensor.from_numpy(np.ones((pages, 2, 1, PAGE, sizes.kv_heads, sizes.dim), np.float32))

    def inputs(count: int) -> list[Any]:
        return [
            np.ones((count, sizes.heads, sizes.dim), np.float32),
            np.array([0, count], np.uint32),
            blocks,
            np.zeros(1, np.uint32),
            np.arange(pages, dtype=np.uint32)[None],
            np.array([[count, count]], np.uint32),
        ]

    model(*inputs(64))  # what a first run makes once does not count
    given = inputs(length)
    with open("/proc/self/clear_refs", "w") as asked:
        asked.write("5")  # the most so far becomes what there is now
    before = _status("VmRSS")
    model(*given)
    return _status("VmHWM") - before


def _status(field: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def reading(threads: int, nbytes: int = 1 << 30) -> Callable[[], Any]:
    """A run of a kernel that does nothing but read ``nbytes``: the sum of float32 numbers."""
    with Graph("read", input_types=[TensorType(F32, ["rows", 4096], HOST)]) as made:
        made.output(ops.sum(made.inputs[0].tensor, axis=1))
    model = engine.InferenceSession(num_threads=threads).load(made)
    x = Tensor.from_numpy(np.ones((nbytes // 4 // 4096, 4096), np.float32))

    def run() -> Any:
        return model(x)

    return run
