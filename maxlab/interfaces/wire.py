"""Messages between processes: msgpack with NumPy arrays, inline or in shared memory."""

from __future__ import annotations

import struct
from math import prod
from typing import Any, TypeGuard, get_args, get_origin

import msgspec
import numpy as np
import numpy.typing as npt

from maxlab.dtype import DType
from maxlab.errors import DocumentError, InputTypeError, MaxlabError, shown
from maxlab.interfaces import fields
from maxlab.interfaces.shared import SharedMemoryArray, dtype_of, sizes

_ARRAY = 1
"""The code of msgpack's extension types that an array travels under."""
_HEAD = struct.Struct("<H")
_FLAG = "__shm__"
_pack = msgspec.msgpack.encode
_header = msgspec.msgpack.Decoder(tuple[str, list[int]])


class MsgpackNumpyEncoder:
    """Makes bytes of an object; `msgpack_numpy_encoder` makes one.

    It can be pickled, and so be sent to a process that is to use it.
    """

    def __init__(self, use_shared_memory: bool = False, shared_memory_threshold: int = 0) -> None:
        fields.flag("msgpack_numpy_encoder.use_shared_memory", use_shared_memory)
        fields.integer(0)("msgpack_numpy_encoder.shared_memory_threshold", shared_memory_threshold)
        self._options = use_shared_memory, shared_memory_threshold
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._other)

    def __reduce__(self) -> tuple[type[MsgpackNumpyEncoder], tuple[bool, int]]:
        return type(self), self._options

    def __call__(self, obj: Any) -> bytes:
        """The message that ``obj`` is written as.

        Args:
            obj: A struct, a dataclass, or what msgpack knows: None, numbers, texts, lists, dicts.

        Raises:
            InputTypeError: A part of ``obj`` cannot leave the process (a TypeError).
        """
        try:
            return self._encoder.encode(obj)
        except MaxlabError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InputTypeError(
                "ML984", f"{shown(obj)} cannot be made a message", why=[str(error)]
            ) from error

    def _other(self, value: Any) -> Any:
        """The value that is written instead of ``value``, which msgpack does not know."""
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return value.item()
        if isinstance(value, SharedMemoryArray):
            shape = list(value.shape)
            return {_FLAG: True, "name": value.name, "shape": shape, "dtype": value.dtype}
        fix = "take it out of what is sent: it stays in this process"
        if hasattr(value, "to_numpy"):
            fix = "send value.to_numpy()"
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise InputTypeError("ML984", f"a {kind} cannot be a part of a message", fix=fix)

    def _array(self, array: npt.NDArray[Any]) -> Any:
        # Bytes go in the order of this machine's, whatever order the array has them in.
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        try:
            name = DType.from_numpy(array.dtype).name
        except ValueError as error:
            raise InputTypeError(
                "ML984", f"an array of {array.dtype} cannot be a part of a message"
            ) from error
        shared, threshold = self._options
        if shared and array.nbytes >= max(threshold, 1):
            placed = SharedMemoryArray.put(array)
            if placed is not None:
                return placed
        head = _pack((name, array.shape))
        return msgspec.msgpack.Ext(_ARRAY, _HEAD.pack(len(head)) + head + array.tobytes())


