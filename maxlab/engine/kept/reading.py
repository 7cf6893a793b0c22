"""The graph of a kept model: `graph_in`, for what compiles it here and for what looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.manifest import GRAPH, damaged
from maxlab.errors import ArgumentError
from maxlab.graph import Graph
from maxlab.graph.kernel_library import gathered
from maxlab.graph.reading import graph_of
from maxlab.graph.signing import kernels_of
from maxlab.opset.custom import DECLARED, trust

if TYPE_CHECKING:
    from maxlab.compiler.compiled import Debug
    from maxlab.compiler.options import Options


def graph_in(archive: Archive, given: Sequence[Any] = (), *, is_trusted: bool) -> Graph:
    """The graph of ``archive``, with layout, comments and the user's lines.

    Args:
        archive: The model.
        given: Kernel libraries that somebody has loaded: what they declare is compiled in any case.
        is_trusted: Whether the kernels of users in it may be compiled.

    Raises:
        ParseError: ML512 or ML514, it is damaged or was changed; or what is wrong in the graph.
        ArgumentError: ML515, it has kernels of users and is not trusted.
    """
    try:
        text = archive.read(GRAPH).decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(archive.path, f"its {GRAPH} is not text") from error
    graph = graph_of(text, f"{archive.path}:{GRAPH}")
    if is_trusted:
        trust(graph.function)
        return graph
    libraries = [gathered(one) for one in given]
    refused = {
        op.attrs["name"]: op
        for op in kernels_of(graph.function)
        if op.attrs["source"] not in DECLARED
        and not any(op.attrs["name"] in library for library in libraries)
    }
    if refused:
        names = ", ".join(refused)
        many = len(refused) > 1
        raise ArgumentError(
            "ML515",
            f"the model {archive.path} has the custom kernel{'s' * many} {names}, and is not "
            "trusted to run code of its own",
            at=next(iter(refused.values())).loc,
            fix="load the library that has them: session.load(path, custom_extensions=[library]); "
            "or, of a model that you trust as a program: session.load(path, trusted=True)",
        )
    return graph


def debug_of(graph: Graph, options: Options) -> Debug:
    """How ``graph`` is compiled with ``options``: passes, schedule and loops, made now."""
    from maxlab.compiler.compiled import compilable
    from maxlab.compiler.compiling import debugged

    return debugged(compilable(graph.function, options), options)


__all__ = ["debug_of", "graph_in"]
