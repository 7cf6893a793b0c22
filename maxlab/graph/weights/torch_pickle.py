"""Reading the pickle of a PyTorch checkpoint without running anything.

A pickle is a program for a stack machine, and Python's own reader calls whatever it names. This one
calls nothing: the few names that describe tensors are understood here, others that are harmless
become ``OPAQUE``, and any other name is refused before anything was made of it. Its values are
``None``, numbers, texts, lists, tuples, dicts with text keys, and what this module defines. Work
and memory are bounded by the length of the pickle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from maxlab.dtype import DType
from maxlab.errors import WeightError
from maxlab.graph.weights.mapped import MAX_RANK, MappedFile, addressable
from maxlab.graph.weights.torch_names import (
    DTYPES,
    HARMLESS,
    NAMED,
    STORAGES,
    UNREADABLE,
    UNTYPED,
    StorageType,
)

MAX_PICKLE_BYTES = 64 << 20
MAX_OBJECTS = 4 << 20
"""The most containers and remembered values of one pickle: each takes far more than its bytes."""


class Opaque:
    """A value that no weight is made of: a set, a complex number, a layout."""


OPAQUE: Final = Opaque()


@dataclass(frozen=True, slots=True)
class Global:
    """A name that the pickle refers to, one of those that are understood."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage of the archive: the member ``data/<key>``."""

    key: str
    type: StorageType
    begin: int
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class TorchTensor:
    """A tensor of a checkpoint: a view of a storage. Offset and strides count elements."""

    file: MappedFile
    storage: Storage | None
    dtype: DType | None
    spelling: str
    """Its dtype in PyTorch's words, or why it cannot be read when ``dtype`` is None."""
    offset: int = 0
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


