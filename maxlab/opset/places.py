"""In which module of ``maxlab.opset`` each op is declared, and which op has a role of its own: a
graph imports the declarations of those that it has. `tests/opset/test_places.py` holds both tables
against what the modules declare."""

from __future__ import annotations

from maxlab.opset.facts import Role

PLACES: dict[str, tuple[str, ...]] = {
    "effects": ("chain", "buffer.create", "buffer.load", "buffer.store", "print", "watch"),
    "attention": ("cache.store", "cache.load", "cache.attention"),
    "elementwise": (
        "abs", "negate", "floor", "trunc", "round", "relu", "sqrt", "rsqrt", "exp", "log",
        "log1p", "erf", "sin", "cos", "tanh", "atanh", "acos", "sigmoid", "silu", "gelu",
        "is_nan", "is_inf", "logical_not",
    ),
    "binary": (
        "add", "sub", "mul", "div", "floordiv", "mod", "pow", "max", "min", "equal",
        "not_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
        "where",
    ),
    "buffer_slices": ("buffer.load_slice", "buffer.store_slice"),
    "casting": ("cast", "bitcast"),
    "collective": ("allgather", "allreduce.sum"),
    "control": ("cond", "while", "call"),
    "convolution": ("conv", "conv.window", "conv.joined", "conv_transpose"),
    "custom": ("custom",),
    "data": (
        "constant", "constant.external", "dim", "iota", "range", "gather", "concat", "pad",
        "matmul", "recip", "output",
    ),
    "dynamic": ("bind_dim",),
    "dynamic_elements": ("nonzero.count", "nonzero", "masked_scatter"),
    "dynamic_sizes": ("repeat.index", "range.size", "slice.bounds"),
    "quantized": ("dequantize", "qmatmul"),
    "experts": ("experts.indices", "experts.matmul"),
    "float8": ("matmul_float8", "matmul_float8_ragged"),
    "host": ("host",),
    "inplace": ("custom.inplace",),
    "int8": ("matmul_int8",),
    "latent": ("latent.load", "latent.expand"),
    "latent_attention": ("latent.chunk", "latent.attention"),
    "lora": ("lora.product", "cache.add_lora"),
    "packed_products": ("matmul_blocks", "matmul_groups"),
    "sampling": ("sample.uniform", "sample.token", "sample.scores"),
    "penalties": ("sample.penalise", "sample.count"),
    "pooling": ("max_pool2d", "avg_pool2d", "fold"),
    "ragged": ("ragged.sequences", "ragged.attention"),
    "random": ("random",),
    "reduce": (
        "reduce.sum", "reduce.max", "reduce.min", "mean", "argmax", "argmin", "softmax",
        "logsoftmax", "layer_norm",
    ),
    "resizing": ("resize",),
    "scan": ("cumsum",),
    "scattering": ("gather_nd", "scatter", "scatter_nd"),
    "sorting": ("top_k", "argsort"),
    "spectral": ("irfft", "irfft.rows", "band_part"),
    "view": (
        "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "broadcast_to",
        "tile", "slice", "rebind", "transfer",
    ),
}  # fmt: skip
"""The ops by module, without ``mo.``, in the order in which they are listed."""

PLACE = {f"mo.{name}": place for place, names in PLACES.items() for name in names}
"""The module of each op."""

NAMED: dict[Role, str] = {
    "chain": "mo.chain", "cast": "mo.cast", "branch": "mo.cond", "loop": "mo.while",
    "call": "mo.call", "data": "mo.constant", "weight": "mo.constant.external", "dim": "mo.dim",
    "output": "mo.output", "bind": "mo.bind_dim", "host": "mo.host", "reshape": "mo.reshape",
    "transfer": "mo.transfer",
}  # fmt: skip
"""The op of each role that one op has alone."""
