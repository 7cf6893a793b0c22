"""The names that the pickle of a PyTorch checkpoint may refer to, as tables.

Whatever is not named here is refused: see ``torch_pickle``.
"""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.dtype import DType


@dataclass(frozen=True, slots=True)
class StorageType:
    """A class of storages: the dtype of its elements, or None when no tensor of a graph has it."""

    spelling: str
    dtype: DType | None
    itemsize: int


# The dtypes of torch, those that no tensor of a graph has with the bytes of an element alone.
DTYPES = {
    dtype.name: StorageType(dtype.name, dtype, dtype.size_in_bytes)
    for dtype in DType
    if dtype is not DType.float4_e2m1fn
}
_STRANGE = {"complex32": 4, "complex64": 8, "complex128": 16, "bits8": 1, "bits16": 2}
_STRANGE |= dict.fromkeys(
    (
        "qint8",
        "quint8",
        "quint4x2",
        "quint2x4",
        "float4_e2m1fn_x2",
        "bits1x8",
        "bits2x4",
        "bits4x2",
    ),
    1,
)
_STRANGE["qint32"] = 4
DTYPES |= {name: StorageType(name, None, size) for name, size in _STRANGE.items()}

# Classes of storages, and the dtypes of their elements.
STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
}
UNTYPED = StorageType("bytes", DType.uint8, 1)
"""The storage of dtypes that have no class of their own; its count is in bytes."""

# Functions that rebuild what is no plain tensor, and why it cannot be read.
UNREADABLE = {
    "_rebuild_sparse_tensor": "is sparse",
    "_rebuild_qtensor": "is quantised by PyTorch",
    "_rebuild_nested_tensor": "is a nested tensor",
    "_rebuild_meta_tensor_no_storage": "is a meta tensor without data",
    "_rebuild_wrapper_subclass": "is of a class without data of its own",
    "_rebuild_device_tensor_from_numpy": "is kept by NumPy",
    "_rebuild_device_tensor_from_cpu_tensor": "is of a device of its own",
}
# What may stand beside tensors, by module; nothing is made of it.
HARMLESS = {
    "collections": {"Counter"},
    "_codecs": {"encode"},
    "builtins": {"bytearray", "set", "frozenset", "complex"},
    "__builtin__": {"bytearray", "set", "frozenset", "complex"},
    "torch": {
        "device", "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
        "per_channel_symmetric", "per_channel_affine_float_qparams",
    },
    "torch.serialization": {"_get_layout"},
}  # fmt: skip
NAMED = {
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    ("torch", "Tensor"),
    ("torch.nn.parameter", "Parameter"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_tensor_v3"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_parameter_with_state"),
    ("torch._tensor", "_rebuild_from_type_v2"),
}
"""The names that are understood, as module and name."""
