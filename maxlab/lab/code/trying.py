"""A cell that is run, edited and written again without a notebook."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from maxlab.graph import Editor, Graph
from maxlab.ir import Op
from maxlab.ir.edit_log import at_revision
from maxlab.lab.code.following import short
from maxlab.lab.code.proposing import Proposal, propose
from maxlab.lab.code.refusing import CodeError, Way, no_place

_numbers = count(1)


def rewritten(
    text: str,
    edit: Callable[[Editor], object],
    namespace: Mapping[str, Any] | None = None,
    *,
    way: Way | None = None,
) -> Proposal:
    """The proposal for a cell with ``text`` after ``edit`` of the graph that it builds.

    The text is run, with all that it does.

    Args:
        text: A cell that builds one graph, and keeps it in a variable.
        edit: Called with an editor of the graph.
        namespace: The variables that the cell reads; they are not changed.
        way: What to do instead of rewriting the lines that made what changed.

    Raises:
        CodeError: The edits cannot be written; the codes are ML872 to ML880.

    Example:
        >>> cell = '''
        ... from maxlab.dtype import DType
        ... from maxlab.graph import Graph, TensorType, ops
        ... with Graph("net", input_types=[TensorType(DType.float32, [4])]) as graph:
        ...     graph.output(ops.exp(graph.inputs[0].tensor))  # one line
        ... '''
        >>> found = rewritten(cell, lambda editor: editor.replace("n0", "tanh"))
        >>> print(found.new_text.splitlines()[-1], found.is_checked)
            graph.output(ops.tanh(graph.inputs[0].tensor))  # one line True
    """
    file = f"<cell {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    own = dict(namespace or {})
    before = {id(value) for value in own.values()}
    exec(compile(text, file, "exec"), own)
    graphs = {
        id(value): value
        for value in own.values()
        if isinstance(value, Graph) and id(value) not in before
    }
    if len(graphs) != 1:
        raise no_place("the graph", f"in a text that has {len(graphs)} graphs")
    [graph] = graphs.values()
    revision = graph.log.revision
    edit(Editor(graph))
    base = at_revision(graph.function, revision)
    assert base is not None

    def elsewhere(op: Op) -> CodeError:
        if op.loc is None:
            return no_place(short(op), "by hand, and not by a line of a cell")
        where = f"in {op.loc.file}, line {op.loc.line}, and not in the cell"
        return no_place(short(op), where, op.loc)

    return propose(
        text,
        base,
        graph.function,
        own,
        is_here=lambda op: op.loc is not None and op.loc.file == file,
        elsewhere=elsewhere,
        graph=graph,
        way=way,
    )


__all__ = ["rewritten"]
