"""Ways out where a line stands for several operations: its function gets a parameter, or lines
behind the graph change the one that is meant.
"""

from __future__ import annotations

import ast
import inspect

from maxlab.graph import Editor
from maxlab.graph.editing import OPERATIONS
from maxlab.ir import Op, Value
from maxlab.lab.code.arguments import Callee, callee_of, set_arguments
from maxlab.lab.code.changes import Changes
from maxlab.lab.code.following import short
from maxlab.lab.code.parsed import Site
from maxlab.lab.code.reading import GRAPH, Evaluator, Reading
from maxlab.lab.code.refusing import CodeError, no_place, unread, wordless
from maxlab.lab.code.rewriting import Written
from maxlab.lab.code.text import Replacement
from maxlab.lab.code.wording import Names, Wording, literal, type_text
from maxlab.opset import is_constant

BEGINS, ENDS = "# maxlab: canvas edits", "# maxlab: end of canvas edits"


# ---------------------------------------------------------------- a parameter
def as_parameter(reading: Reading, changes: Changes) -> Written:
    """Gives the function that made an operation a parameter for what changed; the call that made it
    passes it.

    Raises:
        CodeError: ML873 and ML876, it is no argument of one operation of a plain function.
    """
    code = reading.code
    only = len(changes.attributes) == changes.count == 1 and not changes.rewired
    if not only:
        raise wordless(
            f"{changes.count} changes as a parameter", "change one argument of one operation"
        )
    [now] = changes.attributes
    op = next(one for one in changes.base.ops if one.id == now.id)
    site, function = _site_in_function(reading, op)
    names = Names(code.namespace)
    wording = Wording(names)
    old, new = wording.of(op), wording.of(now)
    changed = [
        name
        for name in {**old.arguments, **new.arguments}
        if old.arguments.get(name) != new.arguments.get(name)
    ]
    known = code.known(site.func)
    method = site.func.attr if known is None and isinstance(site.func, ast.Attribute) else ""
    callee = callee_of(known, method, old.function)
    if callee is None or not all(callee.has(name) for name in changed):
        raise wordless(f"{code.text(site)[:40]!r} with a parameter")
    call = _call_of(reading, op, site, function)
    taken = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    taken |= {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
    inner: dict[str, str | None] = {}
    outer: dict[str, str | None] = {}
    header = ""
    says = []
    for name in changed:
        parameter, number = name, 2
        while parameter in taken:
            parameter, number = f"{name}_{number}", number + 1
        before = old.arguments.get(name, _usual(old.function, name, names))
        after = new.arguments.get(name, _usual(new.function, name, names))
        inner[name], outer[parameter] = parameter, after
        header += f", {parameter}={before}"
        says.append(f"{function.name} gets the parameter {parameter}, {before} unless given")
        says.append(f"one call passes {parameter}={after}")
    plain = [a.arg for a in [*function.args.posonlyargs, *function.args.args]]
    called = Callee((*plain, *outer))
    at = _end_of_parameters(reading, function)
    source = code.source.text
    if source[:at].rstrip().endswith("("):
        header = header.removeprefix(", ")
    return Written(
        [
            Replacement(at, at, header),
            Replacement(*code.range(site), set_arguments(code.text(site), callee, inner)),
            Replacement(*code.range(call), set_arguments(code.text(call), called, outer)),
        ],
        says,
    )


def _site_in_function(reading: Reading, op: Op) -> tuple[ast.Call, ast.FunctionDef]:
    site = next((s for s, ops in reading.sites.items() if op in ops), None)
    if site is None:
        raise no_place(short(op), "in another place", op.loc)
    function = reading.code.scope(site)
    group = [one for one in reading.sites[site] if one.scope == op.scope]
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or len(group) != 1:
        raise wordless(f"{short(op)} as a parameter of a function")
    if not isinstance(reading.code.scope(function), ast.Module) or not isinstance(site, ast.Call):
        raise wordless(f"{short(op)} as a parameter of a function")
    for one in reading.code.above(site):
        if isinstance(one, (ast.For, ast.While)):
            raise wordless(f"one turn of the loop that made {short(op)}", "override it")
    return site, function


def _usual(function: str, name: str, names: Names) -> str:
    return literal(inspect.signature(OPERATIONS[function]).parameters[name].default, names)


def _call_of(reading: Reading, op: Op, site: Site, function: ast.FunctionDef) -> ast.Call:
    """The call of ``function`` that made ``op``: runs and calls are counted in their order."""
    code = reading.code
    scopes = list(dict.fromkeys(one.scope for one in reading.sites[site]))
    calls = code.calls(function.name) or []
    calls.sort(key=lambda one: (one.end_lineno or 0, one.end_col_offset or 0))
    if len(calls) != len(scopes) or any(code.repeats(one) for one in calls):
        raise wordless(f"the call of {function.name} that made {short(op)}", "override it")
    found = calls[scopes.index(op.scope)]
    if code.is_graph_call(found):
        raise wordless(f"an argument of {function.name}, which a graph calls", "override it")
    return found


def _end_of_parameters(reading: Reading, function: ast.FunctionDef) -> int:
    """Where a parameter with a default can be put."""
    args = function.args
    code = reading.code
    if args.posonlyargs and not (args.args or args.kwonlyargs or args.vararg):
        raise unread(f"{function.name} takes its arguments by place", "change it by hand")
    nodes: list[ast.AST] = [*args.posonlyargs, *args.args, *args.kwonlyargs, *args.defaults]
    nodes += [one for one in args.kw_defaults if one is not None]
    nodes += [args.vararg] if args.vararg is not None else []
    if nodes:
        return max(code.range(one)[1] for one in nodes)
    if args.kwarg is not None:
        raise unread(f"{function.name} takes all keywords", "change it by hand")
    start = code.source.offset(function.lineno, function.col_offset)
    return code.source.text.index("(", start) + 1


# ---------------------------------------------------------------- an override
def as_override(reading: Reading, changes: Changes) -> Written:
    """Lines behind the graph that change it as it was changed by hand, in a block of their own.

    Operations are named by their ids, which a cell gives in the same order whenever it runs. So
    this is believed only when the new text was run, and built the graph.

    Raises:
        CodeError: ML876, a step cannot be written.
    """
    code = reading.code
    if BEGINS in code.source.text:
        raise unread("the cell has canvas edits already", "put them into the code above by hand")
    evaluator = Evaluator(reading, lambda site: None)
    graph = next((n for n, b in reading.last.items() if evaluator.bound(b) == GRAPH), None)
    if graph is None:
        raise no_place("the graph", "without a variable that holds it")
    names = Names(code.namespace)
    steps = _Steps(changes, names).lines()
    editor = next((name for name, held in code.namespace.items() if held is Editor), None)
    lines = [BEGINS]
    if editor is None:
        lines.append("from maxlab.graph import Editor")
    taken = {n.id for n in ast.walk(code.tree) if isinstance(n, ast.Name)} | set(code.namespace)
    own, number = "editor", 2
    while own in taken:
        own, number = f"editor_{number}", number + 1
    lines.append(f"{own} = {editor or 'Editor'}({graph})")
    lines += [step.replace("editor.", f"{own}.", 1) for step in steps]
    lines.append(ENDS)
    last = _last_of_graph(reading)
    source = code.source
    assert last.end_lineno is not None
    end = source.ends[last.end_lineno - 1]
    text = "".join(f"{source.newline}{line}" for line in lines)
    return Written(
        [Replacement(end, end, text)],
        [f"{len(steps)} line{'' if len(steps) == 1 else 's'} behind the graph change it"],
        "operations are named by their ids",
    )


def _last_of_graph(reading: Reading) -> ast.stmt:
    """The last statement of the cell's own level that builds the graph."""
    last: ast.stmt | None = None
    for one in reading.code.tree.body:
        for node in ast.walk(one):
            is_site = isinstance(node, (ast.expr, ast.AugAssign)) and node in reading.sites
            is_function = isinstance(one, (ast.FunctionDef, ast.ClassDef))
            if (is_site and not is_function) or reading.code.is_graph_call(node):
                last = one
    if last is None:
        raise no_place("the graph", "in another place")
    return last


class _Steps:
    """Edits as calls of an editor."""

    def __init__(self, changes: Changes, names: Names) -> None:
        self._changes, self._names = changes, names
        self._wording = Wording(names)
        self._before = {op.id: op for op in changes.base.ops}
        self._known = {v.id for op in changes.base.ops for v in op.results}
        self._known |= {v.id for v in changes.base.inputs}
        self._called: dict[str, str] = {}
        self._lines: list[str] = []

    def lines(self) -> list[str]:
        """The calls."""
        changes = self._changes
        for op in changes.inner:
            raise wordless(f"what changed inside of {short(op)}")
        for value in changes.inputs:
            name = f"input_{len(self._called) + 1}"
            self._called[value.id] = name
            self._lines.append(f"{name} = editor.add_input({type_text(value.type, self._names)})")
        for value in changes.types:
            self._lines.append(
                f'editor.set_type("{value.id}", {type_text(value.type, self._names)})'
            )
        for op in changes.attributes:
            old = self._before[op.id].attrs
            for key, attr in op.attrs.items():
                if old.get(key) != attr:
                    text = literal(attr, self._names)
                    self._lines.append(f'editor.set_attribute("{op.id}", "{key}", {text})')
        for op in changes.added:
            self._added(op)
        for op in changes.now.ops:
            was = self._before.get(op.id)
            if was is not None and op.ends_block and len(was.operands) != len(op.operands):
                given = ", ".join(self._value(v) for v in op.operands)
                self._lines.append(f"editor.set_outputs({given})")
            elif was is not None:
                for number, value in enumerate(op.operands):
                    if was.operands[number].id != value.id:
                        text = self._value(value)
                        self._lines.append(f'editor.connect("{op.id}", {number}, {text})')
        gone = [op for op in changes.removed if not is_constant(op)]
        if gone:
            told = ", ".join(f'"{op.id}"' for op in reversed(gone))
            self._lines.append(f"editor.remove({told})")
        for value in changes.gone:
            self._lines.append(f'editor.remove_input("{value.id}")')
        return self._lines

    def _added(self, op: Op) -> None:
        words = self._wording.of(op)
        if not words.function:
            raise wordless(f"{short(op)} as a step of an editor")
        told = words.given([self._value(v) for v in op.operands])
        stem = f"{words.function}_{op.id}"
        called = [f"{stem}_{n}" if n else stem for n in range(len(op.results))]
        self._called.update({v.id: name for v, name in zip(op.results, called, strict=True)})
        arguments = ", ".join([f'"{words.function}"', *told])
        self._lines.append(f"[{', '.join(called)}] = editor.add({arguments})")

    def _value(self, value: Value) -> str:
        return self._called.get(value.id, f'"{value.id}"')


__all__ = ["BEGINS", "CodeError", "ENDS", "as_override", "as_parameter"]
