"""Methods of NumPy and PyTorch that a tensor of a graph refuses, and their replacements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maxlab.errors import (
    NO_GRADIENTS,
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    Elsewhere,
    MissingNameError,
    elsewhere,
    untrained,
)
from maxlab.ir import user_location
from maxlab.opset.builder import current

ASK = "InferenceSession().load(graph)(array)[0]"
"""How a result is asked for."""


def no_value(what: str, ask: str) -> ArgumentTypeError:
    """The error for ``what``, which needs the elements; ``ask`` gives it of a result."""
    return ArgumentTypeError(
        "ML960",
        f"{what} needs the elements of a tensor, which are known when the model runs, not while "
        "the graph is built",
        at=user_location(),
        fix=f"of a result: {ask}",
    )


def no_number(what: str) -> ArgumentTypeError:
    """The error for ``float(x)``, ``int(x)`` and what asks for them."""
    return no_value(
        f"{what}()",
        f"{what}(result[0, 0]); in the graph use ops, such as ops.sqrt(x) for math.sqrt(x)",
    )


def no_array() -> ArgumentTypeError:
    """The error for ``np.asarray(x)``."""
    return no_value(
        "an array of NumPy",
        f"{ASK}.to_numpy(); to join tensors in the graph: ops.stack([x, y]); rows of an array by a "
        "tensor of the graph: ops.gather(array, i % 2, axis=0)",
    )


def no_change(what: str) -> ArgumentTypeError:
    """The error for ``x[0] = 1``."""
    return ArgumentTypeError(
        "ML961",
        f"{what}: a tensor of a graph never changes",
        at=user_location(),
        fix="make another: ops.where(condition, x, y); or store into a buffer of the graph, an "
        "input of BufferType",
    )


def no_key() -> ArgumentTypeError:
    """The error for a tensor that is to be a key."""
    return ArgumentTypeError(
        "ML963",
        "a tensor of the graph cannot be a key or in a set: == compares its elements",
        at=user_location(),
        fix="use id(x) as the key, and keep x beside it",
    )


def no_length(size: object) -> ArgumentError:
    """The error for the ``len`` of a tensor whose first dim is ``size``."""
    return ArgumentError(
        "ML960",
        f"len() needs a first dim of known size, got {size}",
        at=user_location(),
        fix="use x.shape[0], which may be a dim of the graph",
    )


def no_function_of_torch(name: str, has_op: bool, is_unary: bool) -> ArgumentTypeError:
    """The error for the function ``name`` of PyTorch that is called with a tensor of a graph.

    Args:
        name: The function.
        has_op: Whether ``ops`` has one of the same name.
        is_unary: Whether it was given one tensor.
    """
    if has_op:
        fix = f"write ops.{name}(x)" if is_unary else f"use ops.{name} with the same tensors"
    elif name.startswith("linalg_"):
        name = name.replace("_", ".", 1)
        fix = f"of a result: np.{name}(result.to_numpy())"
    else:
        fix = f"of a result: torch.{name}(torch.from_dlpack(result))"
    return ArgumentTypeError(
        "ML965",
        f"torch.{name} takes tensors of PyTorch, got a tensor of the graph",
        at=user_location(),
        fix=fix,
    )


def no_bits(dtype: object) -> ArgumentTypeError:
    """The error for ``x.view(dtype)``."""
    return ArgumentTypeError(
        "ML336",
        f"x.view({dtype}): no op reads the bits of elements as another dtype; x.view takes a shape",
        at=user_location(),
        fix=f"of a result: result.view({dtype}); to convert the elements: x.astype({dtype})",
    )


def no_such_fold(name: str, given: Iterable[object]) -> ArgumentTypeError:
    """The error for arguments that the fold ``x.name()`` does not take."""
    return ArgumentTypeError(
        "ML330",
        f"x.{name}() does not take {', '.join(map(str, given))}",
        at=user_location(),
        fix=f"it takes an axis, keepdims and dtype: x.{name}(axis=0, keepdims=False)",
    )


def no_pair(name: str, places: str, dim: int, taken: str) -> ArgumentTypeError:
    """The error for ``x.max(dim=1)[1]``, which PyTorch gives another meaning than NumPy."""
    return ArgumentTypeError(
        "ML978",
        f"x.{name}(dim={dim}){taken}: the result is a tensor of the elements, and not PyTorch's "
        "pair of elements and places",
        at=user_location(),
        fix=f"where the elements are: x.{places}(dim={dim}), ops.{places}(x, dim={dim}); a row of "
        f"the elements: x.{name}(axis={dim})[0]",
    )


def no_repeats(counts: Sequence[object], rank: int) -> ArgumentError:
    """The error for ``x.repeat(2)`` of a tensor of ``rank``."""
    return ArgumentError(
        "ML308",
        f"x.repeat: {len(counts)} repeats for rank {rank}",
        at=user_location(),
        fix="give one repeat for each dim, as PyTorch asks; NumPy's repeat, of each element, is "
        f"x.repeat_interleave({counts[0] if counts else 2})",
    )


def no_reciprocal(power: int, dtype: object) -> DTypeError:
    """The error for ``i ** -1`` of integers."""
    return DTypeError(
        "ML101",
        f"{dtype} to the power {power}: integers have no fractions",
        at=user_location(),
        fix=f"convert it first: x = x.float(), then x ** {power}",
    )


def no_attribute(name: str) -> Exception:
    """The error for ``x.name = value``."""
    if name in (*NO_GRADIENTS, "requires_grad"):
        return MissingNameError(
            "ML962",
            f"x.{name} = ...: graphs compute no gradients",
            at=user_location(),
            fix="train with PyTorch, then run the module with maxlab.torch.load(module, x)",
        )
    instead = {"shape": "x.reshape(4, 2)", "dtype": "x.astype('float16')", "device": "x.to('cpu')"}
    return MissingNameError(
        "ML961",
        f"x.{name} = ...: a tensor of a graph never changes",
        at=user_location(),
        fix=f"make another: {instead.get(name, 'ops.where(condition, x, y)')}; what belongs to a "
        "tensor is kept beside it, in a variable or a dict by id(x)",
    )


def no_shift() -> ArgumentTypeError:
    """The error for ``x << 1``."""
    return ArgumentTypeError(
        "ML965",
        "no op shifts bits",
        at=user_location(),
        fix="use x * 2**n, or x // 2**n",
    )


_NO_MEMORY = "a tensor of a graph has no memory; a result has: result.strides"
_PAIR = "x.max(dim=0) gives the elements alone, and x.argmax(dim=0) where they are"
_INSTEAD = {
    "values": _PAIR,
    "indices": _PAIR,
    **dict.fromkeys(("byte", "char"), "use x.astype('uint8') or x.astype('int8')"),
    **dict.fromkeys(("scatter_add", "index_add", "index_put"), "use ops.scatter or ops.scatter_nd"),
    "masked_select": "the number of results is a dim: ops.gather_nd(x, ops.nonzero(b, 'count'))",
    **dict.fromkeys(
        ("pin_memory", "share_memory_", "layout", "is_sparse", "to_sparse"),
        _NO_MEMORY,
    ),
    "data": "the elements are known when the model runs",
    "data_ptr": "a tensor of a graph has no memory; a result has: result.address",
    "strides": _NO_MEMORY,
    "stride": _NO_MEMORY,
    "tobytes": "of a result: result.to_numpy().tobytes()",
    **dict.fromkeys(("flags", "storage", "untyped_storage", "base", "ctypes"), _NO_MEMORY),
    **dict.fromkeys(
        ("eval", "compute", "block_until_ready", "run", "execute"), f"of a model: {ASK}"
    ),
    **dict.fromkeys(("apply", "map", "apply_", "map_", "pipe"), "call it: np.exp(x), ops.exp(x)"),
    **dict.fromkeys(("save", "dump", "dumps"), "of a result: np.save(path, result)"),
    "tofile": "of a result: result.to_numpy().tofile(path)",
    "get_device": "x.device",
    **dict.fromkeys(("resize", "resize_"), "x.reshape(4, 2), of as many elements"),
    **dict.fromkeys(("float16",), "x.half(), or x.astype('float16')"),
    **{name: f"x.astype({name!r})" for name in ("float32", "float64", "int8", "int16", "int32")},
    **{name: f"x.astype({name!r})" for name in ("int64", "uint8", "uint16", "uint32", "uint64")},
    **dict.fromkeys(("cfloat", "imag"), "no dtype is complex: keep two tensors, x * 2 + y * 3"),
    "flat": "x.flatten()",
    **dict.fromkeys(("allclose", "equal"), "NumPy's work: np.allclose(x, y), np.array_equal(x, y)"),
    **dict.fromkeys(("nansum", "nanmean"), "NumPy's work: np.nansum(x), np.nanmean(x)"),
    "aminmax": "x.amin(dim=1) and x.amax(dim=1)",
    "nonzero": "the number of results is a dim: ops.nonzero(x, 'count')",
    "at": "JAX's x.at[i].set(y) is ops.scatter or ops.where here",
    "scatter": "use ops.scatter(x, updates, indices, axis)",
    "unique": "compute it of a result: np.unique(result.to_numpy())",
    "unfold": "use ops.conv2d, which forms no windows",
    "new_zeros": "use ops.zeros_like(x), or ops.zeros with a shape",
    "new_ones": "use ops.ones_like(x), or ops.ones with a shape",
    "is_cuda": "use x.device.is_gpu()",
    "name": "tensors of a graph have no names; modules and inputs do",
}


def refuse(kind: type) -> None:
    """Let tensors of a graph, of the class ``kind``, say what there is instead of names of NumPy
    and PyTorch that they do not have."""
    untrained(kind, "x", (*NO_GRADIENTS, "is_leaf", "register_hook"))
    never = "and a tensor of a graph never changes"
    names = (
        "add sub mul div pow relu exp log sqrt rsqrt clamp clip neg abs masked_fill round sigmoid "
        "tanh sin cos floor ceil square reciprocal gelu silu softmax clamp_min clamp_max t squeeze "
        "unsqueeze transpose"
    )
    for name in names.split():
        fix = f"write x = x.{name}(...), or an expression such as x + y"
        setattr(kind, f"{name}_", Elsewhere("ML961", f"x.{name}_ would change x, {never}", fix))
    for name in ("zero_", "fill_", "copy_", "normal_", "uniform_", "fill", "put"):
        fix = "make another tensor: ops.zeros_like(x), ops.full_like(x, 1)"
        setattr(kind, name, Elsewhere("ML961", f"x.{name} would change x, {never}", fix))
    elsewhere(kind, "x", _INSTEAD, _of_ops)


def _of_ops(name: str) -> str | None:
    """The replacement of the method ``name``: the op of that name, or the advice about it."""
    from maxlab.graph.elsewhere import CALLS, INSTEAD, names

    b = current()
    if b is not None and name in names(vars(b.ops)):
        return f"it is an op: {CALLS.get(name, f'ops.{name}(x)')}"
    if name.endswith("_"):
        return "a tensor of a graph never changes: write x = x + y, or x = ops.relu(x)"
    return INSTEAD.get(name)


__all__ = [
    "no_array",
    "no_bits",
    "no_change",
    "no_key",
    "no_length",
    "no_number",
    "no_shift",
    "no_such_fold",
    "no_value",
    "refuse",
]
