"""The text of a cell as Python has parsed it: ranges, statements, and what runs more than once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from maxlab.graph import Graph
from maxlab.lab.code.refusing import unread
from maxlab.lab.code.text import Source

Span = tuple[int, int, int, int]
"""Line and column of the beginning and of the end, as Python counts them."""
Scope = ast.Module | ast.FunctionDef | ast.Lambda
Site = ast.expr | ast.AugAssign
"""The node that an operation was written as."""

LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Code:
    """A text, and its tree.

    Args:
        text: What the kernel compiled.
        namespace: The variables of the notebook, by which names of modules and functions are known.

    Raises:
        CodeError: ML875, it is no Python.
    """

    def __init__(self, text: str, namespace: Mapping[str, Any]) -> None:
        self.source = Source(text)
        self.namespace = namespace
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise unread(
                f"the text of the cell cannot be parsed: {error}", "mend it, and run it"
            ) from error
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    # ------------------------------------------------------------ ranges
    @cached_property
    def sites(self) -> dict[Span, list[Site]]:
        """The sites that can make operations, by the range that Python tells for them."""
        found: dict[Span, list[Site]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.expr, ast.AugAssign)) and not isinstance(
                node, (ast.Name, ast.Constant)
            ):
                for span in _spans(node):
                    found.setdefault(span, []).append(node)
        return found

    def range(self, node: ast.AST) -> tuple[int, int]:
        """The offsets of ``node``, without brackets around it."""
        one: Any = node
        source = self.source
        return (
            source.offset(one.lineno, one.col_offset),
            source.offset(one.end_lineno, one.end_col_offset),
        )

    def text(self, node: ast.AST) -> str:
        """The text of ``node``."""
        start, end = self.range(node)
        return self.source.text[start:end]

    # ------------------------------------------------------------ around a node
    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, the innermost first."""
        one = self.parents.get(node)
        while one is not None:
            yield one
            one = self.parents.get(one)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that ``node`` is, or is in."""
        if isinstance(node, ast.stmt):
            return node
        return next(one for one in self.above(node) if isinstance(one, ast.stmt))

    def scope(self, node: ast.AST) -> Scope:
        """The function or the module whose names ``node`` sees."""
        below = node
        for one in self.above(node):
            if isinstance(one, (ast.FunctionDef, ast.Lambda)) and below is not one.args:
                is_body = isinstance(one, ast.Lambda) or below in one.body
                if is_body:
                    return one
            below = one
        return self.tree

    # ------------------------------------------------------------ names of the notebook
    def known(self, node: ast.AST) -> Any:
        """The object of a dotted name, where modules and classes say it; None otherwise. Nothing of
        the user's is run for it.
        """
        if isinstance(node, ast.Name):
            return self.namespace.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.known(node.value)
            if isinstance(owner, type(ast)) or owner is Graph:
                return vars(owner).get(node.attr)
        return None

    def is_graph_call(self, node: ast.AST) -> bool:
        """Whether ``node`` makes a graph."""
        return isinstance(node, ast.Call) and self.known(node.func) is Graph

    # ------------------------------------------------------------ how often something runs
    def repeats(self, node: ast.AST, depth: int = 0) -> str:
        """Why ``node`` may run more than once, or not where it stands; empty where it runs once."""
        below = node
        for one in self.above(node):
            if isinstance(one, LOOPS):
                is_head = isinstance(one, (ast.For, ast.AsyncFor)) and below is one.iter
                if not is_head:
                    return "in a loop"
            if isinstance(one, COMPREHENSIONS):
                generators = one.generators
                if not (below is generators[0] and self._is_in(node, generators[0].iter)):
                    return "in a comprehension"
            if isinstance(one, ast.AsyncFunctionDef):
                return "in a coroutine"
            if isinstance(one, ast.ClassDef):
                return f"in the class {one.name}"
            if isinstance(one, ast.Lambda) and below is one.body:
                call = self.parents.get(one)
                if not (self.is_graph_call(call) if call is not None else False):
                    return "in a lambda that others call"
            if isinstance(one, ast.FunctionDef) and below in one.body:
                return self.repeats_function(one, depth)
            below = one
        return ""

    def repeats_function(self, function: ast.FunctionDef, depth: int = 0) -> str:
        """Why ``function`` may run more than once, or not as it is written."""
        name = function.name
        if function.decorator_list:
            return f"in {name}, which has a decorator"
        if any(isinstance(one, ast.ClassDef) for one in self.above(function)):
            return f"in {name}, a method of a class"
        if depth > 8 or not isinstance(self.scope(function), ast.Module):
            return f"in {name}, a function in a function"
        if any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(function)):
            return f"in the generator {name}"
        calls = self.calls(name)
        if calls is None:
            return f"in {name}, which is used as a value"
        if len(calls) != 1:
            times = "several times" if calls else "elsewhere"
            return f"in {name}, which is called {times}"
        return self.repeats(calls[0], depth + 1)

    def calls(self, name: str) -> list[ast.Call] | None:
        """The calls of the function ``name``, in the order of the text, a graph that is made of it
        among them; None where it is used in another way too."""
        found: list[ast.Call] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id == name:
                call = self.parents.get(node)
                if isinstance(call, ast.keyword):
                    call = self.parents.get(call)
                is_called = isinstance(call, ast.Call) and (
                    call.func is node or self.is_graph_call(call)
                )
                if not is_called or not isinstance(node.ctx, ast.Load):
                    return None
                assert isinstance(call, ast.Call)
                found.append(call)
        return sorted(found, key=lambda one: (one.lineno, one.col_offset))

    def _is_in(self, node: ast.AST, other: ast.AST) -> bool:
        return node is other or any(one is other for one in self.above(node))


def _spans(node: Site) -> list[Span]:
    """The ranges that code objects may tell for ``node``: a call of a method, and an attribute,
    begin with the name of the method where that is on another line."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    end = (node.end_lineno, node.end_col_offset)
    found = [(node.lineno, node.col_offset, *end)]
    name = node.func if isinstance(node, ast.Call) else node
    if isinstance(name, ast.Attribute) and name.end_lineno != name.lineno:
        assert name.end_lineno is not None
        assert name.end_col_offset is not None
        column = name.end_col_offset - len(name.attr.encode())
        found.append((name.end_lineno, column, *end))
    return found


def is_plain_function(node: ast.AST) -> bool:
    """Whether ``node`` is a function whose body runs when it is called."""
    return isinstance(node, ast.FunctionDef) and not node.decorator_list


__all__ = ["Code", "Scope", "Site", "Span", "is_plain_function"]
