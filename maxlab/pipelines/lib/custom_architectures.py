"""Architectures of users: the list that a module exposes."""

from __future__ import annotations

from typing import Any

from maxlab.errors import shown
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.custom_modules import module_of, refused

_FIX = "write ARCHITECTURES = [SupportedArchitecture(...)] in it"


def custom_architectures(spec: str) -> list[SupportedArchitecture]:
    """The architectures of a module, from its list ``ARCHITECTURES``; the module is imported.

    Args:
        spec: The name of a module, or the folder that has it, a colon, and its name.

    Raises:
        InputTypeError: ML980 (a TypeError), ``spec`` is no str.
        InputError: ML133 (a ValueError), the module cannot be imported, or its ``ARCHITECTURES``
            are no list of `SupportedArchitecture`.
    """
    found: Any = getattr(module_of(spec), "ARCHITECTURES", None)
    if not isinstance(found, list) or not found:
        raise refused(spec, f"exposes no list ARCHITECTURES, got {shown(found)}", _FIX)
    for index, one in enumerate(found):
        if not isinstance(one, SupportedArchitecture):
            what = f"has ARCHITECTURES[{index}] = {shown(one)}, which is no SupportedArchitecture"
            raise refused(spec, what, _FIX)
    return list(found)


__all__ = ["custom_architectures"]
