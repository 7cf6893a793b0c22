"""The kernels of maxlab's own ops, which stand in the files of ``kernels/ops``.

They are written in the language of the kernel libraries of users, which
docs/how-to/write-a-kernel.md describes, and read by the same parser. What an op has of them, and
with which sizes, its row decides in Python::

    OwnKernel(at, "scan.c", "columns", dims={"n": depth}, sizes={"BLOCKS": blocks}, SIDE=64).write()

What reads them is imported when the first kernel is written.

Only here may a text name what is around it, ``ctx`` or ``hi``, and leave ``@sizes`` to Python.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab.dtype import DType
from maxlab.ir.poly import Poly
from maxlab.opset.core import elements
from maxlab.opset.kernel import Buffer, Site

if TYPE_CHECKING:
    from maxlab.opset.declarations import Declaration, Parameter
    from maxlab.opset.macros import Macro

_PACKAGE = Path(__file__).resolve().parent.parent
_PLACES = (_PACKAGE / "_kernels" / "ops", _PACKAGE.parent / "kernels" / "ops")
"""Where the files are in a wheel, and in a checkout."""


@functools.cache
def own_library(file: str) -> Mapping[str, Declaration]:
    """The ops that ``kernels/ops/FILE`` declares, by name.

    Raises:
        FileNotFoundError: There is no such file, as the installation is not complete.
        ParseError: ML761, it cannot be read.
    """
    from maxlab.opset.declared import read_library

    text = (_folder() / file).read_text("utf-8")
    return {op.name: op for op in read_library(text, f"kernels/ops/{file}", 1, None, _MACROS)}


def _folder() -> Path:
    return next((place for place in _PLACES if place.is_dir()), _PLACES[-1])


class _Macros(Mapping[str, tuple["Macro", ...]]):
    """The macros of all files, by file; a file is read when its macros are first asked for."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Macro, ...]] = {}

    def __getitem__(self, file: str) -> tuple[Macro, ...]:
        found = self._read.get(file)
        if found is None:
            from maxlab.opset.declared import read_macros

            try:
                text = (_folder() / file).read_text("utf-8")
            except FileNotFoundError:
                raise KeyError(file) from None
            found = self._read[file] = tuple(read_macros(text, f"kernels/ops/{file}"))
        return found

    def __iter__(self) -> Iterator[str]:
        return (path.name for path in sorted(_folder().iterdir()) if path.suffix in (".c", ".cu"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_MACROS = _Macros()


class OwnKernel:
    """An op of ``kernels/ops``, bound to one place where it is used.

    Args:
        at: The op of the graph, and whom it is written for. Its operands and results are those of
            the declaration, in order; the last of them may be missing.
        file: The file.
        name: The op in it.
        dims: What names of dims stand for.
        sizes: What ``@sizes`` without an expression stand for; further names are not looked at.
        buffers: Further memory, by the name that the text has for it.
        texts: Further words, by name, and what stands for them.
        parameters: The values of ``@params``.
    """

    def __init__(
        self,
        at: Site,
        file: str,
        name: str,
        *,
        dims: Mapping[str, Poly] | None = None,
        sizes: Mapping[str, Poly] | None = None,
        buffers: Mapping[str, Buffer] | None = None,
        texts: Mapping[str, str] | None = None,
        **parameters: Parameter,
    ) -> None:
        from maxlab.opset.custom_binding import Bound
        from maxlab.opset.custom_text import Translator

        self.at = at
        self.declared = declared = own_library(file)[name]
        given = {rule.name: rule.default for rule in declared.parameters.values()}
        given |= parameters
        missing = [key for key, value in given.items() if value is None]
        assert not missing, f"{name} needs {missing}"
        unknown = set(parameters) - set(declared.parameters)
        assert not unknown, f"{name} does not have {sorted(unknown)}"
        dtypes = {key: value for key, value in given.items() if isinstance(value, DType)}
        members: dict[str, Poly] = {}
        pairs = [
            *zip(declared.operands, at.operands, strict=False),
            *zip(declared.results, at.results, strict=True),
        ]
        for argument, buffer in pairs:
            if argument.element in declared.types:
                dtypes.setdefault(argument.element, buffer.dtype)
            members[f"{argument.name}__of_size"] = elements(buffer.type)
            for axis, dim in enumerate(buffer.type.shape):
                members[f"{argument.name}__of_{axis}"] = dim.poly
        values = {key: value for key, value in given.items() if value is not None}
        bound = Bound(declared, dims or {}, {}, dtypes, values, members, {}, at.target)
        for key, said in declared.sizes.items():
            if said is not None:
                bound = bound.with_size(key, bound.poly(said))
            elif sizes is not None and key in sizes:
                bound = bound.with_size(key, sizes[key])
        self.bound = bound
        for size in (dims or {}).values():
            at.size(size)  # sizes are numbered in this order, whatever the text names first
        self.writer = Translator(at, self.bound, own=True)
        self.writer.buffers |= buffers or {}
        self.writer.texts |= texts or {}

    def __getitem__(self, name: str) -> Buffer:
        """The memory that the text calls ``name``."""
        return self.writer.buffers[name]

    def write(self, **more: Any) -> None:
        """Add the launches of all parts.

        Args:
            more: What ``Site.part`` takes; it stands above what the text says.
        """
        from maxlab.opset.custom_parts import write_part

        for part, body in self.bound.parts():
            write_part(self.at, self.bound, self.writer, part, body, **more)

    def part(self, name: str, /, **more: Any) -> None:
        """Add the launch of the part ``name``.

        Args:
            more: As of ``write``; values of parameters besides, which hold for this launch.
        """
        from maxlab.opset.custom_parts import write_part

        values = {key: more.pop(key) for key in list(more) if key in self.declared.parameters}
        bound, writer = self.bound, self.writer
        if values:
            bound = bound.with_parameters(values)
            writer = writer.bound_to(bound)
        for part, body in bound.parts():
            if part.name == name:
                write_part(self.at, bound, writer, part, body, **more)
                return
        raise AssertionError(f"{self.declared.name} has no part {name!r} for {self.at.target}")


__all__ = ["OwnKernel", "own_library"]
