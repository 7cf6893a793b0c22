"""GGUF and PyTorch files written by hand, byte by byte, so that a test can make one wrong."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

# ---------------------------------------------------------------- GGUF
KINDS = {"<f4": 0, "<f2": 1, "|i1": 24, "<i2": 25, "<i4": 26, "<i8": 27, "<f8": 28}


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, kind: int, value: bytes) -> bytes:
    """A key and its value, which is written already."""
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, values: bytes) -> bytes:
    return struct.pack("<IQ", kind, count) + values


def info(name: str, dims: Sequence[int], kind: int, offset: int) -> bytes:
    """The description of a tensor; ``dims`` as the file has them, fastest first."""
    head = text(name) + struct.pack("<I", len(dims))
    return head + struct.pack(f"<{len(dims)}QIQ", *dims, kind, offset)


def gguf(
    pairs: Sequence[bytes] = (),
    infos: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
    magic: bytes = b"GGUF",
) -> bytes:
    tensors, keys = counts or (len(infos), len(pairs))
    head = magic + struct.pack("<IQQ", version, tensors, keys) + b"".join([*pairs, *infos])
    return head + bytes(-len(head) % alignment) + data


def gguf_of(tensors: Mapping[str, Array], pairs: Sequence[bytes] = (), version: int = 3) -> bytes:
    """A file of plain tensors."""
    infos, data = [], b""
    for name, tensor in tensors.items():
        data += bytes(-len(data) % 32)
        kind = 30 if tensor.dtype == ml_dtypes.bfloat16 else KINDS[tensor.dtype.str]
        infos.append(info(name, tensor.shape[::-1], kind, len(data)))
        data += tensor.tobytes()
    return gguf(pairs, infos, data, version=version)


# ---------------------------------------------------------------- PyTorch
STORAGES = {
    "float32": "FloatStorage", "float64": "DoubleStorage", "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage", "int64": "LongStorage", "uint8": "ByteStorage",
    "bool": "BoolStorage",
}  # fmt: skip
NO_HOOKS = b"ccollections\nOrderedDict\n)R"


def word(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def whole(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def together(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def storage(kind: str, key: str, count: int) -> bytes:
    named = b"ctorch\n" + kind.encode() + b"\n"
    return together(word("storage"), named, word(key), word("cpu"), whole(count)) + b"Q"


def tensor(of: bytes, offset: int, size: Sequence[int], stride: Sequence[int]) -> bytes:
    sizes, strides = (together(*map(whole, n)) for n in (size, stride))
    arguments = together(of, whole(offset), sizes, strides, b"\x89", NO_HOOKS)
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R"


def state(items: Mapping[str, bytes]) -> bytes:
    """A pickle of a dict, whose values are written already."""
    inner = b"".join(word(name) + value for name, value in items.items())
    return b"\x80\x02}(" + inner + b"u."


def archive(pickle: bytes, storages: Mapping[str, bytes], **more: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in {"data.pkl": pickle, "byteorder": b"little", **more}.items():
            file.writestr(f"model/{name}", data)
        for key, data in storages.items():
            file.writestr(f"model/data/{key}", data)
    return out.getvalue()


def torch_of(tensors: Mapping[str, Array]) -> bytes:
    """A file of tensors, each with a storage of its own."""
    items, storages = {}, {}
    for key, (name, value) in enumerate(tensors.items()):
        storages[str(key)] = value.tobytes("A")  # as it lies in memory
        strides = [step // value.itemsize for step in value.strides]
        of = storage(STORAGES[value.dtype.name], str(key), value.size)
        items[name] = tensor(of, 0, value.shape, strides)
    return archive(state(items), storages)