class Unpickler:
    """The reader of one pickle.

    Args:
        file: The archive, for messages.
        members: The members of the archive, by name.
        root: The folder of the archive that has ``data.pkl``.
    """

    def __init__(self, file: MappedFile, members: Mapping[str, tuple[int, int]], root: str) -> None:
        self._file = file
        self._members = members
        self._root = root
        begin, nbytes = members[f"{root}/data.pkl"]
        if nbytes > MAX_PICKLE_BYTES:
            raise file.bad(f"its data.pkl has {nbytes} bytes; checkpoints have far less")
        self._text = file.map[begin : begin + nbytes]
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._objects = 0

    # ------------------------------------------------------------ bytes
    def _bad(self, why: str) -> WeightError:
        return self._file.bad(f"its pickle {why}")

    def _take(self, nbytes: int) -> bytes:
        at = self._at
        self._at = at + nbytes
        if self._at > len(self._text):
            raise self._bad("is cut off")
        return self._text[at : self._at]

    def _number(self, nbytes: int) -> int:
        return int.from_bytes(self._take(nbytes), "little")

    def _line(self) -> str:
        end = self._text.find(b"\n", self._at)
        if end < 0:
            raise self._bad("is cut off")
        return self._decode(self._take(end + 1 - self._at)[:-1])

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._bad("has a text that is not UTF-8") from error

    # ------------------------------------------------------------ the stack
    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _made(self, value: Any) -> None:
        """Push something that takes more memory than its bytes in the pickle."""
        self._count()
        self._stack.append(value)

    def _count(self) -> None:
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise self._bad(f"has more than {MAX_OBJECTS} objects")

    def _pop(self) -> Any:
        if not self._stack:
            raise self._bad("takes a value where there is none")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack:
            raise self._bad("takes a value where there is none")
        return self._stack[-1]

    def _pop_mark(self) -> list[Any]:
        if not self._marks:
            raise self._bad("ends a list that it did not begin")
        items = self._stack
        self._stack = self._marks.pop()
        return items

    def _remember(self, index: int) -> None:
        self._count()
        self._memo[index] = self._top()

    def _recall(self, index: int) -> None:
        if index not in self._memo:
            raise self._bad("recalls what it did not remember")
        self._stack.append(self._memo[index])

    # ------------------------------------------------------------ the machine
    def load(self) -> Any:
        """The object that the pickle describes.

        Raises:
            WeightError: ML633, the pickle is damaged; ML747, it names what is not understood.
        """
        if self._take(1) != b"\x80" or self._number(1) not in (2, 3, 4, 5):
            raise self._bad("has a protocol that torch.save does not use")
        while True:
            code = self._take(1)
            if code == b".":
                return self._pop()
            step = _STEPS.get(code)
            if step is None:
                raise self._refused(code)
            step(self)

    def _refused(self, code: bytes) -> WeightError:
        named = {b"i": "INST", b"o": "OBJ", b"\x92": "NEWOBJ_EX", b"P": "PERSID"}
        named |= {b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4"}
        if code in named:
            return self._forbidden(f"the instruction {named[code]}")
        return self._bad(f"has the instruction {code!r}, which torch.save does not write")

    def _forbidden(self, what: str) -> WeightError:
        return WeightError(
            "ML747",
            f"{self._file.path} is refused: its pickle asks for {what}, which is no part of a "
            "tensor and could run any code",
            fix="if you trust the file, load it with torch and save its tensors alone: "
            "safetensors.torch.save_file(state_dict, path)",
        )

    def _mark(self) -> None:
        self._count()
        self._marks.append(self._stack)
        self._stack = []

    def _long(self, nbytes: int) -> None:
        raw = self._take(nbytes)
        # No count of elements is longer; as a key it would have to be hashed again and again.
        self._push(int.from_bytes(raw, "little", signed=True) if nbytes <= 16 else OPAQUE)

    def _tuple(self, count: int) -> None:
        if count > len(self._stack):
            raise self._bad("takes a value where there is none")
        values = tuple(self._stack[len(self._stack) - count :])
        del self._stack[len(self._stack) - count :]
        self._made(values)

    def _append(self, values: list[Any]) -> None:
        target = self._top()
        if isinstance(target, list):
            target.extend(values)
        elif target is not OPAQUE:
            raise self._bad("appends to what is no list")

    def _set(self, pairs: list[Any]) -> None:
        target = self._top()
        if target is OPAQUE:
            return
        if not isinstance(target, dict) or len(pairs) % 2:
            raise self._bad("sets items of what is no dict")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if type(key) is int:
                key = str(key)
            if type(key) is not str:  # no name of a weight, and not safe to hash
                continue
            if key in target:
                raise self._bad(f"has the key {key[:80]!r} twice")
            target[key] = value

    def _setitem(self) -> None:
        value = self._pop()
        self._set([self._pop(), value])

    def _dict(self) -> None:
        pairs = self._pop_mark()
        self._made({})
        self._set(pairs)

    def _global(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise self._bad("names a thing by what is no text")
        if module == "torch" and name in DTYPES:
            self._push(DTYPES[name])
        elif module == "torch" and name in STORAGES:
            self._push(DTYPES[STORAGES[name]])
        elif (module, name) == ("torch.storage", "UntypedStorage"):
            self._push(UNTYPED)
        elif (module, name) in NAMED or (module == "torch._utils" and name in UNREADABLE):
            self._made(Global(module, name))
        elif name in HARMLESS.get(module, ()):
            self._made(Global("", name))
        else:
            raise self._forbidden(f"{module[:80]}.{name[:80]}")

    def _stack_global(self) -> None:
        name = self._pop()
        self._global(self._pop(), name)

    def _persistent(self) -> None:
        match self._pop():
            case ("storage", StorageType() as type, str(key), str(), int(count)) if count >= 0:
                pass
            case _:
                raise self._bad("refers to what is no storage")
        where = self._members.get(f"{self._root}/data/{key}") if len(key) < 256 else None
        if where is None:
            raise self._file.bad(f"the storage {key[:80]!r} is missing")
        begin, nbytes = where
        if count * type.itemsize != nbytes:
            raise self._file.bad(
                f"the storage {key[:80]!r} has {nbytes} bytes for {count} of {type.spelling}"
            )
        self._made(Storage(key, type, begin, nbytes))

    def _build(self) -> None:
        """State of an object, such as the ``_metadata`` of a state dict: none of it is weights."""
        self._pop()
        if not isinstance(self._top(), (dict, TorchTensor, Opaque)):
            raise self._bad("sets the state of what has none")

    def _reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise self._forbidden("a call of what is no function")
        self._made(self._call(function, arguments))

    def _newobj(self) -> None:
        arguments, function = self._pop(), self._pop()
        if function != Global("collections", "OrderedDict") or arguments != ():
            raise self._forbidden("a new object of what is no dict")
        self._made({})

    # ------------------------------------------------------------ what is understood
    def _call(self, function: Global, arguments: tuple[Any, ...]) -> Any:
        if len(arguments) > 16:  # matching it would copy it, again and again
            raise self._bad(f"calls {function} with {len(arguments)} arguments")
        if function.name in UNREADABLE:
            return TorchTensor(self._file, None, None, UNREADABLE[function.name])
        match function.name, arguments:
            case ("OrderedDict", ()):
                return {}
            case ("Size", (tuple() as sizes,)):
                return sizes
            case ("_rebuild_tensor", (Storage() as storage, offset, size, stride)):
                return self._tensor(storage, storage.type, offset, size, stride, None)
            case (
                "_rebuild_tensor_v2",
                (Storage() as storage, offset, size, stride, _, _, *rest),
            ) if len(rest) < 2:
                return self._tensor(storage, storage.type, offset, size, stride, rest)
            case (
                "_rebuild_tensor_v3",
                (Storage() as storage, offset, size, stride, _, _, StorageType() as type, *rest),
            ) if len(rest) < 2:
                return self._tensor(storage, type, offset, size, stride, rest)
            case ("_rebuild_parameter", (TorchTensor() as tensor, _, _)):
                return tensor
            case ("_rebuild_parameter_with_state", (TorchTensor() as tensor, _, _, _)):
                return tensor
            case ("_rebuild_from_type_v2", (Global() as inner, Global() as type, tuple() as a, _)):
                if type.name in ("Tensor", "Parameter") and inner.name != function.name:
                    return self._call(inner, a)
        if not function.module:
            return OPAQUE
        raise self._bad(f"calls {function} with arguments that it does not take")

    def _tensor(
        self, storage: Storage, type: StorageType, offset: Any, size: Any, stride: Any, rest: Any
    ) -> TorchTensor:
        if not (
            _count(offset) and isinstance(size, tuple) and isinstance(stride, tuple)
            and len(size) == len(stride) <= MAX_RANK and all(map(_count, (*size, *stride)))
        ):  # fmt: skip
            raise self._bad("has a tensor of an impossible shape")
        if not addressable(size, type.itemsize):
            raise self._bad("has a tensor of a shape that no memory can hold")
        if 0 not in size:
            last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
            if (last + 1) * type.itemsize > storage.nbytes:
                raise self._bad("has a tensor that reaches beyond its storage")
        if rest and rest[0]:  # negated or conjugated when it is read
            reason = "is negated or conjugated lazily"
            return TorchTensor(self._file, None, None, reason, 0, size, stride)
        return TorchTensor(self._file, storage, type.dtype, type.spelling, offset, size, stride)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _unpack(code: str) -> Callable[[Unpickler], None]:
    layout = struct.Struct(code)

    def step(machine: Unpickler) -> None:
        machine._push(layout.unpack(machine._take(layout.size))[0])

    return step


def _constant(value: Any) -> Callable[[Unpickler], None]:
    return lambda machine: machine._push(value)


def _string(nbytes: int) -> Callable[[Unpickler], None]:
    return lambda machine: machine._push(machine._decode(machine._take(machine._number(nbytes))))


def _skipped(nbytes: int) -> Callable[[Unpickler], None]:
    def step(machine: Unpickler) -> None:
        machine._take(machine._number(nbytes))
        machine._push(OPAQUE)

    return step


def _frozen(machine: Unpickler) -> None:
    machine._pop_mark()
    machine._push(OPAQUE)


_STEPS: dict[bytes, Callable[[Unpickler], Any]] = {
    b"\x95": lambda m: m._take(8),  # FRAME
    b"(": Unpickler._mark,
    b"0": Unpickler._pop,
    b"1": Unpickler._pop_mark,
    b"2": lambda m: m._push(m._top()),  # DUP
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"J": _unpack("<i"),
    b"K": _unpack("<B"),
    b"M": _unpack("<H"),
    b"G": _unpack(">d"),
    b"\x8a": lambda m: m._long(m._number(1)),
    b"\x8b": lambda m: m._long(m._number(4)),
    b"X": _string(4),
    b"\x8c": _string(1),
    b"\x8d": _string(8),
    b"T": _string(4),
    b"U": _string(1),
    b"B": _skipped(4),
    b"C": _skipped(1),
    b"\x8e": _skipped(8),
    b"\x96": _skipped(8),
    b")": _constant(()),
    b"t": lambda m: m._made(tuple(m._pop_mark())),
    b"\x85": lambda m: m._tuple(1),
    b"\x86": lambda m: m._tuple(2),
    b"\x87": lambda m: m._tuple(3),
    b"]": lambda m: m._made([]),
    b"l": lambda m: m._made(m._pop_mark()),
    b"a": lambda m: m._append([m._pop()]),
    b"e": lambda m: m._append(m._pop_mark()),
    b"}": lambda m: m._made({}),
    b"d": Unpickler._dict,
    b"s": Unpickler._setitem,
    b"u": lambda m: m._set(m._pop_mark()),
    b"\x8f": _constant(OPAQUE),
    b"\x90": lambda m: m._append(m._pop_mark()),
    b"\x91": _frozen,
    b"c": lambda m: m._global(m._line(), m._line()),
    b"\x93": Unpickler._stack_global,
    b"R": Unpickler._reduce,
    b"\x81": Unpickler._newobj,
    b"b": Unpickler._build,
    b"Q": Unpickler._persistent,
    b"q": lambda m: m._remember(m._number(1)),
    b"r": lambda m: m._remember(m._number(4)),
    b"h": lambda m: m._recall(m._number(1)),
    b"j": lambda m: m._recall(m._number(4)),
    b"\x94": lambda m: m._remember(len(m._memo)),
}
