"""Runs a rewritten cell in a copy of the notebook's variables, where that can do no harm.

A cell may do anything when it runs. So it is run here only when all that it does is known: it calls
functions of maxlab that build graphs, arithmetic, ``range`` and the like, and functions of its own
text that do no more; it writes to names of its own. Whatever else it has, it is not run.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.graph import Editor, Graph, TensorValue, Weight, ops
from maxlab.graph.graph import LIVE
from maxlab.ir import BufferType, DeviceRef, Dim, Function, Shape, TensorType, Type

_BUILTINS: Final = frozenset(
    [
        "range",
        "len",
        "list",
        "tuple",
        "zip",
        "enumerate",
        "float",
        "int",
        "bool",
        "str",
        "dict",
        "set",
        "sum",
        "min",
        "max",
        "abs",
        "reversed",
        "sorted",
        "round",
    ]
)
_ARRAYS: Final = frozenset(
    [
        "array",
        "zeros",
        "ones",
        "arange",
        "linspace",
        "full",
        "eye",
        "float32",
        "float64",
        "int32",
        "int64",
        "asarray",
        "sqrt",
        "pi",
    ]
)
_CLASSES: Final = (Graph, TensorType, BufferType, DType, DeviceRef, Dim, Shape, Weight)
_IMPORTED: Final = frozenset({"maxlab", "numpy", "math", "typing", "__future__"})
_GRAPH: Final = frozenset({"output", "inputs"})
_UNSAFE_OPS: Final = frozenset(
    {"print", "watch", "custom", "inplace_custom", "call", "constant_external"}
)
_METHODS: Final = frozenset({"CPU", "GPU", "items", "values", "keys", "astype", "tolist"})
_EDITOR: Final = frozenset(
    [
        "add",
        "add_input",
        "connect",
        "insert",
        "remove",
        "remove_input",
        "replace",
        "set_attribute",
        "set_outputs",
        "set_type",
    ]
)
_IN_PLACE: Final = frozenset(["sort", "fill", "resize", "put", "partition", "byteswap", "setflags"])
_SHOWING: Final = frozenset({"print", "display"})
"""Functions that are called for their output alone."""
_VALUE: Final = frozenset(
    name
    for name in dir(TensorValue)
    if not name.startswith("_") and name not in ("print", "rename", *_IN_PLACE)
)
_PLAIN: Final = (
    ast.Module, ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.With, ast.withitem, ast.If,
    ast.For, ast.Pass, ast.Return, ast.FunctionDef, ast.arguments, ast.arg, ast.Lambda, ast.Import,
    ast.ImportFrom, ast.alias, ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Subscript,
    ast.Slice, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.BinOp, ast.UnaryOp,
    ast.BoolOp, ast.Compare, ast.IfExp, ast.Starred, ast.ListComp, ast.GeneratorExp, ast.SetComp,
    ast.DictComp, ast.comprehension, ast.expr_context, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.JoinedStr, ast.FormattedValue, ast.Assert, ast.UnaryOp,
)  # fmt: skip
MOST_TURNS: Final = 1000
"""Turns of a loop, as far as its ``range`` tells; a longer one is not run twice."""


def why_not(text: str, namespace: Mapping[str, Any]) -> str:
    """Why ``text`` is not run to check it; empty where it can do no harm."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return "it is no Python"
    return _Judging(tree, namespace).why


