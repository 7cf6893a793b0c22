"""The types of graph values."""

from __future__ import annotations

from maxlab.ir import (
    BufferType,
    ConvInputLayout,
    DeviceKind,
    DeviceRef,
    FilterLayout,
    OpaqueType,
    TensorType,
    Type,
)

__all__ = [
    "BufferType",
    "ConvInputLayout",
    "DeviceKind",
    "DeviceRef",
    "FilterLayout",
    "OpaqueType",
    "TensorType",
    "Type",
]
