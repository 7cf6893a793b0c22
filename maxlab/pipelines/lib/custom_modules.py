"""Modules that users name: by the name of a module, or by the folder that has it and its name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from maxlab.errors import InputError, InputTypeError, shown

_FORM = "write my_module, or folder/path:my_module"


def module_of(spec: str) -> ModuleType:
    """The module that a setting names. It is imported, which runs it.

    From a folder it is imported under its plain name, and the folder becomes the last place where
    Python looks for modules, so that the module can import its neighbours, and another process can
    import it again. When that fails, both are taken back.

    Args:
        spec: The name of a module, or the folder that has it, a colon, and its name.

    Raises:
        InputTypeError: ML980 (a TypeError), ``spec`` is no str.
        InputError: ML133 (a ValueError), it has another form, there is no such module, or it fails
            when it is imported.
    """
    if not isinstance(spec, str):
        raise InputTypeError(
            "ML980",
            f"custom_architectures: a str expected ≠ {shown(spec)} ({type(spec).__name__}) given",
            fix=_FORM,
        )
    folder, colon, name = spec.rpartition(":")
    if name.endswith(".py"):
        raise refused(spec, "names a file", f"leave out .py: {spec.removesuffix('.py')}")
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts) or (colon and not folder) or "\0" in folder:
        raise InputError("ML133", f"{shown(spec)} names no module", fix=_FORM)
    if not colon:
        try:
            return importlib.import_module(name)
        except (Exception, SystemExit) as error:
            raise _failed(spec, error) from error
    return _from_folder(spec, os.path.realpath(os.path.expanduser(folder)), name)


def _from_folder(spec: str, place: str, name: str) -> ModuleType:
    """The module ``name`` that lies in the folder ``place``."""
    first = name.partition(".")[0]
    found = PathFinder.find_spec(first, [place]) if os.path.isdir(place) else None
    if found is None:
        raise refused(
            spec, "is not there", _FORM, f"{place} has no {first}.py, and no folder {first}"
        )
    known = sys.modules.get(first)
    if known is not None and not _is_of(known, found.origin, place):
        raise refused(
            spec,
            f"is {found.origin or place}, and {first} is {file_of(known)} already",
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
        raise _failed(spec, error) from error


def _execute(found: ModuleSpec, name: str) -> None:
    """Imports what the finder has found: another place may have a module of this name too."""
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    if found.loader is not None:
        found.loader.exec_module(module)


def _is_of(module: ModuleType, origin: str | None, place: str) -> bool:
    """True if ``module`` is the one of the file ``origin``; of a folder without one, in
    ``place``."""
    file: str | None = getattr(module, "__file__", None)
    if origin is not None and file is not None:
        return os.path.realpath(file) == os.path.realpath(origin)
    paths = [os.path.realpath(one) for one in getattr(module, "__path__", [])]
    return origin is None and any(Path(one).parent == Path(place) for one in paths)


def file_of(module: ModuleType) -> str:
    """The file of a module; its name where it has none."""
    return str(getattr(module, "__file__", None) or module.__name__)


def _failed(spec: str, error: BaseException) -> InputError:
    why = f"{type(error).__name__}: {error}"
    fix = f"{_FORM}, and see that Python imports it"
    return refused(spec, "of architectures cannot be imported", fix, why)


def refused(spec: str, what: str, fix: str, *why: str) -> InputError:
    """The error for the module that ``spec`` names."""
    return InputError("ML133", f"the module {shown(spec)} {what}", why=why, fix=fix)


__all__ = ["file_of", "module_of", "refused"]
