"""The values of weights: where modules keep them, and what they must be like."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import MaxlabError, ModuleError
from maxlab.graph import Shape, StaticDim, Weight
from maxlab.graph.quantization import QuantizationEncoding

_SLOT = "_module_slot"


class Slot:
    """Facts that modules know of one weight, whichever of them hold it."""

    __slots__ = ("final", "local", "value")

    def __init__(self, local: str) -> None:
        self.local = local
        """The name that the weight was made with."""
        self.value: Any = None
        """The array, or None."""
        self.final = False
        """Whether a state dict has named the weight."""


def slot_of(weight: Weight) -> Slot:
    """The slot of ``weight``, kept on the weight itself: weights have no hash to file them
    under."""
    slot: Slot | None = weight.__dict__.get(_SLOT)
    if slot is None:
        slot = weight.__dict__[_SLOT] = Slot(weight.name)
    return slot


def listing(names: Iterable[str], limit: int = 8) -> str:
    """Some of ``names``, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(map(repr, found[:limit])) + more


def zeros(name: str, weight: Weight) -> np.ndarray[Any, Any]:
    """The zeros that stand for a weight without a value."""
    if not all(isinstance(dim, StaticDim) for dim in weight.shape):
        raise ModuleError(
            "ML705",
            f"the weight {name!r} has no value, and its shape {list(weight.shape)} is not static",
            fix="load a value with load_state_dict",
        )
    return np.zeros([int(dim) for dim in weight.shape], weight.dtype.ml_numpy)


# ---------------------------------------------------------------- names
def check_names(model: str, wanted: set[str], given: set[str]) -> None:
    """Raises unless both are the same names."""
    missing, unexpected = sorted(wanted - given), sorted(given - wanted)
    if not missing and not unexpected:
        return
    parts: list[str] = []
    if missing:
        parts.append(f"{len(missing)} missing: {listing(missing)}")
    if unexpected:
        parts.append(f"{len(unexpected)} unexpected: {listing(unexpected)}")
    guesses: list[str] = []
    for name in unexpected[:8]:
        close = difflib.get_close_matches(name, missing or wanted, 1)
        if close:
            guesses.append(f"{name!r}: did you mean {close[0]!r}?")
    raise ModuleError(
        "ML706",
        f"the state dict does not fit {model}: " + "; ".join(parts),
        why=guesses,
        fix="rename the keys to those of state_dict(), or pass strict=False to ignore them",
    )


def without_aliases(
    state_dict: Mapping[str, Any],
    weights: Mapping[str, Weight],
    aliases: list[tuple[str, Weight]],
) -> dict[str, Any]:
    """``state_dict`` with second names of weights, as of tied embeddings, replaced by the first."""
    given = dict(state_dict)
    first = {id(weight): name for name, weight in weights.items()}
    for alias, weight in aliases:
        if alias not in given or alias in weights:
            continue
        value, name = given.pop(alias), first[id(weight)]
        if name not in given:
            given[name] = value
        elif not _equal(given[name], value):
            raise ModuleError(
                "ML711",
                f"{name!r} and {alias!r} are one weight, but their values differ",
                fix="leave one of them out, or do not tie the weights",
            )
    return given


def _equal(a: Any, b: Any) -> bool:
    """Whether two values hold the same bits."""
    if a is b:
        return True
    left, right = (_host(x.data if _is_data(x) else x) for x in (a, b))
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


# ---------------------------------------------------------------- values
def _is_data(value: Any) -> bool:
    """Whether ``value`` is a ``WeightData``: data with a dtype, shape and encoding beside it."""
    return not isinstance(value, np.ndarray) and hasattr(value, "quantization_encoding")


def _host(value: Any) -> np.ndarray[Any, Any]:
    """``value`` as a NumPy array over the same memory."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "to_numpy"):
        return np.asarray(value.to_numpy())
    return np.from_dlpack(value)


def _dtype(value: Any) -> DType:
    dtype = value.dtype
    if isinstance(dtype, DType):
        return dtype
    if str(dtype).startswith("torch."):
        return DType.from_torch(dtype)
    return DType.from_numpy(np.dtype(dtype))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A value that fits a weight, and the weight's facts that it brings along."""

    value: Any
    dtype: DType
    shape: Shape
    encoding: QuantizationEncoding | None

    def put(self, weight: Weight) -> None:
        """Let ``weight`` be as the value is."""
        if (weight.quantization_encoding, weight.dtype) != (self.encoding, self.dtype):
            weight.quantization_encoding = self.encoding
            weight.dtype = self.dtype
            weight.shape = self.shape
        slot_of(weight).value = self.value


