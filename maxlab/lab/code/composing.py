"""Puts the parts that a rewriter has written anew into the text of the cell."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from maxlab.lab.code.parsed import Code
from maxlab.lab.code.refusing import unread
from maxlab.lab.code.text import Replacement, replaced, smallest

Text = Callable[[], str]


@dataclass(slots=True)
class Parts:
    """The parts of a cell that are written anew.

    Attributes:
        code: The cell.
        own: Expressions that are written in another way.
        alias: Expressions that became a line of their own, by the name that it has.
        put: What stands where an expression stood; it may have that in it.
        lists: The arguments of a call, or the items of a list, all of them anew.
        more: What stands behind an item.
        gone: Statements that are no more.
        lines: Names that lines before statements bind, and to what.
        dropped: Items of lists, tuples and parameters that are no more.
    """

    code: Code
    own: dict[ast.AST, Text] = field(default_factory=dict)
    alias: dict[ast.AST, str] = field(default_factory=dict)
    put: dict[ast.AST, Text] = field(default_factory=dict)
    lists: dict[ast.AST, tuple[Sequence[ast.expr], Sequence[Text]]] = field(default_factory=dict)
    more: dict[ast.AST, Sequence[Text]] = field(default_factory=dict)
    gone: set[ast.stmt] = field(default_factory=set)
    lines: dict[ast.stmt, list[tuple[str, Text]]] = field(default_factory=dict)
    dropped: dict[ast.AST, set[ast.AST]] = field(default_factory=dict)


class Composing:
    """The text of the cell, and of its expressions, as ``parts`` have it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._code = parts.code

    # ------------------------------------------------------------ expressions
    def text(self, node: ast.AST) -> str:
        """The text in the place of ``node``."""
        return self._parts.put[node]() if node in self._parts.put else self.named(node)

    def named(self, node: ast.AST) -> str:
        """The expression for ``node``: the name of its line, where it has one."""
        return self._parts.alias[node] if node in self._parts.alias else self.own(node)

    def own(self, node: ast.AST) -> str:
        """``node`` itself."""
        return self._parts.own[node]() if node in self._parts.own else self.inner(node)

    def inner(self, node: ast.AST) -> str:
        """``node`` as it stands, with what is written anew inside of it."""
        start, end = self._code.range(node)
        own = [
            Replacement(a - start, b - start, text)
            for a, b, text in self._inside(node)
            if start <= a and b <= end
        ]
        return replaced(self._code.source.text[start:end], own)

    def _inside(self, node: ast.AST) -> list[Replacement]:
        found: list[Replacement] = []
        if node in self._parts.lists:
            return [self._list(node)]
        dropped = self._parts.dropped.get(node, set())
        if dropped:
            found += self._without_items(node, dropped)
        for child in ast.iter_child_nodes(node):
            if child in dropped or (isinstance(child, ast.stmt) and child in self._parts.gone):
                continue
            if self._is_anew(child):
                start, end = self._code.range(child)
                found.append(Replacement(start, end, self._fitting(child, self.text(child))))
            else:
                found += self._inside(child)
            if child in self._parts.more:
                _, end = self._code.range(child)
                text = "".join(f", {one()}" for one in self._parts.more[child])
                found.append(Replacement(end, end, text))
        return found

    def _is_anew(self, node: ast.AST) -> bool:
        parts = self._parts
        return node in parts.own or node in parts.alias or node in parts.put

    def _list(self, node: ast.AST) -> Replacement:
        _, texts = self._parts.lists[node]
        text = ", ".join(one() for one in texts)
        start, end = self._code.range(node)
        source = self._code.source.text
        if isinstance(node, ast.Call):
            _, opened = self._code.range(node.func)
            start, end = source.index("(", opened) + 1, end - 1
        elif isinstance(node, ast.List) or _is_in_brackets(source[start:end]):
            start, end = start + 1, end - 1
            text += "," if len(texts) == 1 and isinstance(node, ast.Tuple) else ""
        elif isinstance(self._code.parents.get(node), ast.Lambda):
            text = f"({text})"
        return Replacement(start, end, text)

    def _without_items(self, node: ast.AST, dropped: set[ast.AST]) -> list[Replacement]:
        """Replacements that take ``dropped`` out of the list, the tuple or the parameters that
        ``node`` is.
        """
        items = _items(node)
        ranges = [self._code.range(item) for item in items]
        left = [n for n, item in enumerate(items) if item not in dropped]
        if not left:
            start, end = ranges[0][0], ranges[-1][1]
            if isinstance(self._code.parents[node], ast.Lambda):
                start = self._code.range(self._code.parents[node])[0] + len("lambda")
            return [Replacement(start, self._after_comma(node, end), "")]
        found = [
            Replacement(ranges[before + 1][0], ranges[after][0], "")
            for before, after in zip([-1, *left], left, strict=False)
            if after - before > 1
        ]
        last, end = ranges[left[-1]][1], ranges[-1][1]
        is_bare = len(left) == 1 and isinstance(node, ast.Tuple)
        comma = "," if is_bare and self._after_comma(node, end) == end else ""
        if last < end or comma:
            found.append(Replacement(last, end, comma))
        return found

    def _after_comma(self, node: ast.AST, end: int) -> int:
        """The place behind a comma that follows ``end`` in ``node``; ``end`` where none does."""
        until = self._code.range(node)[1] if isinstance(node, ast.expr) else end
        text = self._code.source.text[end:until]
        rest = text.lstrip()
        return end + len(text) - len(rest) + 1 if rest.startswith(",") else end

    def _fitting(self, node: ast.AST, text: str) -> str:
        """``text`` where ``node`` stands, in brackets where it would be read otherwise."""
        if isinstance(node, ast.stmt):
            return text
        try:
            tree = ast.parse(f"({text}\n)", mode="eval").body
        except SyntaxError as error:
            raise unread(f"{text[:60]!r} would be no Python", "change the line by hand") from error
        atoms = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Constant)
        parent = self._code.parents.get(node)
        is_apart = isinstance(
            parent, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr, ast.keyword, ast.List)
        ) or (isinstance(parent, ast.Call) and node is not parent.func)
        if isinstance(tree, atoms):
            number = isinstance(tree, ast.Constant) and isinstance(parent, ast.Attribute)
            return f"({text})" if number or _is_open(text) else text
        return text if is_apart and not _is_open(text) else f"({text})"

    # ------------------------------------------------------------ statements
    def all(self) -> list[Replacement]:
        """The replacements in the text of the cell."""
        source = self._code.source
        found = self._inside(self._code.tree)
        for statement in self._parts.gone:
            found.append(self._without(statement))
        for statement, lines in self._parts.lines.items():
            start = source.offset(statement.lineno, statement.col_offset)
            if source.text.startswith("elif", start):
                raise unread("a line would stand before an elif", "write it by hand")
            first = source.starts[statement.lineno - 1]
            texts = _in_order([(name, one()) for name, one in lines])
            if source.text[first:start].strip(" \t\f"):
                found.append(Replacement(start, start, "".join(f"{one}; " for one in texts)))
            else:
                pad = source.text[first:start]
                text = "".join(f"{pad}{one}{source.newline}" for one in texts)
                found.append(Replacement(first, first, text))
        return _merged(source.text, smallest(source.text, found))

    def _without(self, statement: ast.stmt) -> Replacement:
        source = self._code.source
        start, end = self._code.range(statement)
        first = source.starts[statement.lineno - 1]
        assert statement.end_lineno is not None
        last = source.ends[statement.end_lineno - 1]
        behind = source.text[end:last].strip()
        if source.text[first:start].strip(" \t\f") or (behind and not behind.startswith("#")):
            raise unread(
                f"line {statement.lineno} has several statements", "give each its own line"
            )
        parent = self._code.parents.get(statement)
        for body in (getattr(parent, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list) and statement in body:
                left = [one for one in body if one not in self._parts.gone]
                if not left and not isinstance(parent, ast.Module):
                    if statement is body[0]:
                        return Replacement(start, end, "pass")
        if statement.end_lineno < len(source.starts):
            last = source.starts[statement.end_lineno]
        return Replacement(first, last, "")


def _items(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.arguments):
        return [*node.posonlyargs, *node.args]
    assert isinstance(node, (ast.List, ast.Tuple))
    return list(node.elts)


def _is_in_brackets(tuple: str) -> bool:
    """Whether the brackets around a tuple are its own, unlike those of ``(a), (b)``."""
    if not (tuple.startswith("(") and tuple.endswith(")")):
        return False
    try:
        inner = ast.parse(f"[{tuple[1:-1]}\n]", mode="eval")
        whole = ast.parse(f"({tuple}\n)", mode="eval")
    except SyntaxError:
        return False
    assert isinstance(inner.body, ast.List)
    return isinstance(whole.body, ast.Tuple) and len(whole.body.elts) == len(inner.body.elts)


def _is_open(text: str) -> bool:
    """Whether a line of ``text`` ends outside of brackets before its end."""
    if "\n" not in text and "\r" not in text:
        return False
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return True
    return False


def _in_order(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Assignments, each behind those whose names it reads."""
    waiting = list(lines)
    found: list[str] = []
    while waiting:
        for line in waiting:
            bound = {name for target, _ in waiting if target != line[0] for name in _names(target)}
            if not _names(line[1]) & bound:
                break
        else:
            raise unread("lines would read each other", "write them by hand")
        target, text = line
        found.append(f"{target} = ({text})" if _is_open(text) else f"{target} = {text}")
        waiting.remove(line)
    return found


def _names(text: str) -> set[str]:
    """The names in an expression, or in what is assigned to; ``_`` takes what nobody reads."""
    nodes = ast.walk(ast.parse(f"({text}\n)"))
    return {node.id for node in nodes if isinstance(node, ast.Name)} - {"_"}


def _merged(text: str, replacements: list[Replacement]) -> list[Replacement]:
    """``replacements`` that touch, as one."""
    found: list[Replacement] = []
    for one in replacements:
        if found and found[-1].end == one.start:
            last = found.pop()
            found.append(Replacement(last.start, one.end, last.text + one.text))
        else:
            found.append(one)
    return found


__all__ = ["Composing", "Parts"]
