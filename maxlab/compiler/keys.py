"""Attributes as parts of keys: equal where nothing that reads them can tell a difference."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any


def frozen(attr: Any) -> Hashable:
    """A key that equal attributes share: ``1``, ``1.0`` and ``True`` are three attributes, 0.0 and
    -0.0 two, and NaN is equal to itself.

    Example:
        >>> frozen([1, 2]) == frozen([1, 2]), frozen(1) == frozen(True), frozen(0.0) == frozen(-0.0)
        (True, False, False)
    """
    if isinstance(attr, (list, tuple)):
        return (type(attr), *map(frozen, attr))
    if isinstance(attr, float):
        return (float, attr.hex())
    return (type(attr), attr)


def frozen_attrs(attrs: Mapping[str, Any]) -> Hashable:
    """A key that equal attributes of two ops share, whatever their order.

    Example:
        >>> frozen_attrs({"a": 1, "b": 2}) == frozen_attrs({"b": 2, "a": 1})
        True
    """
    if not attrs:
        return ()
    if len(attrs) == 1:
        ((name, attr),) = attrs.items()
        return (name, frozen(attr))
    return tuple((name, frozen(attrs[name])) for name in sorted(attrs))


__all__ = ["frozen", "frozen_attrs"]