def checked(
    name: str, weight: Weight, value: Any, alignment: int | None, override_encoding: bool
) -> Fitted:
    """``value``, when it fits ``weight``; its shape may lose or gain a 1."""
    kind, wanted, encoding = weight.dtype, weight.shape, weight.quantization_encoding
    if _is_data(value):
        found = value.quantization_encoding
        if found is not encoding:
            _require_override(name, found, encoding, override_encoding)
            kind = DType.uint8 if found is not None else value.dtype
            wanted, encoding = _shape_as(wanted, encoding, found), found
        value = value.data
    if isinstance(value, (bool, int, float, list, tuple)) or not (
        hasattr(value, "__dlpack__") or isinstance(value, np.ndarray)
    ):
        raise ModuleError(
            "ML710",
            f"{name!r}: the value is a {type(value).__name__}, expected an array",
            fix="pass a NumPy array, a driver.Tensor or another DLPack array",
        )
    try:
        dtype = _dtype(value)
    except (MaxlabError, TypeError) as error:
        raise ModuleError("ML710", f"{name!r}: {error}") from error
    shape = tuple(int(size) for size in value.shape)
    if dtype is not kind:
        raise ModuleError(
            "ML707",
            f"{name!r}: the value is {dtype.name}, expected {kind.name}",
            fix=f"convert it: value.astype({str(kind.ml_numpy)!r})"
            if encoding is None
            else f"pass the bytes of {encoding.value}, as a GGUF file has them",
        )
    if not _fits(shape, wanted):
        if [*shape] not in ([], [1]) or list(wanted) not in ([], [1]):
            raise ModuleError(
                "ML707",
                f"{name!r}: the value has the shape {list(shape)}, expected "
                f"[{', '.join(map(str, wanted))}]",
                fix="transpose or reshape it"
                if sorted(shape) == sorted(wanted.static_dims)
                else None,
            )
        value = _host(value).reshape([int(dim) for dim in wanted])
    _check_memory(name, value, alignment or weight.align or dtype.align)
    return Fitted(value, dtype, wanted, encoding)


def _require_override(name: str, found: Any, wanted: Any, override: bool) -> None:
    """Raises unless a weight that is packed as ``wanted`` may become as the data is.

    Raises:
        ModuleError: ML709, it is not packed, or its encoding is not to be overridden, or the
            encoding of the data has no blocks.
    """
    blocks = found is None or (isinstance(found, QuantizationEncoding) and found.is_gguf)
    if override and blocks and wanted is not None and wanted.is_gguf:
        return
    data, weight = (
        "not quantised" if e is None else f"quantised ({getattr(e, 'value', e)})"
        for e in (found, wanted)
    )
    fix = "dequantise the value first, or give the layer a quantization_encoding"
    if wanted is not None:
        fix = "pass override_quantization_encoding=True, or a value of the encoding of the weight"
    raise ModuleError("ML709", f"{name!r}: the value is {data}, the weight is {weight}", fix=fix)


def _shape_as(
    shape: Shape, encoding: QuantizationEncoding | None, other: QuantizationEncoding | None
) -> Shape:
    """The shape of a weight of the encoding ``other`` that holds as many numbers as one of
    ``shape``, of ``encoding``, does."""
    last = shape[-1]
    if encoding is not None:
        last = last // encoding.block_size * encoding.elements_per_block
    if other is not None:
        last = last // other.elements_per_block * other.block_size
    return Shape([*shape[:-1], last])


def _fits(shape: tuple[int, ...], wanted: Shape) -> bool:
    """Whether sizes equal those of ``wanted``, where a symbolic dim takes any."""
    if len(shape) != len(wanted):
        return False
    sizes: dict[str, int] = {}
    for size, dim in zip(shape, wanted, strict=True):
        if isinstance(dim, StaticDim):
            if dim.dim != size:
                return False
        elif sizes.setdefault(str(dim), size) != size:
            return False
    return True


def _check_memory(name: str, value: Any, alignment: int) -> None:
    """Raises unless the elements are contiguous and begin at a multiple of ``alignment``."""
    if not isinstance(value, np.ndarray):
        return  # other owners vouch for their own memory, and the session checks it again
    if not value.flags.c_contiguous:
        raise ModuleError(
            "ML708",
            f"{name!r}: the value is not contiguous",
            fix="copy it: np.ascontiguousarray(value)",
        )
    address = value.__array_interface__["data"][0]
    if value.size and address % alignment:
        raise ModuleError(
            "ML708",
            f"{name!r}: the value begins at address {address:#x}, which is not a multiple of "
            f"{alignment}",
            fix="copy it: value.copy(); or pass a smaller weight_alignment",
        )
