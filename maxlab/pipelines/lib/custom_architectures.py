"""Architectures of users: modules by name or by place, and the list that each exposes."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from maxlab.errors import InputError, InputTypeError, shown
from maxlab.pipelines.lib.architecture import SupportedArchitecture

_FORM = 'write "my_module", or "folder/that/has/it:my_module"'


def custom_architectures(spec: str) -> list[SupportedArchitecture]:
    """The architectures of a module, from its list ``ARCHITECTURES``.

    The module is imported, which runs it. From a folder it is imported under its plain name, and
    the folder becomes the last place where Python looks for modules, so that the module can import
    its neighbours. When that fails, both are taken back.

    Args:
        spec: The name of a module, or the folder that has it, a colon, and its name.

    Raises:
        InputTypeError: ML980 (a TypeError), ``spec`` is no str.
        InputError: ML175 (a ValueError), it has another form, there is no such module, it fails
            when it is imported, or its ``ARCHITECTURES`` are no list of `SupportedArchitecture`.
    """
    if not isinstance(spec, str):
        raise InputTypeError(
            "ML980",
            f"custom_architectures: a str expected ≠ {shown(spec)} ({type(spec).__name__}) given",
            fix=_FORM,
        )
    folder, colon, name = spec.rpartition(":")
    if name.endswith(".py"):
        raise _refused(spec, "ends in .py", f"leave it out: {spec.removesuffix('.py')!r}")
    if not all(part.isidentifier() for part in name.split(".")) or (colon and not folder):
        raise _refused(spec, "is no name of a module", _FORM)
    module = _from_folder(spec, folder, name) if colon else _by_name(spec, name)
    found: Any = getattr(module, "ARCHITECTURES", None)
    if found is None:
        raise _refused(
            spec,
            f"has no list ARCHITECTURES ({_file_of(module)})",
            "write ARCHITECTURES = [my_architecture] in the module",
        )
    if not isinstance(found, list) or not found:
        raise _refused(
            spec,
            f"has ARCHITECTURES = {shown(found)}, which is no list with elements",
            "write ARCHITECTURES = [my_architecture] in the module",
        )
    for index, one in enumerate(found):
        if not isinstance(one, SupportedArchitecture):
            raise _refused(
                spec,
                f"has ARCHITECTURES[{index}] = {shown(one)}, which is no SupportedArchitecture",
                "make a SupportedArchitecture of each element",
            )
    return list(found)


def _by_name(spec: str, name: str) -> ModuleType:
    """The module ``name``, from where Python looks for modules."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _failed(spec, name, error) from error


def _from_folder(spec: str, folder: str, name: str) -> ModuleType:
    """The module ``name`` that lies in ``folder``."""
    if "\0" in folder:
        raise _refused(spec, "has a NUL in its path", _FORM)
    place = os.path.realpath(os.path.expanduser(folder))
    first = name.partition(".")[0]
    found = PathFinder.find_spec(first, [place]) if os.path.isdir(place) else None
    if found is None:
        raise _refused(
            spec,
            f"names no module: {place} has no {first}.py, and no folder {first}",
            _FORM,
        )
    known = sys.modules.get(first)
    if known is not None and not _is_of(known, found.origin, place):
        raise _refused(
            spec,
            f"is {found.origin or place}, and {first} is {_file_of(known)} already",
            f"rename {first} in {place}",
        )
    before = set(sys.modules)
    added = place not in sys.path
    if added:
        sys.path.append(place)
    try:
        if known is None:
            _execute(found, first)
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        for one in set(sys.modules) - before:
            if one == first or one.startswith(f"{first}."):
                del sys.modules[one]
        if added:
            sys.path.remove(place)
        raise _failed(spec, name, error) from error


def _execute(found: Any, name: str) -> None:
    """Imports what the finder has found: another place may have a module of this name too."""
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    if found.loader is not None:
        found.loader.exec_module(module)


def _is_of(module: ModuleType, origin: str | None, place: str) -> bool:
    """True if ``module`` is the one of the file ``origin``; of a folder without one, in
    ``place``."""
    file = getattr(module, "__file__", None)
    if origin is not None and file is not None:
        return os.path.realpath(file) == os.path.realpath(origin)
    paths = [os.path.realpath(one) for one in getattr(module, "__path__", [])]
    return origin is None and any(Path(one).parent == Path(place) for one in paths)


def _file_of(module: ModuleType) -> str:
    return str(getattr(module, "__file__", None) or module.__name__)


def _failed(spec: str, name: str, error: BaseException) -> InputError:
    """The error for a module that is not there, or that fails."""
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if name == error.name or name.startswith(f"{error.name}."):
            return _refused(
                spec, f"names no module: Python finds no {error.name}", f"{_FORM}; see sys.path"
            )
    why = f"{type(error).__name__}: {error}"
    return _refused(spec, "fails when it is imported", "mend the module", why)


def _refused(spec: str, what: str, fix: str, *why: str) -> InputError:
    return InputError("ML175", f"the custom architecture {spec!r} {what}", why=why, fix=fix)


__all__ = ["custom_architectures"]