class _Judging:
    """Looks for what a text does that is not known to be harmless."""

    def __init__(self, tree: ast.Module, namespace: Mapping[str, Any]) -> None:
        self.namespace = namespace
        self.own = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self.own |= {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
        self.functions = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        self.imported: dict[str, Any] = {}
        self.why = ""
        for node in ast.walk(tree):
            self._imports(node)
        for node in ast.walk(tree):
            if not self.why:
                self._judge(node)

    def _imports(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                root = sys.modules.get(one.name)
                if root is None or one.name.partition(".")[0] not in _IMPORTED:
                    self.why = self.why or f"it imports {one.name}"
                name = one.asname or one.name.partition(".")[0]
                self.imported[name] = root if one.asname else sys.modules.get(name)
        elif isinstance(node, ast.ImportFrom):
            module = sys.modules.get(node.module or "")
            is_known = (node.module or "").partition(".")[0] in _IMPORTED
            for one in node.names:
                if module is None or not is_known or node.level or one.name == "*":
                    self.why = self.why or f"it imports from {node.module}"
                else:
                    self.imported[one.asname or one.name] = vars(module).get(one.name)

    def _judge(self, node: ast.AST) -> None:
        if not isinstance(node, _PLAIN):
            self.why = f"it has {type(node).__name__}"
        elif isinstance(node, ast.FunctionDef) and node.decorator_list:
            self.why = f"{node.name} has a decorator"
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(
            node.ctx, (ast.Store, ast.Del)
        ):
            self.why = "it writes into objects"
        elif isinstance(node, ast.Attribute) and (
            node.attr.startswith("_") or node.attr == "current"
        ):
            self.why = f"it reads {node.attr}"
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            held = self.namespace.get(node.target.id)
            if isinstance(held, (list, dict, set, np.ndarray)):
                self.why = f"it changes {node.target.id}"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if not self._is_name(node.id):
                self.why = f"it reads {node.id}"
        elif isinstance(node, ast.Call):
            self.why = self._call(node)

    def _held(self, name: str) -> Any:
        return self.imported.get(name, self.namespace.get(name))

    def _is_name(self, name: str) -> bool:
        if name in self.own or name in self.functions:
            return True
        held = self._held(name)
        if held is None:
            known = name in self.namespace or name in _BUILTINS or name in _SHOWING
            return known or isinstance(getattr(builtins, name, None), type)
        plain = (int, float, str, bool, bytes, np.ndarray, np.generic, Type, DType, DeviceRef, Dim)
        if name in _SHOWING or held is Editor:
            return True
        if isinstance(held, (*plain, Shape)) or _is_class(held):
            return True
        if isinstance(held, (tuple, list)):
            return all(isinstance(item, (*plain, tuple)) for item in held)
        if isinstance(held, ModuleType):
            return held.__name__.partition(".")[0] in _IMPORTED
        return isinstance(held, FunctionType) and held.__module__.startswith("maxlab.graph.ops")

    def _call(self, node: ast.Call) -> str:
        function = node.func
        if isinstance(function, ast.Name):
            name = function.id
            if name in self.functions and name not in self.own:
                return ""
            held = self._held(name)
            if name in self.own:
                return f"it calls {name}"
            if name in _SHOWING:
                return ""
            if held is Editor:
                given = node.args[0] if len(node.args) == 1 and not node.keywords else None
                is_own = isinstance(given, ast.Name) and given.id in self.own
                return "" if is_own else "it edits a graph of another cell"
            if held is None:
                if name == "range" and name not in self.own:
                    return self._range(node)
                return "" if name in _BUILTINS and name not in self.own else f"it calls {name}"
            return "" if _is_harmless(held) else f"it calls {name}"
        if isinstance(function, ast.Attribute):
            held = self._known(function)
            if held is not None:
                return "" if _is_harmless(held) else f"it calls {function.attr}"
            root = function.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and isinstance(self._held(root.id), ModuleType):
                return f"it calls {function.attr}"
            is_method = function.attr in _VALUE | _METHODS | _GRAPH | _EDITOR
            return "" if is_method else f"it calls {function.attr}"
        return "it calls what it computes"

    def _known(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self._held(node.id) if node.id not in self.own else None
        if isinstance(node, ast.Attribute):
            owner = self._known(node.value)
            if isinstance(owner, ModuleType):
                return vars(owner).get(node.attr)
            if _is_class(owner):
                found = inspect.getattr_static(owner, node.attr, None)
                is_made = owner is DeviceRef and isinstance(found, (staticmethod, classmethod))
                return owner if is_made else found
        return None

    def _range(self, node: ast.Call) -> str:
        for argument in node.args:
            value = argument.value if isinstance(argument, ast.Constant) else None
            if isinstance(argument, ast.Name):
                value = self._held(argument.id)
            if not isinstance(value, int) or abs(value) > MOST_TURNS:
                return "it has a range of unknown length"
        return ""


def _is_class(held: Any) -> bool:
    return any(held is one for one in _CLASSES)


def _is_harmless(held: Any) -> bool:
    """Whether calling ``held`` changes nothing but the graph that is being built."""
    if isinstance(held, type):
        return _is_class(held) or issubclass(held, np.generic)
    module = getattr(held, "__module__", "") or ""
    name = getattr(held, "__name__", "")
    if isinstance(held, FunctionType) and module.startswith(ops.__name__ + "."):
        return name not in _UNSAFE_OPS
    if held in vars(math).values():
        return True
    return module.partition(".")[0] == "numpy" and name in _ARRAYS


def build(text: str, namespace: Mapping[str, Any], name: str) -> Function | None:
    """The graph called ``name`` that ``text`` builds, in a copy of ``namespace``; None where it
    builds none. Call it only where `why_not` has no objection.

    Raises:
        Exception: What the text raises.
    """
    before = {id(value) for value in namespace.values() if isinstance(value, Graph)}
    known = set(LIVE)
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    own = {**namespace, **dict.fromkeys(_SHOWING, _nothing)}
    try:
        exec(compile(tree, "<the rewritten cell>", "exec"), own)
        made: Any = None
        if isinstance(last, ast.Expr):
            shown = ast.Expression(last.value)
            made = eval(compile(shown, "<the rewritten cell>", "eval"), own)
    finally:
        for graph in set(LIVE) - known:
            LIVE.discard(graph)
    found = [
        value
        for value in [*own.values(), made]
        if isinstance(value, Graph) and id(value) not in before and value.name == name
    ]
    return found[-1].function if found else None


def _nothing(*_: Any, **__: Any) -> None:
    """Takes the place of what shows something."""


__all__ = ["build", "why_not"]
