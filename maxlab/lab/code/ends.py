"""The inputs and the outputs of a graph in the text of its cell."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from maxlab.ir import Op
from maxlab.lab.code.arguments import type_with
from maxlab.lab.code.composing import Composing
from maxlab.lab.code.following import Text, constantly, later, name_of
from maxlab.lab.code.parsed import Site
from maxlab.lab.code.reading import GRAPH
from maxlab.lab.code.refusing import no_place, repeated, unreachable, unread, wordless
from maxlab.lab.code.removing import Removing
from maxlab.lab.code.wording import type_text


class Ends(Removing):
    """Writes the types of inputs, and what the graph gives."""

    def _end(self) -> ast.stmt:
        """The statement before which lines stand that nothing reads: that of the outputs."""
        output = self.changes.base.output
        site = self._site_of.get(output.id) if output is not None else None
        holder = self._given(site)[0] if isinstance(site, ast.Call) else None
        if holder is None or self.code.repeats(holder):
            raise no_place("the output of the graph", "in another place")
        if isinstance(self.code.scope(holder), ast.Lambda):
            raise unread("a lambda has no lines", "write a function, or a with block")
        return self.code.statement(holder)

    # ------------------------------------------------------------ outputs
    def _output(self, op: Op, living: Op) -> None:
        site = self._site_of.get(op.id)
        old, new = [v.id for v in op.operands], [v.id for v in living.operands]
        if site is None:
            if old != new:
                self._site(op)
            return
        holder, arguments = self._given(site)
        afters = [self._after.value(one) for one in arguments]
        flat = len(arguments) == 1 and isinstance(afters[0], tuple)
        if afters == new or (flat and list(afters[0] or ()) == new):
            return
        if flat and [self._heritage(v) for v in op.operands] == new:
            return
        if len(arguments) == len(old) == len(new) and all(
            self._stands_for(place, was) == n
            for place, was, n in zip(arguments, op.operands, new, strict=True)
        ):
            return
        if self.code.repeats(site) or holder is None:
            self._site(op)
            raise unreachable("the outputs", op.loc)
        if any(isinstance(one, ast.Starred) for one in arguments) or flat:
            raise unreachable("the outputs, which are given as a list,", op.loc)
        if len(arguments) != len(old):
            raise unreachable("the outputs", op.loc)
        if len(old) == len(new):
            for place, value, was in zip(arguments, living.operands, op.operands, strict=True):
                if self._stands_for(place, was) != value.id:
                    self._put_value(place, value, was, f"the graph gives {self._called(value)}")
            return
        statement = self.code.statement(arguments[0] if arguments else site)
        texts: list[Text] = []
        left = list(arguments)
        for value in living.operands:
            found = next((a for a in left if self._after.value(a) == value.id), None)
            if found is not None:
                left.remove(found)
                is_all = found is holder
                texts.append(later(Composing(self.parts).named if is_all else self._text, found))
            else:
                texts.append(self._reference(value, statement, holder))
        for one in left:
            self._keep(one)
        if holder is arguments[0]:
            is_lambda = isinstance(self.code.parents.get(holder), ast.Lambda)
            self.put[holder] = lambda: _tuple([text() for text in texts], is_lambda)
        else:
            self.lists[holder] = (arguments, texts)
        self._says.append(f"the graph gives {', '.join(map(self._called, living.operands))}")

    def _given(self, site: Site) -> tuple[ast.AST | None, list[ast.expr]]:
        """The node that gives the outputs, and the outputs."""
        assert isinstance(site, ast.Call)
        if self.code.is_graph_call(site):
            return self._returned(site)
        if site.keywords:
            return None, list(site.args)
        only = site.args[0] if len(site.args) == 1 else None
        if isinstance(only, ast.Starred) and isinstance(only.value, ast.Call):
            holder, found = self._returned(only.value)
            is_list = isinstance(holder, (ast.Tuple, ast.List))
            return (holder, found) if is_list else (None, list(site.args))
        if isinstance(only, (ast.List, ast.Tuple)):
            return only, list(only.elts)
        return site, list(site.args)

    def _returned(self, call: ast.Call) -> tuple[ast.AST | None, list[ast.expr]]:
        """The values returned by the function that ``call`` calls, or makes a graph of."""
        for function in ast.walk(self.code.tree):
            if isinstance(function, (ast.Lambda, ast.FunctionDef)):
                if self.reading.call_of(function) is not call:
                    continue
                if isinstance(function, ast.Lambda):
                    return _outputs_of(function.body)
                returns = [one for one in ast.walk(function) if isinstance(one, ast.Return)]
                if len(returns) == 1 and returns[0].value is not None:
                    return _outputs_of(returns[0].value)
        return None, []

    # ------------------------------------------------------------ inputs
    def _types(self) -> None:
        changes = self.changes
        if not changes.types and not changes.inputs and not changes.gone:
            return
        call = self._graph_call()
        holder = next((k.value for k in call.keywords if k.arg == "input_types"), None)
        if holder is None and len(call.args) > 2:
            holder = call.args[2]
        if not isinstance(holder, (ast.List, ast.Tuple)) or any(
            isinstance(item, ast.Starred) for item in holder.elts
        ):
            raise wordless("the types of the inputs, which are no list in the cell")
        if len(holder.elts) != len(changes.base.inputs):
            raise wordless("the types of the inputs")
        were = {value.id: number for number, value in enumerate(changes.base.inputs)}
        for value in changes.types:
            item = holder.elts[were[value.id]]
            old = changes.base.inputs[were[value.id]].type
            text = type_with(self.code.text(item), old, value.type, self._names)
            self.own[item] = constantly(text)
            self._says.append(f"the input {value.name or value.id} is {value.type}")
        if changes.gone:
            gone = {were[value.id] for value in changes.gone}
            self.dropped[holder] = {holder.elts[number] for number in gone}
            self._without_inputs(gone, call)
            self._says += [f"the input {v.name or v.id} is gone" for v in changes.gone]
            self._needs_check = "the cell may count its inputs"
        if changes.inputs:
            if not holder.elts or len(changes.gone) == len(holder.elts):
                raise wordless("the first input", "write its type in the list")
            made = [constantly(type_text(v.type, self._names)) for v in changes.inputs]
            kept = [item for item in holder.elts if item not in self.dropped.get(holder, ())]
            self.more[kept[-1]] = made
            self._says.append(f"{len(made)} new input{'s' if len(made) > 1 else ''}")
            self._needs_check = "the cell may count its inputs"

    def _without_inputs(self, gone: Collection[int], call: ast.Call) -> None:
        """Take the inputs with these numbers out of what the cell makes of all inputs."""
        for node in ast.walk(self.code.tree):
            if isinstance(node, ast.Attribute) and node.attr == "inputs":
                if self._before.value(node.value) == GRAPH:
                    self._without_in(node, gone)
        given = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "forward")]
        for one in given:
            function = one if isinstance(one, ast.Lambda) else self._function(one)
            if function is not None and self.reading.call_of(function) is call:
                self._without_parameters(function, gone)

    def _without_in(self, inputs: ast.Attribute, gone: Collection[int]) -> None:
        parent = self.code.parents[inputs]
        if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
            number = parent.slice.value
            if not isinstance(number, int) or number < 0:
                raise wordless(f"{self.code.text(parent)[:40]!r} without an input")
            if number not in gone:
                moved = number - sum(one < number for one in gone)
                if moved != number:
                    self.put[parent.slice] = constantly(str(moved))
                return
            self._without_line(parent)
        elif isinstance(parent, ast.Starred):
            given = self.code.parents[parent]
            function = self._function(given.func) if isinstance(given, ast.Call) else None
            if isinstance(given, ast.Call) and function is not None and parent is given.args[-1]:
                if self.reading.call_of(function) is given:
                    first = len(given.args) - 1
                    self._without_parameters(function, {first + number for number in gone})
                    return
            raise wordless(f"{self.code.text(parent)[:40]!r} without an input")
        else:
            each = self.code.parents[parent] if isinstance(parent, ast.comprehension) else inputs
            statement = self.code.parents[each]
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if len(targets) == 1 and isinstance(targets[0], (ast.Tuple, ast.List)):
                items = targets[0].elts
                if any(isinstance(item, ast.Starred) for item in items):
                    raise wordless(f"{self.code.text(targets[0])[:40]!r} without an input")
                self.dropped[targets[0]] = {items[number] for number in gone}

    def _without_line(self, read: ast.Subscript) -> None:
        """Take away the line that gives an input that is gone to a variable."""
        value: ast.expr = read
        parent = self.code.parents[read]
        if isinstance(parent, ast.Attribute):
            value = parent
        statement = self.code.statement(value)
        if name_of(statement, value) is None:
            raise wordless(f"{self.code.text(statement)[:40]!r} without an input")
        self.gone.add(statement)

    def _without_parameters(
        self, function: ast.FunctionDef | ast.Lambda, gone: Collection[int]
    ) -> None:
        plain = [*function.args.posonlyargs, *function.args.args]
        if function.args.defaults or max(gone) >= len(plain):
            raise wordless("the parameter of an input that is gone", "take it out by hand")
        self.dropped.setdefault(function.args, set()).update(plain[number] for number in gone)

    def _function(self, node: ast.expr) -> ast.FunctionDef | None:
        """The function of the cell that a name stands for."""
        binding = self.reading.binding(node.id, node) if isinstance(node, ast.Name) else None
        found = binding.node if binding is not None else None
        return found if isinstance(found, ast.FunctionDef) else None

    def _graph_call(self) -> ast.Call:
        calls = [n for n in ast.walk(self.code.tree) if isinstance(n, ast.Call)]
        found = [one for one in calls if self.code.is_graph_call(one)]
        if len(found) > 1:
            named = [
                one
                for one in found
                if one.args
                and isinstance(one.args[0], ast.Constant)
                and one.args[0].value == self.changes.base.name
            ]
            found = named
        if len(found) != 1:
            raise no_place("the graph", "in a place that cannot be found")
        why = self.code.repeats(found[0])
        if why:
            raise repeated("the graph", why, None)
        return found[0]


def _tuple(texts: Sequence[str], in_brackets: bool) -> str:
    text = ", ".join(texts)
    return f"({text})" if in_brackets and len(texts) != 1 else text


def _outputs_of(node: ast.expr) -> tuple[ast.AST, list[ast.expr]]:
    if isinstance(node, (ast.Tuple, ast.List)):
        return node, list(node.elts)
    return node, [node]


__all__ = ["Ends"]
