"""In which module of ``maxlab.graph.ops`` each of its functions is, so that a graph imports those
that it uses: `tests/graph/test_ops.py` holds this against what type checkers are told."""

from __future__ import annotations

AT_ONCE: bool = False
"""Whether functions are imported with the package; what checks types takes it that they may be."""

PLACES: dict[str, tuple[str, ...]] = {
    "activations": (
        "celu", "dropout", "elu", "glu", "hardsigmoid", "hardswish", "hardtanh",
        "leaky_relu", "logsigmoid", "mish", "relu6", "selu", "softplus", "softsign",
        "tanhshrink",
    ),
    "adapting": ("cache_add_lora", "lora_product"),
    "arranging": (
        "cat", "concatenate", "expand_dims", "hstack", "moveaxis", "movedim", "ravel",
        "roll", "swapaxes", "tril", "triu", "vstack",
    ),
    "buffers": (
        "buffer_create", "buffer_load", "buffer_load_slice", "buffer_store",
        "buffer_store_slice", "print", "watch",
    ),
    "caching": (
        "cache_attention", "cache_load", "cache_store", "ragged_attention",
        "ragged_sequences",
    ),
    "calls": ("call",),
    "collectives": ("allgather",),
    "contracting": (
        "batch_norm", "bmm", "cosine_similarity", "dot", "einsum", "embedding", "inner",
        "l1_loss", "linear", "mm", "mse_loss", "mv", "rms_norm",
        "scaled_dot_product_attention", "tensordot",
    ),
    "control": ("cond", "while_loop"),
    "creation": ("constant", "constant_external", "range", "shape_to_tensor"),
    "customs": ("custom", "inplace_custom"),
    "devices": ("assert_same_device", "transfer_to"),
    "drawing": (
        "sample_count", "sample_penalise", "sample_scores", "sample_token",
        "sample_uniform",
    ),
    "dynamic": ("masked_scatter", "nonzero"),
    "elementwise": (
        "add", "bitcast", "cast", "div", "equal", "greater", "greater_equal", "logical_and",
        "logical_or", "logical_xor", "mod", "mul", "not_equal", "pow", "sub", "where",
    ),
    "experts": ("expert_indices", "grouped_matmul"),
    "float8": ("matmul_float8", "matmul_float8_ragged"),
    "folds": (
        "all", "amax", "amin", "any", "count_nonzero", "flip", "index_select", "logsumexp",
        "norm", "normalize", "sort", "std", "take", "take_along_axis", "topk", "var",
    ),
    "indexing": ("gather", "slice_tensor"),
    "int8": ("matmul_int8",),
    "joining": ("chunk", "concat", "pad", "split", "stack", "unbind"),
    "latent": ("latent_attention", "latent_chunk", "latent_expand", "latent_load"),
    "linalg": ("matmul", "outer"),
    "making": (
        "arange", "eye", "full", "full_like", "linspace", "one_hot", "ones", "ones_like",
        "zeros", "zeros_like",
    ),
    "naming": (
        "absolute", "ceil", "clamp", "clip", "cosh", "divide", "eq", "exp2", "expm1",
        "floor_divide", "ge", "gt", "isfinite", "isinf", "isnan", "le", "less",
        "less_equal", "log10", "log2", "log_softmax", "lt", "masked_fill", "maximum",
        "minimum", "multiply", "ne", "neg", "negative", "power", "reciprocal", "remainder",
        "rint", "sign", "sinh", "square", "subtract", "swish", "tan", "true_divide",
    ),
    "pooling": ("avg_pool2d", "fold", "max_pool2d"),
    "quantized": ("dequantize", "matmul_blocks", "matmul_groups", "qmatmul"),
    "reduction": (
        "argmax", "argmin", "layer_norm", "logsoftmax", "max", "mean", "min", "softmax",
        "sum",
    ),
    "resizing": ("InterpolationMode", "resize"),
    "scanning": ("cumsum",),
    "scattering": ("gather_nd", "scatter", "scatter_nd"),
    "shaping": (
        "broadcast_to", "flatten", "permute", "rebind", "repeat_interleave", "reshape",
        "squeeze", "tile", "transpose", "unsqueeze",
    ),
    "sorting": ("argsort", "top_k"),
    "spatial": ("conv2d", "conv2d_transpose", "conv3d"),
    "spectral": ("as_interleaved_complex", "band_part", "hann_window", "irfft"),
    "unary": (
        "abs", "acos", "atanh", "cos", "erf", "exp", "floor", "gelu", "is_inf", "is_nan",
        "log", "log1p", "logical_not", "negate", "relu", "round", "rsqrt", "sigmoid",
        "silu", "sin", "sqrt", "tanh", "trunc",
    ),
}  # fmt: skip
"""The functions and types by module."""
MODULES = frozenset(("allreduce", "as_numpy", "composed", "dims", "paging", "random", *PLACES))
"""The modules; of these, people use ``allreduce`` and ``random``."""
