"""The operations of a graph. Each adds ops to the graph that is being built and returns what they
make.

A function either succeeds or leaves the graph as it was; its error names the line of the caller.
"""

from __future__ import annotations

from collections.abc import Callable

from maxlab.graph.ops import allreduce, random
from maxlab.graph.ops.buffers import (
    buffer_create,
    buffer_load,
    buffer_store,
    buffer_store_slice,
    print,
)
from maxlab.graph.ops.calls import call
from maxlab.graph.ops.collectives import allgather
from maxlab.graph.ops.control import cond, while_loop
from maxlab.graph.ops.creation import constant, constant_external, range, shape_to_tensor
from maxlab.graph.ops.customs import custom, inplace_custom
from maxlab.graph.ops.devices import assert_same_device, transfer_to
from maxlab.graph.ops.dynamic import masked_scatter, nonzero
from maxlab.graph.ops.elementwise import (
    add,
    cast,
    div,
    equal,
    greater,
    greater_equal,
    logical_and,
    logical_or,
    logical_xor,
    mod,
    mul,
    not_equal,
    pow,
    sub,
    where,
)
from maxlab.graph.ops.indexing import gather, slice_tensor
from maxlab.graph.ops.joining import chunk, concat, pad, split, stack
from maxlab.graph.ops.linalg import matmul, outer
from maxlab.graph.ops.pooling import avg_pool2d, fold, max_pool2d
from maxlab.graph.ops.quantized import dequantize, qmatmul
from maxlab.graph.ops.reduction import (
    argmax,
    argmin,
    layer_norm,
    logsoftmax,
    max,
    mean,
    min,
    softmax,
    sum,
)
from maxlab.graph.ops.resizing import InterpolationMode, resize
from maxlab.graph.ops.scanning import cumsum
from maxlab.graph.ops.scattering import gather_nd, scatter, scatter_nd
from maxlab.graph.ops.shaping import (
    broadcast_to,
    flatten,
    permute,
    rebind,
    repeat_interleave,
    reshape,
    squeeze,
    tile,
    transpose,
    unsqueeze,
)
from maxlab.graph.ops.sorting import argsort, top_k
from maxlab.graph.ops.spatial import conv2d, conv2d_transpose, conv3d
from maxlab.graph.ops.spectral import (
    as_interleaved_complex,
    band_part,
    hann_window,
    irfft,
)
from maxlab.graph.ops.unary import (
    abs,
    acos,
    atanh,
    cos,
    erf,
    exp,
    floor,
    gelu,
    is_inf,
    is_nan,
    log,
    log1p,
    logical_not,
    negate,
    relu,
    round,
    rsqrt,
    sigmoid,
    silu,
    sin,
    sqrt,
    tanh,
    trunc,
)
from maxlab.ir import DeviceRef, TensorType

__all__ = [
    "Callable",
    "DeviceRef",
    "InterpolationMode",
    "TensorType",
    "abs",
    "acos",
    "add",
    "allgather",
    "allreduce",
    "argmax",
    "argmin",
    "argsort",
    "as_interleaved_complex",
    "assert_same_device",
    "atanh",
    "avg_pool2d",
    "band_part",
    "broadcast_to",
    "buffer_create",
    "buffer_load",
    "buffer_store",
    "buffer_store_slice",
    "call",
    "cast",
    "chunk",
    "concat",
    "cond",
    "constant",
    "constant_external",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "cos",
    "cumsum",
    "custom",
    "dequantize",
    "div",
    "equal",
    "erf",
    "exp",
    "flatten",
    "floor",
    "fold",
    "gather",
    "gather_nd",
    "gelu",
    "greater",
    "greater_equal",
    "hann_window",
    "inplace_custom",
    "irfft",
    "is_inf",
    "is_nan",
    "layer_norm",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsoftmax",
    "masked_scatter",
    "matmul",
    "max",
    "max_pool2d",
    "mean",
    "min",
    "mod",
    "mul",
    "negate",
    "nonzero",
    "not_equal",
    "outer",
    "pad",
    "permute",
    "pow",
    "print",
    "qmatmul",
    "random",
    "range",
    "rebind",
    "relu",
    "repeat_interleave",
    "reshape",
    "resize",
    "round",
    "rsqrt",
    "scatter",
    "scatter_nd",
    "shape_to_tensor",
    "sigmoid",
    "silu",
    "sin",
    "slice_tensor",
    "softmax",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "sub",
    "sum",
    "tanh",
    "tile",
    "top_k",
    "transfer_to",
    "transpose",
    "trunc",
    "unsqueeze",
    "where",
    "while_loop",
]
