"""``Module``: several graphs in one place, and in one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maxlab import files
from maxlab.errors import ArgumentError
from maxlab.graph.files import read_functions, unknown_graph
from maxlab.graph.graph import Graph
from maxlab.ir.printer import generic_module


class Module:
    """Graphs by name, which may call each other, and are saved together.

    ``Graph(..., module=module)`` puts a graph into one. A graph may call each other graph of its
    module that has outputs, as it calls its own subgraphs.

    Args:
        path: A file that ``save``, or ``Graph.save``, wrote: its graphs are in the module.
        custom_extensions: Kernel libraries for the graphs of that file; see ``Graph``.

    Raises:
        InvalidPathError: ML793, there is no file at ``path`` that can be read.
        ParseError: ``path`` has no graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, Module, TensorType, ops
        >>> row = TensorType(DType.float32, ["n"])
        >>> module = Module()
        >>> double = Graph("double", lambda x: x * 2, [row], module=module)
        >>> four = Graph("four", lambda x: ops.call(double, *ops.call(double, x)), [row],
        ...     module=module)
        >>> module
        Module(double, four)
        >>> module["four"] is four
        True
    """

    def __init__(self, path: Path | str | None = None, *, custom_extensions: Any = ()) -> None:
        self._graphs: dict[str, Graph] = {}
        if path is not None:
            for function in read_functions(path):
                Graph(path=function, custom_extensions=custom_extensions, module=self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._graphs)

    def __len__(self) -> int:
        return len(self._graphs)

    def __contains__(self, name: object) -> bool:
        return name in self._graphs

    def __getitem__(self, name: str) -> Graph:
        """The graph ``name``.

        Raises:
            ArgumentError: ML366, there is none.
        """
        found = self._graphs.get(name)
        if found is None:
            raise unknown_graph("the module", name, list(self._graphs))
        return found

    @property
    def graphs(self) -> list[Graph]:
        """The graphs, in the order in which they came."""
        return list(self._graphs.values())

    def require_free(self, name: str) -> None:
        """Raises if a graph of the module is called ``name``.

        Raises:
            ArgumentError: ML365, one is.
        """
        if name in self._graphs:
            raise ArgumentError(
                "ML365",
                f"the module already has a graph {name!r}",
                fix="give the graph another name, or use another module",
            )

    def add(self, graph: Graph) -> None:
        """Put ``graph`` into the module; ``Graph(..., module=module)`` does it.

        Raises:
            ArgumentError: ML365, a graph of the module has its name.
        """
        self.require_free(graph.name)
        self._graphs[graph.name] = graph

    def save(self, path: Path | str) -> None:
        """Write the graphs to a file, in MLIR's generic form; ``Module(path)`` reads it, and
        ``Graph(name, path=path)`` one of them.

        Args:
            path: The file, which is replaced when all is written.

        Raises:
            GraphError: ML322, a graph has no output yet.
            ArgumentError: ML366, the module has no graphs.
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.

        Example:
            >>> import tempfile
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, Module, TensorType
            >>> module, row = Module(), TensorType(DType.float32, ["n"])
            >>> for name, by in ("double", 2), ("triple", 3):
            ...     _ = Graph(name, lambda x: x * by, [row], module=module)
            >>> with tempfile.NamedTemporaryFile(suffix=".mlir") as file:
            ...     module.save(file.name)
            ...     Module(file.name), Graph("triple", path=file.name).name
            (Module(double, triple), 'triple')
        """
        if not self._graphs:
            raise ArgumentError(
                "ML366", "the module has no graphs to write", fix="Graph(..., module=module)"
            )
        for graph in self._graphs.values():
            graph.output_types  # noqa: B018 - raises when there is no output
        text = generic_module(graph.function for graph in self._graphs.values())
        files.write_text(path, text, "the module")

    def __str__(self) -> str:
        return "\n".join(map(str, self._graphs.values()))

    def __repr__(self) -> str:
        return f"Module({', '.join(self._graphs)})"


__all__ = ["Module"]
