"""Which values the expressions of a cell stand for.

The cell has run: its operations name the expressions that made them. From these, names, tuples and
calls of functions that run once are followed through the text, in the order in which it ran. What
cannot be followed with certainty is unknown, never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeGuard, Union

from maxlab.errors import MaxlabError
from maxlab.graph import Editor, Graph
from maxlab.graph.value import Value
from maxlab.ir import Function, Op
from maxlab.lab.code.parsed import LOOPS, Code, Site

GRAPH: Final = "the graph"
"""The value of an expression that stands for the graph itself."""

Known = Union[str, tuple["Known", ...], None]  # noqa: UP007 - it names itself
"""The id of a value, several of them, `GRAPH`, or None for what is unknown."""


class Binding(NamedTuple):
    """The binding of a name: the item ``path`` of the value of ``node``, or ``known``."""

    node: ast.AST | None = None
    path: tuple[int, ...] = ()
    known: Known = None


UNKNOWN: Final = Binding()
Env = dict[str, Binding]


class Reading:
    """A cell beside the graph that it built.

    Args:
        code: The cell.
        base: The graph as the cell built it.
        sites: The operations of ``base`` that were written in the cell, by what made them.
        graph: The graph itself, so that variables that hold it are known.
    """

    def __init__(
        self, code: Code, base: Function, sites: Mapping[Site, Sequence[Op]], graph: object = None
    ) -> None:
        self.code = code
        self.base = base
        self.sites = sites
        self.graph = graph
        self.env_at: dict[ast.stmt, Env] = {}
        self.tainted = {
            name
            for node in ast.walk(code.tree)
            for name in (
                node.names
                if isinstance(node, (ast.Global, ast.Nonlocal))
                else [node.target.id]
                if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name)
                else []
            )
        }
        self.last: Env = {}
        self._walk(code.tree.body, self.last)
        for node in ast.walk(code.tree):
            if isinstance(node, ast.FunctionDef):
                self._walk(node.body, self._bound_parameters(node))

    # ------------------------------------------------------------ names, in order
    def _walk(self, body: Sequence[ast.stmt], env: Env) -> None:
        for one in body:
            self.env_at[one] = dict(env)
            self._statement(one, env)

    def _statement(self, one: ast.stmt, env: Env) -> None:
        if isinstance(one, ast.Assign):
            for target in one.targets:
                self._bind(target, one.value, (), env)
        elif isinstance(one, ast.AnnAssign):
            if one.value is not None:
                self._bind(one.target, one.value, (), env)
        elif isinstance(one, ast.AugAssign):
            if isinstance(one.target, ast.Name):
                env[one.target.id] = Binding(one)
        elif isinstance(one, (ast.With, ast.AsyncWith)):
            for item in one.items:
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, item.context_expr, (), env)
            self._walk(one.body, env)
        elif isinstance(one, ast.If):
            self._branches([one.body, one.orelse], env)
        elif isinstance(one, ast.Try):
            self._walk(one.body, env)
            self._walk(one.orelse, env)
            for handler in one.handlers:
                self._apart(handler.body, env)
            self._walk(one.finalbody, env)
        elif isinstance(one, LOOPS):
            self._forget(one, env)  # before the body too: a later turn reads what one before bound
            self._apart(one.body, env)
            self._apart(one.orelse, env)
        else:
            self._forget(one, env)

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]], env: Env) -> None:
        """One of ``bodies`` ran: the one that has made operations, where one has."""
        ends: list[Env] = []
        for body in bodies:
            ends.append(dict(env))
            self._walk(body, ends[-1])
        ran = [end for end, body in zip(ends, bodies, strict=True) if self._has_run(body)]
        if len(ran) == 1:
            env.update(ran[0])
            return
        for end in ends:
            for name, bound in end.items():
                if env.get(name) != bound:
                    env[name] = UNKNOWN

    def _has_run(self, body: Sequence[ast.stmt]) -> bool:
        return any(node in self.sites for one in body for node in ast.walk(one) if _is_site(node))

    def _apart(self, body: Sequence[ast.stmt], env: Env) -> None:
        """A body of which nobody knows whether it ran, or how often."""
        own = dict(env)
        self._walk(body, own)
        for name, bound in own.items():
            if env.get(name) != bound:
                env[name] = UNKNOWN

    def _forget(self, one: ast.stmt, env: Env) -> None:
        for node in ast.walk(one):
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                env[node.id] = UNKNOWN
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                env[node.name] = Binding(node)
            elif isinstance(node, ast.alias):
                env.pop((node.asname or node.name).partition(".")[0], None)

    def _bind(self, target: ast.expr, node: ast.expr, path: tuple[int, ...], env: Env) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = Binding(node, path)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(item, ast.Starred) for item in target.elts):
                for item in ast.walk(target):
                    if isinstance(item, ast.Name):
                        env[item.id] = UNKNOWN
            else:
                for number, item in enumerate(target.elts):
                    self._bind(item, node, (*path, number), env)

    def _bound_parameters(self, function: ast.FunctionDef | ast.Lambda) -> Env:
        """The bindings of the parameters of a function; unknown where it does not run once."""
        args = function.args
        plain = [*args.posonlyargs, *args.args]
        env: Env = {a.arg: UNKNOWN for a in [*plain, *args.kwonlyargs]}
        env |= {a.arg: UNKNOWN for a in (args.vararg, args.kwarg) if a is not None}
        call = self.call_of(function)
        if call is None:
            return env
        if self.code.is_graph_call(call):
            for one, value in zip(plain, self.base.inputs, strict=False):
                env[one.arg] = Binding(known=value.id)
            return env
        for number, one in enumerate(plain):
            given = call.args[number] if number < len(call.args) else None
            if isinstance(given, ast.Starred):
                if given is call.args[-1]:
                    for place, name in enumerate(plain[number:]):
                        env[name.arg] = Binding(given.value, (place,))
                break
            if given is not None:
                env[one.arg] = Binding(given)
        for keyword in call.keywords:
            if keyword.arg in env:
                env[keyword.arg] = Binding(keyword.value)
        return env

    def call_of(self, function: ast.FunctionDef | ast.Lambda) -> ast.Call | None:
        """The one call of a function; None where there is none, or several."""
        if isinstance(function, ast.Lambda):
            call = self.code.parents.get(function)
            is_graph = call is not None and self.code.is_graph_call(call)
            return call if is_graph and isinstance(call, ast.Call) else None
        if self.code.repeats_function(function):
            return None
        calls = self.code.calls(function.name)
        return calls[0] if calls else None

    def visible(self, node: ast.AST) -> Env:
        """The names that can be read where ``node`` stands, just before its statement."""
        return self._visible(node, 0)

    def _visible(self, node: ast.AST, depth: int) -> Env:
        scope = self.code.scope(node)
        if isinstance(scope, ast.Lambda):
            own = self._bound_parameters(scope)
            return {**self._visible(scope, depth + 1), **own} if depth < 8 else own
        own = self.env_at.get(self.code.statement(node), {})
        if isinstance(scope, ast.FunctionDef) and depth < 8:
            call = self.call_of(scope)
            outer = self._visible(call, depth + 1) if call is not None else {}
            return {**outer, **own}
        return own

    def binding(self, name: str, node: ast.AST) -> Binding | None:
        """The binding of ``name`` where ``node`` reads it; None where the cell does not bind it."""
        if name in self.tainted:
            return UNKNOWN
        for one in self.code.above(node):
            for generator in getattr(one, "generators", ()):
                if any(
                    isinstance(t, ast.Name) and t.id == name for t in ast.walk(generator.target)
                ):
                    return UNKNOWN
        return self.visible(node).get(name)


class Evaluator:
    """Evaluates expressions of a cell, as far as that is possible without running it.

    Args:
        reading: The cell.
        made: What the operations that ``site`` has made give; asked once for each.
    """

    def __init__(self, reading: Reading, made: Callable[[Site], Known]) -> None:
        self._reading = reading
        self._made = made
        self._found: dict[ast.AST, Known] = {}
        self._asked: set[ast.AST] = set()

    def value(self, node: ast.AST) -> Known:
        """The value of ``node``."""
        if node in self._found:
            return self._found[node]
        if node in self._asked:  # it depends on itself
            return None
        self._asked.add(node)
        found = self._found[node] = self._value(node)
        return found

    def bound(self, binding: Binding) -> Known:
        """The value of ``binding``."""
        found = self.value(binding.node) if binding.node is not None else binding.known
        for number in binding.path:
            found = found[number] if isinstance(found, tuple) and number < len(found) else None
        return found

    def _value(self, node: ast.AST) -> Known:
        reading = self._reading
        if reading.code.is_graph_call(node):
            return GRAPH
        if _is_site(node) and node in reading.sites:
            return self._made(node)
        if isinstance(node, ast.Name):
            binding = reading.binding(node.id, node)
            return self.bound(binding) if binding is not None else self._of_notebook(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            if owner == GRAPH and node.attr == "inputs":
                return tuple(value.id for value in reading.base.inputs)
            is_same = node.attr in ("tensor", "buffer") and isinstance(owner, str)
            return owner if is_same and owner != GRAPH else None
        if isinstance(node, ast.Subscript):
            return self._item(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.value(item) for item in node.elts)
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self._each(node)
        if isinstance(node, ast.Call):
            return self._called(node)
        return None

    def _item(self, node: ast.Subscript) -> Known:
        owner, index = self.value(node.value), node.slice
        if isinstance(owner, tuple) and isinstance(index, ast.Constant):
            number = index.value
            if isinstance(number, int) and 0 <= number < len(owner):
                return owner[number]
        return None

    def _each(self, node: ast.GeneratorExp | ast.ListComp) -> Known:
        """``v.tensor for v in graph.inputs``."""
        [generator, *more] = node.generators
        target = generator.target
        one = node.elt.value if isinstance(node.elt, ast.Attribute) else node.elt
        is_same = not isinstance(node.elt, ast.Attribute) or node.elt.attr in ("tensor", "buffer")
        if more or generator.ifs or not is_same or not isinstance(target, ast.Name):
            return None
        if not isinstance(one, ast.Name) or one.id != target.id:
            return None
        found = self.value(generator.iter)
        return found if isinstance(found, tuple) else None

    def _called(self, node: ast.Call) -> Known:
        code = self._reading.code
        if isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple"):
            if len(node.args) == 1 and not node.keywords and node.func.id not in code.namespace:
                found = self.value(node.args[0])
                return found if isinstance(found, tuple) else None
        if isinstance(node.func, ast.Name):
            binding = self._reading.binding(node.func.id, node.func)
            function = binding.node if binding is not None else None
            if isinstance(function, ast.FunctionDef) and self._reading.call_of(function) is node:
                returns = [one for one in ast.walk(function) if isinstance(one, ast.Return)]
                last = function.body[-1]
                if returns == [last] and isinstance(last, ast.Return) and last.value is not None:
                    return self.value(last.value)
        return None

    def _of_notebook(self, name: str) -> Known:
        """The value of a variable of another cell."""
        held: Any = self._reading.code.namespace.get(name)
        if isinstance(held, Graph):
            return GRAPH if held is self._reading.graph else None
        graph = self._reading.graph
        if isinstance(held, Value) and isinstance(graph, Graph):
            try:
                return Editor(graph).in_function(held).id
            except MaxlabError:
                return None  # of another graph
        return None


def _is_site(node: ast.AST) -> TypeGuard[Site]:
    return isinstance(node, (ast.expr, ast.AugAssign))


__all__ = ["GRAPH", "UNKNOWN", "Binding", "Env", "Evaluator", "Known", "Reading"]