class MsgpackNumpyDecoder:
    """Makes an object of one type of bytes; `msgpack_numpy_decoder` makes one.

    It can be pickled, and so be sent to a process that is to use it.
    """

    def __init__(self, type_: Any, copy: bool = True) -> None:
        fields.flag("msgpack_numpy_decoder.copy", copy)
        self._options = type_, copy
        try:
            self._decoder = msgspec.msgpack.Decoder(
                type_, dec_hook=self._typed, ext_hook=self._extension
            )
        except (TypeError, NameError) as error:
            raise InputTypeError(
                "ML980",
                f"msgpack_numpy_decoder: a type that messages can have expected ≠ {shown(type_)} "
                "given",
                why=[str(error)],
            ) from error

    def __reduce__(self) -> tuple[type[MsgpackNumpyDecoder], tuple[Any, bool]]:
        return type(self), self._options

    def __call__(self, encoded: bytes | bytearray | memoryview) -> Any:
        """The object that ``encoded`` holds.

        Args:
            encoded: A message.

        Raises:
            DocumentError: The message is cut off, or holds what the type does not allow (a
                ValueError).
            InputTypeError: ``encoded`` is not bytes.
        """
        fields.instance(bytes, bytearray, memoryview)("msgpack_numpy_decoder", encoded)
        try:
            found = self._decoder.decode(encoded)
            return self._filled(found) if self._options[0] is Any else found
        except DocumentError:
            raise
        except (
            *(msgspec.MsgspecError, ValueError, TypeError, KeyError),
            *(OverflowError, RecursionError, MemoryError),
        ) as error:
            inner = error.__cause__  # msgspec wraps what a part of the message raised
            if isinstance(inner, DocumentError):
                where = str(error).rpartition(" - at ")[2].strip("`")
                raise DocumentError(
                    inner.code, inner.what, why=[*inner.why, f"it is at {where}"], fix=inner.fix
                ) from error
            kind = getattr(self._options[0], "__name__", str(self._options[0]))
            raise DocumentError(
                "ML983", f"a message that holds no {kind}", why=[shown(str(error), 500)]
            ) from error

    def _extension(self, code: int, data: memoryview) -> npt.NDArray[Any]:
        """The array of an extension type."""
        if code != _ARRAY or len(data) < _HEAD.size:
            raise DocumentError("ML983", f"an extension of the code {code}, which is no array")
        start = _HEAD.size + _HEAD.unpack(data[: _HEAD.size])[0]
        name, given = _header.decode(data[_HEAD.size : start])
        dtype, shape = dtype_of(name), sizes(given)
        wanted = prod(shape) * dtype.itemsize
        if len(data) - start != wanted:
            raise DocumentError(
                "ML983",
                f"an array {name}{list(shape)} of {max(len(data) - start, 0)} bytes, and not "
                f"{wanted}",
            )
        array = np.frombuffer(data[start:], dtype).reshape(shape)
        return array.copy() if self._options[1] else array

    def _typed(self, kind: Any, value: Any) -> Any:
        """The value that stands for ``value`` in a field of the type ``kind``, which msgpack does
        not know."""
        origin = get_origin(kind) or kind
        if origin is np.ndarray:
            array = self._taken(value) if _is_shared(value) else value
            if not isinstance(array, np.ndarray):
                raise DocumentError("ML983", f"an array expected ≠ {shown(value)} in the message")
            _check_dtype(kind, array)
            return array
        if getattr(origin, "_is_protocol", False):
            raise DocumentError(
                "ML983",
                f"a {origin.__name__} expected, which is a protocol: a decoder needs a class",
                fix="name the class, as in TextGenerationInputs[TextContext]",
            )
        return value

    def _taken(self, value: dict[str, Any]) -> npt.NDArray[Any]:
        if set(value) != {_FLAG, "name", "shape", "dtype"} or not isinstance(value["name"], str):
            raise DocumentError("ML983", f"a segment of shared memory expected ≠ {shown(value)}")
        dtype_of(value["dtype"])
        there = SharedMemoryArray(value["name"], sizes(value["shape"]), value["dtype"])
        return there.take(copy=self._options[1])

    def _filled(self, value: Any) -> Any:
        """``value`` of a message without a type, with the arrays that are in shared memory."""
        if _is_shared(value):
            return self._taken(value)
        if isinstance(value, dict):
            return {key: self._filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        return value


def _is_shared(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and value.get(_FLAG) is True


def _check_dtype(kind: Any, array: npt.NDArray[Any]) -> None:
    """Raises unless ``array`` has elements of ``kind``, such as ``NDArray[np.integer]``."""
    arguments = get_args(kind)
    inner = get_args(arguments[1])[0] if len(arguments) > 1 else Any
    wanted = get_origin(inner) or inner
    if isinstance(wanted, type) and issubclass(wanted, np.generic):
        fields.array(wanted)("an array of the message", array)


def msgpack_numpy_encoder(
    use_shared_memory: bool = False, shared_memory_threshold: int = 0
) -> MsgpackNumpyEncoder:
    """A function that makes a message, in bytes, of an object that may hold NumPy arrays.

    Args:
        use_shared_memory: Whether arrays go through shared memory. Where it has no room, they are a
            part of the message as without it.
        shared_memory_threshold: Only arrays of at least so many bytes do; 0 is all that are not
            empty.

    Raises:
        InputTypeError, InputError: An argument of another type, or a negative threshold.

    Example:
        >>> from maxlab.interfaces import SamplingParams
        >>> encode, decode = msgpack_numpy_encoder(), msgpack_numpy_decoder(SamplingParams)
        >>> decode(encode(SamplingParams(top_k=5, seed=1))).top_k
        5
    """
    return MsgpackNumpyEncoder(use_shared_memory, shared_memory_threshold)


def msgpack_numpy_decoder(type_: Any, copy: bool = True) -> MsgpackNumpyDecoder:
    """A function that makes an object of ``type_`` of a message.

    Args:
        type_: The class, or a type such as ``dict[RequestID, TextGenerationOutput]``.
        copy: Whether arrays are copies, which may be written to, or read-only views of the message.

    Raises:
        InputTypeError: Messages cannot have this type.
    """
    return MsgpackNumpyDecoder(type_, copy)


def msgpack_eq(a: Any, b: Any) -> bool:
    """Whether two objects are written as the same message; meant for tests.

    Args:
        a: An object that can be a message.
        b: Another one.

    Raises:
        InputTypeError: One of them cannot be a message.

    Example:
        >>> import numpy as np
        >>> msgpack_eq({"x": np.arange(3)}, {"x": np.arange(3)}), msgpack_eq([1], [2])
        (True, False)
    """
    return _ordered(a) == _ordered(b)


def _ordered(value: Any) -> bytes:
    """The message of ``value`` with the keys of dicts and the elements of sets in order."""
    encoder = MsgpackNumpyEncoder()
    try:
        ordered = msgspec.msgpack.Encoder(enc_hook=encoder._other, order="deterministic")
        return ordered.encode(value)
    except TypeError:  # keys that are no texts have no order: theirs stays as it is
        return encoder(value)
