"""Watches weight files, which may change while models use them.

The executor looks at the files that weights of a model are mapped from before it runs the model, at
most ten times a second (``kernels/c/mapped.c``). A model without such weights does nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maxlab.driver import Tensor
from maxlab.driver.mapped import CHANGED, LOST, FileMemory, files_of, require_whole


class Watch:
    """The mapped files that the weights of a model come from.

    Args:
        files: The files, one or more.
        runtime: The runtime library that runs the model.
    """

    def __init__(self, files: Sequence[FileMemory], runtime: Any) -> None:
        ffi, self._lib = runtime.ffi, runtime.lib
        self.files = list(files)
        self._table = ffi.new("mx_mapped *[]", [file.guard_of(runtime) for file in files])
        self._watch = ffi.new("mx_watch *", {"n": len(files), "files": self._table})

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], runtime: Any) -> Watch | None:
        """The watch of the files that have any of ``tensors``; None when there are none.

        Raises:
            WeightFileError: ML639 or ML641, one of them has changed since it was mapped.
        """
        files = files_of({name: x.host_span for name, x in tensors.items()})
        if not files:
            return None
        made = cls(files, runtime)
        made.require_whole()
        return made

    @property
    def address(self) -> Any:
        """The ``mx_watch *`` that the executor looks at."""
        return self._watch

    def look(self) -> None:
        """Raises unless the files are what was mapped, as far as a look tells that may be 100 ms
        old.

        Raises:
            WeightFileError: ML639 or ML641.
        """
        if self._lib.mx_look(self._watch):
            self.require_whole()

    def require_read(self) -> None:
        """Raises when a page of a file could not be read.

        Raises:
            WeightFileError: ML641.
        """
        for file in self.files:
            if file.is_lost:
                file.require_whole()

    def require_whole(self) -> None:
        """Raises unless the files are what was mapped.

        Raises:
            WeightFileError: ML639, a file has changed; ML641, a page of it could not be read.
        """
        for file in self.files:
            file.require_whole()


def settled(code: int, watch: Watch | None, addresses: Iterable[int]) -> int:
    """The ``code`` of an execute without what it says of files.

    Args:
        code: What the execute gave.
        watch: The files of the model.
        addresses: The memory that it used. Another file of the process may be the one that is lost.

    Raises:
        WeightFileError: ML639 or ML641, a file that it used has changed or lost a page.
    """
    if code >= LOST:
        if watch is not None:
            watch.require_whole()
        if code & LOST:
            require_whole(addresses)
        assert not code & CHANGED, "no step ran, so a file of the watch has changed"
    return code & ~LOST


__all__ = ["CHANGED", "LOST", "Watch", "settled"]
