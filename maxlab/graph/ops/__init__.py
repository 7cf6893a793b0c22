"""The operations of a graph. Each adds ops to the graph that is being built and returns what they
make.

A function either succeeds or leaves the graph as it was; its error names the line of the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from maxlab.errors import missing
from maxlab.graph.ops.places import AT_ONCE, MODULES, PLACES
from maxlab.ir import DeviceRef, TensorType

if AT_ONCE:
    from maxlab.graph.ops import allreduce, random
    from maxlab.graph.ops import as_numpy as as_numpy
    from maxlab.graph.ops.activations import (
        celu as celu,
    )
    from maxlab.graph.ops.activations import (
        dropout as dropout,
    )
    from maxlab.graph.ops.activations import (
        elu as elu,
    )
    from maxlab.graph.ops.activations import (
        glu as glu,
    )
    from maxlab.graph.ops.activations import (
        hardsigmoid as hardsigmoid,
    )
    from maxlab.graph.ops.activations import (
        hardswish as hardswish,
    )
    from maxlab.graph.ops.activations import (
        hardtanh as hardtanh,
    )
    from maxlab.graph.ops.activations import (
        leaky_relu as leaky_relu,
    )
    from maxlab.graph.ops.activations import (
        logsigmoid as logsigmoid,
    )
    from maxlab.graph.ops.activations import (
        mish as mish,
    )
    from maxlab.graph.ops.activations import (
        relu6 as relu6,
    )
    from maxlab.graph.ops.activations import (
        selu as selu,
    )
    from maxlab.graph.ops.activations import (
        softplus as softplus,
    )
    from maxlab.graph.ops.activations import (
        softsign as softsign,
    )
    from maxlab.graph.ops.activations import (
        tanhshrink as tanhshrink,
    )
    from maxlab.graph.ops.adapting import cache_add_lora, lora_product
    from maxlab.graph.ops.arranging import (
        cat as cat,
    )
    from maxlab.graph.ops.arranging import (
        concatenate as concatenate,
    )
    from maxlab.graph.ops.arranging import (
        expand_dims as expand_dims,
    )
    from maxlab.graph.ops.arranging import (
        hstack as hstack,
    )
    from maxlab.graph.ops.arranging import (
        moveaxis as moveaxis,
    )
    from maxlab.graph.ops.arranging import (
        movedim as movedim,
    )
    from maxlab.graph.ops.arranging import (
        ravel as ravel,
    )
    from maxlab.graph.ops.arranging import (
        roll as roll,
    )
    from maxlab.graph.ops.arranging import (
        swapaxes as swapaxes,
    )
    from maxlab.graph.ops.arranging import (
        tril as tril,
    )
    from maxlab.graph.ops.arranging import (
        triu as triu,
    )
    from maxlab.graph.ops.arranging import (
        vstack as vstack,
    )
    from maxlab.graph.ops.buffers import (
        buffer_create,
        buffer_load,
        buffer_load_slice,
        buffer_store,
        buffer_store_slice,
        print,
        watch,
    )
    from maxlab.graph.ops.caching import (
        cache_attention,
        cache_load,
        cache_store,
        ragged_attention,
        ragged_sequences,
    )
    from maxlab.graph.ops.calls import call
    from maxlab.graph.ops.collectives import allgather
    from maxlab.graph.ops.contracting import (
        batch_norm as batch_norm,
    )
    from maxlab.graph.ops.contracting import (
        bmm as bmm,
    )
    from maxlab.graph.ops.contracting import (
        cosine_similarity as cosine_similarity,
    )
    from maxlab.graph.ops.contracting import (
        dot as dot,
    )
    from maxlab.graph.ops.contracting import (
        einsum as einsum,
    )
    from maxlab.graph.ops.contracting import (
        embedding as embedding,
    )
    from maxlab.graph.ops.contracting import (
        inner as inner,
    )
    from maxlab.graph.ops.contracting import (
        l1_loss as l1_loss,
    )
    from maxlab.graph.ops.contracting import (
        linear as linear,
    )
    from maxlab.graph.ops.contracting import (
        mm as mm,
    )
    from maxlab.graph.ops.contracting import (
        mse_loss as mse_loss,
    )
    from maxlab.graph.ops.contracting import (
        mv as mv,
    )
    from maxlab.graph.ops.contracting import (
        rms_norm as rms_norm,
    )
    from maxlab.graph.ops.contracting import (
        scaled_dot_product_attention as scaled_dot_product_attention,
    )
    from maxlab.graph.ops.contracting import (
        tensordot as tensordot,
    )
    from maxlab.graph.ops.control import cond, while_loop
    from maxlab.graph.ops.creation import constant, constant_external, range, shape_to_tensor
    from maxlab.graph.ops.customs import custom, inplace_custom
    from maxlab.graph.ops.devices import assert_same_device, transfer_to
    from maxlab.graph.ops.drawing import (
        sample_count,
        sample_penalise,
        sample_scores,
        sample_token,
        sample_uniform,
    )
    from maxlab.graph.ops.dynamic import masked_scatter, nonzero
    from maxlab.graph.ops.elementwise import (
        add,
        bitcast,
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
    from maxlab.graph.ops.experts import expert_indices, grouped_matmul
    from maxlab.graph.ops.float8 import matmul_float8, matmul_float8_ragged
    from maxlab.graph.ops.folds import (
        all as all,
    )
    from maxlab.graph.ops.folds import (
        amax as amax,
    )
    from maxlab.graph.ops.folds import (
        amin as amin,
    )
    from maxlab.graph.ops.folds import (
        any as any,
    )
    from maxlab.graph.ops.folds import (
        count_nonzero as count_nonzero,
    )
    from maxlab.graph.ops.folds import (
        flip as flip,
    )
    from maxlab.graph.ops.folds import (
        index_select as index_select,
    )
    from maxlab.graph.ops.folds import (
        logsumexp as logsumexp,
    )
    from maxlab.graph.ops.folds import (
        norm as norm,
    )
    from maxlab.graph.ops.folds import (
        normalize as normalize,
    )
    from maxlab.graph.ops.folds import (
        sort as sort,
    )
    from maxlab.graph.ops.folds import (
        std as std,
    )
    from maxlab.graph.ops.folds import (
        take as take,
    )
    from maxlab.graph.ops.folds import (
        take_along_axis as take_along_axis,
    )
    from maxlab.graph.ops.folds import (
        topk as topk,
    )
    from maxlab.graph.ops.folds import (
        var as var,
    )
    from maxlab.graph.ops.indexing import gather, slice_tensor
    from maxlab.graph.ops.int8 import matmul_int8
    from maxlab.graph.ops.joining import chunk, concat, pad, split, stack
    from maxlab.graph.ops.joining import (
        unbind as unbind,
    )
    from maxlab.graph.ops.latent import (
        latent_attention,
        latent_chunk,
        latent_expand,
        latent_load,
    )
    from maxlab.graph.ops.linalg import matmul, outer
    from maxlab.graph.ops.making import (
        arange as arange,
    )
    from maxlab.graph.ops.making import (
        eye as eye,
    )
    from maxlab.graph.ops.making import (
        full as full,
    )
    from maxlab.graph.ops.making import (
        full_like as full_like,
    )
    from maxlab.graph.ops.making import (
        linspace as linspace,
    )
    from maxlab.graph.ops.making import (
        one_hot as one_hot,
    )
    from maxlab.graph.ops.making import (
        ones as ones,
    )
    from maxlab.graph.ops.making import (
        ones_like as ones_like,
    )
    from maxlab.graph.ops.making import (
        zeros as zeros,
    )
    from maxlab.graph.ops.making import (
        zeros_like as zeros_like,
    )
    from maxlab.graph.ops.naming import (
        absolute as absolute,
    )
    from maxlab.graph.ops.naming import (
        ceil as ceil,
    )
    from maxlab.graph.ops.naming import (
        clamp as clamp,
    )
    from maxlab.graph.ops.naming import (
        clip as clip,
    )
    from maxlab.graph.ops.naming import (
        cosh as cosh,
    )
    from maxlab.graph.ops.naming import (
        divide as divide,
    )
    from maxlab.graph.ops.naming import (
        eq as eq,
    )
    from maxlab.graph.ops.naming import (
        exp2 as exp2,
    )
    from maxlab.graph.ops.naming import (
        expm1 as expm1,
    )
    from maxlab.graph.ops.naming import (
        floor_divide as floor_divide,
    )
    from maxlab.graph.ops.naming import (
        ge as ge,
    )
    from maxlab.graph.ops.naming import (
        gt as gt,
    )
    from maxlab.graph.ops.naming import (
        isfinite as isfinite,
    )
    from maxlab.graph.ops.naming import (
        isinf as isinf,
    )
    from maxlab.graph.ops.naming import (
        isnan as isnan,
    )
    from maxlab.graph.ops.naming import (
        le as le,
    )
    from maxlab.graph.ops.naming import (
        less as less,
    )
    from maxlab.graph.ops.naming import (
        less_equal as less_equal,
    )
    from maxlab.graph.ops.naming import (
        log2 as log2,
    )
    from maxlab.graph.ops.naming import (
        log10 as log10,
    )
    from maxlab.graph.ops.naming import (
        log_softmax as log_softmax,
    )
    from maxlab.graph.ops.naming import (
        lt as lt,
    )
    from maxlab.graph.ops.naming import (
        masked_fill as masked_fill,
    )
    from maxlab.graph.ops.naming import (
        maximum as maximum,
    )
    from maxlab.graph.ops.naming import (
        minimum as minimum,
    )
    from maxlab.graph.ops.naming import (
        multiply as multiply,
    )
    from maxlab.graph.ops.naming import (
        ne as ne,
    )
    from maxlab.graph.ops.naming import (
        neg as neg,
    )
    from maxlab.graph.ops.naming import (
        negative as negative,
    )
    from maxlab.graph.ops.naming import (
        power as power,
    )
    from maxlab.graph.ops.naming import (
        reciprocal as reciprocal,
    )
    from maxlab.graph.ops.naming import (
        remainder as remainder,
    )
    from maxlab.graph.ops.naming import (
        rint as rint,
    )
    from maxlab.graph.ops.naming import (
        sign as sign,
    )
    from maxlab.graph.ops.naming import (
        sinh as sinh,
    )
    from maxlab.graph.ops.naming import (
        square as square,
    )
    from maxlab.graph.ops.naming import (
        subtract as subtract,
    )
    from maxlab.graph.ops.naming import (
        swish as swish,
    )
    from maxlab.graph.ops.naming import (
        tan as tan,
    )
    from maxlab.graph.ops.naming import (
        true_divide as true_divide,
    )
    from maxlab.graph.ops.pooling import avg_pool2d, fold, max_pool2d
    from maxlab.graph.ops.quantized import dequantize, matmul_blocks, matmul_groups, qmatmul
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
    "bitcast",
    "broadcast_to",
    "buffer_create",
    "buffer_load",
    "buffer_load_slice",
    "buffer_store",
    "buffer_store_slice",
    "cache_add_lora",
    "cache_attention",
    "cache_load",
    "cache_store",
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
    "expert_indices",
    "flatten",
    "floor",
    "fold",
    "gather",
    "gather_nd",
    "gelu",
    "greater",
    "greater_equal",
    "grouped_matmul",
    "hann_window",
    "inplace_custom",
    "irfft",
    "is_inf",
    "is_nan",
    "latent_attention",
    "latent_chunk",
    "latent_expand",
    "latent_load",
    "layer_norm",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsoftmax",
    "lora_product",
    "masked_scatter",
    "matmul",
    "matmul_blocks",
    "matmul_float8",
    "matmul_float8_ragged",
    "matmul_groups",
    "matmul_int8",
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
    "ragged_attention",
    "ragged_sequences",
    "random",
    "range",
    "rebind",
    "relu",
    "repeat_interleave",
    "reshape",
    "resize",
    "round",
    "rsqrt",
    "sample_count",
    "sample_penalise",
    "sample_scores",
    "sample_token",
    "sample_uniform",
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
    "watch",
    "where",
    "while_loop",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The function or module of this name, imported when it is first asked for; raises the
        error for one that is not there, with the name to use instead."""
        from importlib import import_module

        place = _PLACE.get(name)
        if place is not None:
            found = globals()[name] = getattr(import_module(f"{__name__}.{place}"), name)
            return found
        if name in MODULES:
            return import_module(f"{__name__}.{name}")
        from maxlab.graph import elsewhere

        instead = elsewhere.INSTEAD
        if name.endswith("_") and name[:-1] in __dir__():
            plain = elsewhere.CALLS.get(name[:-1], f"ops.{name[:-1]}(x)")
            instead = {name: f"a tensor of a graph never changes: x = {plain}"}
        raise missing("ops", name, elsewhere.names(_all()), instead)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACE, *MODULES})

    def _all() -> dict[str, object]:
        """All names that there are, with what they are."""
        return {name: __getattr__(name) for name in (*_PLACE, *MODULES)} | globals()

    _PLACE = {name: place for place, names in PLACES.items() for name in names}
