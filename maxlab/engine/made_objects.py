"""Objects of opaque handles that kernels make in a run, which lets go of them at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from maxlab.toolchain import Runtime

_LOCAL = threading.local()


class Made:
    """The objects that one run, or one walk through the steps of a model, makes."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        release = runtime.lib.mx_release_all
        self.objects = runtime.ffi.gc(runtime.ffi.new("mx_object *[1]"), release)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Let what this thread executes put the objects it makes here."""
        before = getattr(_LOCAL, "made", None)
        _LOCAL.made = self
        try:
            yield
        finally:
            _LOCAL.made = before

    def release(self) -> None:
        """Let go of the objects; those that somebody else has live on."""
        self.runtime.lib.mx_release_all(self.objects)


@contextmanager
def some_run(runtime: Runtime) -> Iterator[None]:
    """Let what this thread makes live to the end of the ``with`` block, or of the run that it is
    in."""
    if getattr(_LOCAL, "made", None) is not None:
        yield
        return
    made = Made(runtime)
    try:
        with made.taken():
            yield
    finally:
        made.release()


def collecting(execute: Callable[..., int], runtime: Runtime) -> Callable[..., int]:
    """``execute``, whose objects go where `Made.taken` says; what is made elsewhere is let go at
    its end."""
    lib, null = runtime.lib, runtime.ffi.NULL

    def collected(*args: Any) -> int:
        found: Made | None = getattr(_LOCAL, "made", None)
        made = Made(runtime) if found is None else found
        lib.mx_collect(made.objects)
        try:
            return execute(*args)
        finally:
            lib.mx_collect(null)
            if found is None:
                made.release()

    return collected


__all__ = ["Made", "collecting", "some_run"]
