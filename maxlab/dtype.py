"""The element types of tensors: names, sizes, NumPy, PyTorch and C equivalents, promotion.

Ground floor: every layer uses `DType`, and this module uses only `errors`. What mixed
operands become (`promote`) and which plain Python values a tensor accepts
(`check_scalar`, `check_array`) is decided here once, for the graph builder and the
eager tensors alike. A value never changes silently: what does not fit is an error.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from collections.abc import Callable
from enum import Enum, EnumMeta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, ParamSpec, TypeVar

import numpy as np

from maxlab.errors import (
    ArgumentTypeError,
    DTypeError,
    MissingKeyError,
    TensorError,
    elsewhere,
    missing,
    shown,
)

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found,unused-ignore]

__all__ = ["DType", "check_array", "check_scalar", "check_unmasked", "dtype_of", "promote"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class StaticFunction(Generic[_P, _R]):
    """A function kept in a class that binds nothing, seen by tools as a plain function.

    `staticmethod` behaves the same in a call; this one also shows the documented
    signature when it is read from the class dictionary without being bound.
    """

    def __init__(self, function: Callable[_P, _R]) -> None:
        self._function = function
        functools.update_wrapper(self, function)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[_P, _R]:
        return self._function

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._function(*args, **kwargs)


class _Spec(NamedTuple):
    """The facts of one dtype; the float columns are 0 for other kinds."""

    kind: str  # "bool", "uint", "int" or "float"
    bits: int
    short: str  # spelling in IR text
    c_name: str  # plain C storage type, valid without any header
    numpy: str  # NumPy or ml_dtypes name
    digits: int = 0  # significand bits, the implicit one included
    largest: float = 0.0
    smallest: float = 0.0  # smallest positive value, subnormals included


_SPECS: dict[int, _Spec] = {
    1: _Spec("bool", 8, "bool", "unsigned char", "bool"),
    135: _Spec("int", 8, "si8", "signed char", "int8"),
    134: _Spec("uint", 8, "ui8", "unsigned char", "uint8"),
    137: _Spec("int", 16, "si16", "short", "int16"),
    136: _Spec("uint", 16, "ui16", "unsigned short", "uint16"),
    139: _Spec("int", 32, "si32", "int", "int32"),
    138: _Spec("uint", 32, "ui32", "unsigned int", "uint32"),
    141: _Spec("int", 64, "si64", "long long", "int64"),
    140: _Spec("uint", 64, "ui64", "unsigned long long", "uint64"),
    64: _Spec("float", 4, "f4e2m1fn", "unsigned char", "float4_e2m1fn", 2, 6.0, 0.5),
    73: _Spec("float", 8, "f8e8m0fnu", "unsigned char", "float8_e8m0fnu", 1, 2.0**127, 2.0**-127),
    75: _Spec("float", 8, "f8e4m3fn", "unsigned char", "float8_e4m3fn", 4, 448.0, 2.0**-9),
    76: _Spec("float", 8, "f8e4m3fnuz", "unsigned char", "float8_e4m3fnuz", 4, 240.0, 2.0**-10),
    77: _Spec("float", 8, "f8e5m2", "unsigned char", "float8_e5m2", 3, 57344.0, 2.0**-16),
    78: _Spec("float", 8, "f8e5m2fnuz", "unsigned char", "float8_e5m2fnuz", 3, 57344.0, 2.0**-17),
    79: _Spec("float", 16, "f16", "unsigned short", "float16", 11, 65504.0, 2.0**-24),
    80: _Spec(
        "float", 16, "bf16", "unsigned short", "bfloat16", 8, 3.3895313892515355e38, 2.0**-133
    ),
    81: _Spec("float", 32, "f32", "float", "float32", 24, 3.4028234663852886e38, 2.0**-149),
    82: _Spec("float", 64, "f64", "double", "float64", 53, 1.7976931348623157e308, 5e-324),
}

_ML_DTYPES = ("bfloat16", "float4_e2m1fn")  # and every name that starts with "float8"


_LIKE_THIS = "use DType.float32, or DType.from_numpy(array.dtype)"
_OTHER_NAMES = {
    **dict.fromkeys(("float", "single", "f32", "fp32"), "DType.float32"),
    **dict.fromkeys(("double", "f64", "fp64"), "DType.float64"),
    **dict.fromkeys(("half", "f16", "fp16"), "DType.float16"),
    **dict.fromkeys(("bf16", "bfloat"), "DType.bfloat16"),
    **dict.fromkeys(("int", "i32"), "DType.int32"),
    **dict.fromkeys(("long", "i64"), "DType.int64"),
    **dict.fromkeys(("short", "i16"), "DType.int16"),
    **dict.fromkeys(("char", "i8"), "DType.int8"),
    **dict.fromkeys(("byte", "u8"), "DType.uint8"),
    **dict.fromkeys(("float8", "fp8", "f8"), "DType.float8_e4m3fn or DType.float8_e5m2"),
    **dict.fromkeys(("complex", "complex64", "complex128"), "two float32 tensors"),
    **dict.fromkeys(("string", "str", "object"), "no tensor holds text: its bytes are DType.uint8"),
}


class _Names(EnumMeta):
    def __getattr__(cls, name: str) -> Any:
        raise missing("DType", name, cls.__members__, _OTHER_NAMES)

    def __getitem__(cls, name: str) -> Any:
        if name not in cls.__members__:
            raise MissingKeyError("ML399", f"no dtype is called {shown(name)}", fix=_LIKE_THIS)
        return cls.__members__[name]


class DType(Enum, metaclass=_Names):
    """An element type of a tensor. Values are fixed numbers, stable across versions.

    Example:
        >>> DType.float32.size_in_bytes
        4
        >>> DType.from_numpy(np.dtype("int16"))
        DType.int16
    """

    bool = 1
    int8 = 135
    uint8 = 134
    int16 = 137
    uint16 = 136
    int32 = 139
    uint32 = 138
    int64 = 141
    uint64 = 140
    float4_e2m1fn = 64
    float8_e8m0fnu = 73
    float8_e4m3fn = 75
    float8_e4m3fnuz = 76
    float8_e5m2 = 77
    float8_e5m2fnuz = 78
    float16 = 79
    bfloat16 = 80
    float32 = 81
    float64 = 82

    def __init__(self, number: Any) -> None:
        spec = _SPECS[number]
        self._spec = spec
        self._bits = spec.bits
        self._nbytes = (spec.bits + 7) // 8

    # Members are singletons; Enum's own hash is a Python call in every dict look-up.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> builtins.bool:
        """Whether ``other`` is this dtype, or one of NumPy, PyTorch or Python, or a name of it."""
        if self is other:
            return True
        return other.__class__ is not DType and dtype_of(other) is self

    @classmethod
    def _missing_(cls, value: object) -> DType | None:
        found = dtype_of(value)
        if found is None:
            raise DTypeError("ML399", f"no dtype is {shown(value)}", fix=_LIKE_THIS)
        return found

    def __lt__(self, other: object) -> NoReturn:
        raise ArgumentTypeError(
            "ML974",
            f"{self} and {shown(other)} have no order",
            fix="compare what is meant: DType.float32.size_in_bytes",
        )

    __le__ = __gt__ = __ge__ = __lt__

    def __repr__(self) -> str:
        return f"DType.{self._name_}"

    def is_float(self) -> builtins.bool:
        """True for every floating-point type, from 4 to 64 bits."""
        return self._spec.kind == "float"

    def is_float8(self) -> builtins.bool:
        """True for the 8-bit floating-point types."""
        return self._spec.kind == "float" and self._bits == 8

    def is_half(self) -> builtins.bool:
        """True for the 16-bit floating-point types, `float16` and `bfloat16`."""
        return self._spec.kind == "float" and self._bits == 16

    def is_integral(self) -> builtins.bool:
        """True for the integer types; `bool` is not one."""
        return self._spec.kind in ("int", "uint")

    def is_signed_integral(self) -> builtins.bool:
        """True for `int8`, `int16`, `int32` and `int64`."""
        return self._spec.kind == "int"

    def is_unsigned_integral(self) -> builtins.bool:
        """True for `uint8`, `uint16`, `uint32` and `uint64`."""
        return self._spec.kind == "uint"

    @property
    def size_in_bits(self) -> int:
        """Bits of one value: 4 for `float4_e2m1fn`, 8 for `bool`."""
        return self._bits

    @property
    def size_in_bytes(self) -> int:
        """Bytes one value takes in a tensor, at least 1."""
        return self._nbytes

    @property
    def itemsize(self) -> int:
        """`size_in_bytes`, as NumPy and PyTorch call it."""
        return self._nbytes

    @property
    def is_floating_point(self) -> builtins.bool:
        """`is_float`, as PyTorch calls it."""
        return self.is_float()

    @property
    def is_complex(self) -> builtins.bool:
        """False: no dtype is complex."""
        return False

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises: a dtype converts no number, as those of NumPy do.

        Raises:
            ArgumentTypeError: ML970, always.
        """
        raise ArgumentTypeError(
            "ML970",
            f"{self} is no function",
            fix="a number of NumPy: np.float32(1); a tensor: driver.Tensor.scalar(1, "
            "DType.float32)",
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """`ml_numpy`: NumPy asks for it, so that ``np.zeros(4, DType.float32)`` works."""
        return _ml_numpy(self)

    @property
    def align(self) -> int:
        """Alignment of one value in bytes: its own size."""
        return self._nbytes

    @property
    def short(self) -> str:
        """The spelling in IR text, such as ``f32``, ``si64``, ``ui8``, ``bf16`` or ``bool``."""
        return self._spec.short

    @property
    def c_name(self) -> str:
        """The C type that stores one value, valid without a header.

        Floats of less than 32 bits are stored as unsigned integers of their size: plain
        C has no types for them, and the kernels convert the bits themselves.
        """
        return self._spec.c_name

    @property
    def ml_numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that holds exactly these values, from `ml_dtypes` where NumPy has none.

        This is what the NumPy reference of an operation computes with. Unlike
        `to_numpy` it never fails and never changes the meaning of the bits.
        """
        return _ml_numpy(self)

    @property
    def largest(self) -> int | float:
        """The largest finite value: 127 for `int8`, 65504.0 for `float16`, 1 for `bool`."""
        return _limits(self)[1]

    @property
    def lowest(self) -> int | float:
        """The lowest finite value: -128 for `int8`, 0 for unsigned types and `bool`."""
        return _limits(self)[0]

    @property
    def significand_bits(self) -> int:
        """Significand bits of a float, the implicit one included (24 for `float32`); else 0."""
        return self._spec.digits

    @StaticFunction
    def from_short(name: str) -> DType:  # noqa: N805
        """The dtype spelled ``name`` in IR text, such as ``f32`` or ``si8``.

        Raises:
            DTypeError: ML103, no dtype has this spelling.
        """
        found = _BY_SHORT.get(name)
        if found is None:
            raise DTypeError(
                "ML103",
                f"no dtype is spelled {name!r} in IR text",
                fix="use one of " + " ".join(_BY_SHORT),
            )
        return found

    @StaticFunction
    def from_numpy(dtype: np.dtype[Any] | type) -> DType:  # noqa: N805
        """The `DType` of a NumPy dtype, those of `ml_dtypes` included.

        Raises:
            DTypeError: ML103 (a ValueError), not a dtype of tensors: complex, strings,
                objects, dates, or bytes in the other machine's order.

        Example:
            >>> DType.from_numpy(np.dtype(np.float16))
            DType.float16
        """
        try:
            found = _BY_NUMPY.get(dtype)  # type: ignore[arg-type]
        except TypeError:
            found = None
        return found if found is not None else _from_numpy_slow(dtype)

    def to_numpy(self) -> np.dtype[Any]:
        """The NumPy dtype with this type's bits; 8-bit floats come as ``uint8``.

        Raises:
            DTypeError: ML104 (a ValueError), NumPy has no such type (`bfloat16`, 4-bit).

        Example:
            >>> DType.float32.to_numpy()
            dtype('float32')
        """
        if self is DType.bfloat16 or self is DType.float4_e2m1fn:
            raise DTypeError(
                "ML104",
                f"NumPy has no type for {self._name_}",
                fix=f"use DType.{self._name_}.ml_numpy (ml_dtypes), or view the bits as "
                + ("uint16" if self is DType.bfloat16 else "uint8"),
            )
        if self.is_float8():
            return np.dtype(np.uint8)
        return _ml_numpy(self)

    @StaticFunction
    def from_torch(dtype: torch.dtype, _error: Exception | None = None) -> DType:  # noqa: N805
        """The `DType` of a PyTorch dtype. Does not import PyTorch.

        Args:
            dtype: a ``torch.dtype``.
            _error: raised instead of the usual error when there is no equivalent.

        Raises:
            DTypeError: ML103 (a ValueError), no equivalent (complex or quantised types).
        """
        found = _BY_TORCH.get(str(dtype))
        if found is None:
            raise _error or DTypeError(
                "ML103",
                f"no dtype of tensors equals the PyTorch dtype {dtype!r}",
                fix="convert first, for example tensor.float()",
            )
        return found

    def to_torch(self, _error: Exception | None = None) -> torch.dtype:
        """The PyTorch dtype with the same values.

        Args:
            _error: raised instead of the usual errors.

        Raises:
            ImportError: PyTorch is not installed.
            DTypeError: ML104 (a ValueError), the installed PyTorch has no such type.
        """
        try:
            module = importlib.import_module("torch")
        except ImportError as error:
            raise (_error or error) from None
        found = getattr(module, _spelling(self), None)
        if self is DType.float4_e2m1fn or not isinstance(found, module.dtype):
            raise _error or DTypeError(
                "ML104",
                f"PyTorch {module.__version__} has no type for {self._name_}",
                fix="view the bits as uint8, or convert to float32",
            )
        result: torch.dtype = found
        return result


elsewhere(
    DType,
    "dtype",
    {
        "kind": "x.dtype.is_float(), x.dtype.is_integral()",
        "type": "x.dtype.to_numpy()",
        "char": "x.dtype.short",
        "bits": "x.dtype.size_in_bits",
        "nbytes": "x.dtype.itemsize",
        "size": "x.dtype.itemsize",
        "numpy": "x.dtype.to_numpy()",
        "max": "x.dtype.largest; as NumPy's: np.finfo(x.dtype).max",
        "min": "x.dtype.lowest; as NumPy's: np.finfo(x.dtype).min",
        "eps": "np.finfo(x.dtype).eps",
    },
)


def dtype_of(given: object) -> DType | None:
    """The dtype that ``given`` stands for: a `DType`, its name, a NumPy or PyTorch dtype, or a type
    such as ``float``; None when it stands for none.

    Example:
        >>> from maxlab.dtype import dtype_of
        >>> dtype_of("float32"), dtype_of(np.int8), dtype_of("no such")
        (DType.float32, DType.int8, None)
    """
    if isinstance(given, DType):
        return given
    if isinstance(given, str):
        member = DType.__members__.get(given)
        member = _BY_SHORT.get(given) if member is None else member
        if member is not None:
            return member
    elif type(given).__module__ == "torch":  # of others, such as tensors, the text may be refused
        return _BY_TORCH.get(str(given)) if type(given).__name__ == "dtype" else None
    elif not isinstance(given, (np.dtype, type)):
        return None
    try:
        return DType.from_numpy(np.dtype(given))
    except Exception:  # NumPy asks the object for its dtype, which may raise anything
        return None


def _spelling(dtype: DType) -> str:
    """The name NumPy, ml_dtypes and PyTorch all use."""
    return dtype._spec.numpy


@functools.cache
def _ml_numpy(dtype: DType) -> np.dtype[Any]:
    name = _spelling(dtype)
    if name in _ML_DTYPES or name.startswith("float8"):
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    return np.dtype(name)


@functools.cache
def _limits(dtype: DType) -> tuple[int | float, int | float]:
    spec = dtype._spec
    if spec.kind == "bool":
        return 0, 1
    if spec.kind == "uint":
        return 0, 2**spec.bits - 1
    if spec.kind == "int":
        return -(2 ** (spec.bits - 1)), 2 ** (spec.bits - 1) - 1
    if dtype is DType.float8_e8m0fnu:
        return spec.smallest, spec.largest
    return -spec.largest, spec.largest


_BY_SHORT: dict[str, DType] = {d.short: d for d in DType}
_BY_TORCH: dict[str, DType] = {
    f"torch.{_spelling(d)}": d for d in DType if d is not DType.float4_e2m1fn
}
# ml_dtypes is imported on first need, so its dtypes join this table then.
_BY_NUMPY: dict[np.dtype[Any], DType] = {
    np.dtype(_spelling(d)): d for d in DType if _spelling(d) not in _ML_DTYPES and not d.is_float8()
}


def _from_numpy_slow(dtype: object) -> DType:
    """`from_numpy` for scalar types, equivalent spellings and ml_dtypes."""
    try:
        resolved: np.dtype[Any] = np.dtype(dtype)  # type: ignore[call-overload]
    except Exception:  # NumPy asks the object for its dtype, which may raise anything
        resolved = np.dtype(object)
    found = _BY_NUMPY.get(resolved)
    if found is None and resolved.kind in "Vf" and resolved.names is None:
        for candidate in DType:
            if candidate.ml_numpy == resolved:
                found = _BY_NUMPY[resolved] = candidate
                break
    if found is None:
        swapped = resolved.kind in "iufb" and not resolved.isnative
        raise DTypeError(
            "ML103",
            f"no dtype of tensors equals the NumPy dtype {shown(dtype)}",
            fix="convert to native byte order: array.astype(array.dtype.newbyteorder('='))"
            if swapped
            else "convert first, for example array.astype(np.float32)",
        )
    return found


# ------------------------------------------------------------------ promotion

_KIND_ORDER = {"bool": 0, "uint": 1, "int": 2, "float": 3}


def fits(source: DType, target: DType) -> bool:
    """True if ``target`` represents every value of ``source`` exactly."""
    if source is target:
        return True
    if source is DType.bool:
        return target is not DType.float8_e8m0fnu  # which has no zero
    a, b = source._spec, target._spec
    if b.kind == "bool":
        return False
    if a.kind == "float":
        return (
            b.kind == "float"
            and target is not DType.float8_e8m0fnu  # it has neither zero nor a sign
            and (source is not DType.float8_e5m2 or b.bits > 8)  # the others have no infinity
            and a.digits <= b.digits
            and a.largest <= b.largest
            and a.smallest >= b.smallest
        )
    value_bits = a.bits - (a.kind == "int")
    if b.kind == "float":
        return target is not DType.float8_e8m0fnu and value_bits <= b.digits
    if a.kind == "int" and b.kind == "uint":
        return False
    return value_bits <= b.bits - (b.kind == "int")


@functools.cache
def promote(a: DType, b: DType) -> DType:
    """The dtype that operands of type ``a`` and ``b`` are both converted to.

    `bool` gives way to anything. Otherwise the result has the higher kind (unsigned,
    signed, float) and the larger size of the two, and must hold every value of both; an
    integer with an 8-bit float meets in `float16`. There is no wider common type to
    fall back to: a mix that would lose values is an error, to be settled by a cast.

    Raises:
        DTypeError: ML101 (a ValueError), "Unsafe cast".

    Example:
        >>> promote(DType.uint8, DType.int32)
        DType.int32
    """
    if a is b:
        return a
    kind = max(a._spec.kind, b._spec.kind, key=_KIND_ORDER.__getitem__)
    bits = max(a.size_in_bits, b.size_in_bits)
    mixed = a.is_float() != b.is_float()
    candidates: list[DType] = [d for d in (a, b) if d._spec.kind == kind and d.size_in_bits == bits]
    if not candidates:
        bits = max(bits, 16) if kind == "float" else bits
        candidates = [d for d in DType if d._spec.kind == kind and d.size_in_bits == bits]
    elif mixed and bits == 8 and DType.bool not in (a, b):
        candidates = [DType.float16]
    for candidate in candidates:
        if fits(a, candidate) and fits(b, candidate):
            return candidate
    raise DTypeError(
        "ML101",
        f"Unsafe cast: {a.name} and {b.name} have no common dtype that keeps every value of both",
        fix=f"cast one operand, for example ops.cast(x, DType.{_suggest(a, b).name})",
    )


def _suggest(a: DType, b: DType) -> DType:
    """The dtype most people would cast to."""
    if a.is_float() and b.is_float():
        return DType.float32
    if a.is_float() or b.is_float():
        return a if a.is_float() else b
    return DType.int64 if max(a.size_in_bits, b.size_in_bits) > 16 else DType.int32


# ------------------------------------------------------------------ weak operands


def check_scalar(value: object, dtype: DType) -> bool | int | float:
    """``value`` as the Python value a tensor of ``dtype`` takes it for.

    Python and NumPy numbers are *weak* operands: they take the tensor's dtype, if it
    can represent them. Integers must be in range, and small enough to be exact in a
    float dtype; a float never becomes an integer or a bool. A float is rounded to a
    float dtype, and overflows to infinity, as the computation itself would.

    Raises:
        DTypeError: ML102 (a ValueError), the dtype cannot hold the value.
        ArgumentTypeError: ML105 (a TypeError), not a real number.

    Example:
        >>> check_scalar(3, DType.float32)
        3.0
    """
    if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0:
        check_unmasked(value, "the value")
        value = _python_value(value)
    if isinstance(value, bool):
        return _check_int(int(value), dtype) if dtype is not DType.bool else value
    if isinstance(value, int):
        return _check_int(value, dtype)
    if isinstance(value, float):
        if not dtype.is_float():
            raise DTypeError(
                "ML102",
                f"the float {value!r} cannot become {dtype.name}",
                fix="cast the tensor to a float dtype, or write an integer",
            )
        return value
    raise ArgumentTypeError(
        "ML105",
        f"expected a real number for a {dtype.name} tensor, got {type(value).__name__}",
        fix="pass an int, float, bool or NumPy number",
    )


def _python_value(value: np.generic | np.ndarray[Any, Any]) -> object:
    """The Python number of a rank-0 NumPy value; types of ml_dtypes count as float."""
    if value.dtype.kind == "V":
        return float(value)
    return value.item()


def _check_int(value: int, dtype: DType) -> bool | int | float:
    if dtype.is_float():
        limit = 2**dtype.significand_bits
        if abs(value) > limit or (dtype is DType.float8_e8m0fnu and value <= 0):
            raise DTypeError(
                "ML102",
                f"the int {shown(value)} may not be exact in {dtype.name}, "
                f"whose integers are exact up to {limit}",
                fix=f"write {shown(value)}. as a float to accept rounding, or cast the tensor",
            )
        return float(value)
    low, high = _limits(dtype)
    if not low <= value <= high:
        raise DTypeError(
            "ML102",
            f"the int {shown(value)} is outside {dtype.name}, which holds {low} to {high}",
            fix="cast the tensor to a wider dtype",
        )
    return bool(value) if dtype is DType.bool else value


def check_unmasked(values: object, what: str = "the array") -> None:
    """Raises if ``values`` is a masked array of NumPy, whose mask no tensor can have.

    Raises:
        TensorError: ML413 (a ValueError), it is one.

    Example:
        >>> check_unmasked(np.ones(3))
    """
    if type(values) is np.ndarray:
        return
    masks = sys.modules.get("numpy.ma")  # whoever has a masked array has imported it
    if masks is not None and isinstance(values, masks.MaskedArray):
        raise TensorError(
            "ML413",
            f"{what} is a masked array, and a tensor has no mask: masked elements would count",
            fix="pass value.filled(0), or another number for what is masked",
        )


def check_array(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """``values`` converted to `DType.ml_numpy` of ``dtype``, each one checked like a weak scalar.

    The result is ``values`` itself when nothing has to change.

    Raises:
        DTypeError: ML102, a value does not fit; ML103, not numbers.
        TensorError: ML413, a masked array.
    """
    check_unmasked(values)
    source = DType.from_numpy(values.dtype)
    target = dtype.ml_numpy
    if source is dtype:
        return values
    if source.is_float():
        if not dtype.is_float():
            raise DTypeError(
                "ML102",
                f"an array of {source.name} cannot become {dtype.name}",
                fix=f"convert it yourself: array.astype('{target}')",
            )
    elif values.size and not fits(source, dtype):
        check_scalar(int(values.min()), dtype)
        check_scalar(int(values.max()), dtype)
    with np.errstate(over="ignore"):
        return round_to(values, dtype)


def round_to(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """``values`` as elements of ``dtype``, floats rounded once, to nearest even.

    ml_dtypes goes through float32, which rounds float64 and wide integers twice.

    Args:
        values: Numbers; integers of an integer ``dtype`` wrap.
        dtype: The element type of the result.

    Example:
        >>> float(round_to(np.array(1 + 2**-8 + 2**-40), DType.bfloat16))
        1.0078125
    """
    target = dtype.ml_numpy
    if target.kind == "f" or not dtype.is_float() or values.dtype.itemsize < 4:
        return values.astype(target)
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        # What float64 may not hold is remembered in one odd bit: no narrower float has it.
        far = values >= 2**53
        if values.dtype.kind == "i":
            far |= values <= -(2**53)
        sticky = ((values & 0xFFF) != 0).astype(values.dtype) << 11
        values = np.where(far, values >> 12 << 12 | sticky, values)
    exact = values.astype(np.float64)
    near = exact.astype(np.float32)
    back = near.astype(np.float64)
    inexact = (back != exact) & ~np.isnan(exact)
    bits = near.view(np.uint32)
    odd = np.where(inexact, (bits - (np.abs(back) > np.abs(exact))) | 1, bits)
    return odd.astype(np.uint32).view(np.float32).astype(target)
