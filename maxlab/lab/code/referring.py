"""How values are written where something is to read them: by a name, by a line of their own, or in
place."""

from __future__ import annotations

import ast
import builtins
import keyword

from maxlab.ir import Op, Value
from maxlab.lab.code.composing import Composing
from maxlab.lab.code.following import (
    Following,
    Text,
    constantly,
    is_literal,
    is_number,
    short,
)
from maxlab.lab.code.parsed import COMPREHENSIONS, Site
from maxlab.lab.code.reading import GRAPH
from maxlab.lab.code.refusing import unreachable
from maxlab.lab.code.wording import number
from maxlab.opset import is_constant


class Referring(Following):
    """Writes values where they are read."""

    def _reference(self, value: Value, before: ast.stmt, at: ast.AST) -> Text:
        """How ``value`` is written where ``at`` stands, with lines before ``before`` if need be.

        Raises:
            CodeError: ML877, it has no name there; ML876, a new operation cannot be written.
        """
        name = self._name_for(value, at)
        if name is not None:
            return constantly(name)
        if value.id in self._line_of:
            name, line = self._line_of[value.id]
            if self._comes_first(line, before):
                return constantly(name)
            raise unreachable(f"the new value {name}")
        op = self._made_by.get(value.id)
        if op is None:
            return self._input(value, at)
        if op.id in self._was or op in self.changes.exchanged.values():
            return self._hoisted(value, op, before)
        return self._new_line(value, op, before, at)

    def _new_line(self, value: Value, op: Op, before: ast.stmt, at: ast.AST) -> Text:
        words = self._wording.of(op)
        is_shared = sum(value.uses.values()) > 1
        if is_constant(op) and is_number(op) and not is_shared:
            self._inlined.add(value.id)
            is_short = isinstance(at, ast.stmt) and self._may_be_number(op)
            return constantly(number(op) if is_short else words.on([]))
        if isinstance(self.code.scope(at), ast.Lambda):
            if is_shared or words.gives_list:
                several = "which several operations read" if is_shared else "which gives a list"
                raise unreachable(
                    f"the new {short(op)}, {several},",
                    fix="a lambda has no lines: write a function, or a with block",
                )
            operands = [self._reference(v, before, at) for v in op.operands]
            self._inlined.update(v.id for v in op.results)
            return lambda: words.on([text() for text in operands])
        operands = [self._reference(v, before, before) for v in op.operands]
        stem = words.function or "part"
        told = [v for v in op.results if v.uses or v is value or len(op.results) == 1]
        names = {v.id: self._fresh(v.name or stem) for v in told}
        target = ", ".join(names.get(v.id, "_") for v in op.results)
        if words.gives_list and len(op.results) == 1:
            target = f"({target},)"
        self._line_of.update({id: (name, before) for id, name in names.items()})
        self.lines.setdefault(before, []).append(
            (target, lambda: words.on([text() for text in operands]))
        )
        self._says.append(f"{', '.join(names.values())} {'is' if len(names) == 1 else 'are'} new")
        return constantly(names[value.id])

    def _may_be_number(self, op: Op) -> bool:
        """Whether a plain number makes the constant ``op`` where it is read."""
        value = op.results[0]
        for reader in value.uses:
            others = [
                v
                for v in reader.operands
                if v is not value and not (v.op is not None and is_constant(v.op))
            ]
            if len(reader.operands) != 2 or not others:
                return False
            if getattr(others[0].type, "dtype", None) != getattr(value.type, "dtype", None):
                return False
        return bool(value.uses)

    def _hoisted(self, value: Value, op: Op, before: ast.stmt) -> Text:
        """``value``, which an expression inside of a statement makes: a line of its own gives it a
        name."""
        origin = op.id
        for old, new in self.changes.exchanged.items():
            if new is op:
                origin = old
        site = self._site(self._was[origin])
        if self._was[origin] is not self.reading.sites[site][-1]:
            raise unreachable(short(op), op.loc)
        if site in self.alias:
            return constantly(self.alias[site])
        statement = self.code.statement(site)
        inner = [
            one
            for one in self.code.above(site)
            if isinstance(one, (ast.Lambda, ast.IfExp, ast.BoolOp, *COMPREHENSIONS))
            and self._is_within(one, statement)
        ]
        is_simple = isinstance(statement, (ast.Assign, ast.Expr, ast.Return, ast.AugAssign))
        if inner or not is_simple or isinstance(site, ast.AugAssign) or len(op.results) > 1:
            raise unreachable(short(op), op.loc)
        if not self._comes_first(statement, before, or_same=True):
            raise unreachable(
                f"{short(op)}, which is made on a later line,", op.loc, "move its line up by hand"
            )
        name = self._fresh(value.name or op.name.rpartition(".")[2])
        self.alias[site] = name
        self.lines.setdefault(statement, []).append((name, lambda: self._text_of_own(site)))
        return constantly(name)

    def _is_within(self, node: ast.AST, other: ast.AST) -> bool:
        return any(one is other for one in self.code.above(node))

    def _comes_first(self, one: ast.stmt, other: ast.stmt, or_same: bool = True) -> bool:
        """Whether ``one`` runs before ``other``, in the same function."""
        if one is other:
            return or_same
        if self.code.scope(one) is not self.code.scope(other):
            return False
        around = [node for node in self.code.above(one) if isinstance(node, ast.stmt)]
        for node in around:
            apart = (ast.If, ast.For, ast.While, ast.Try)
            if isinstance(node, apart) and not self._is_within(other, node):
                return False
        return (one.lineno, one.col_offset) < (other.lineno, other.col_offset)

    def _name_for(self, value: Value, at: ast.AST) -> str | None:
        """A variable that holds ``value`` where ``at`` stands; the one bound last."""
        found: list[tuple[int, str]] = []
        for name, binding in self.reading.visible(at).items():
            if name in self.reading.tainted or self.reading.binding(name, at) != binding:
                continue
            if self._after.bound(binding) == value.id:
                line = getattr(binding.node, "lineno", 0)
                statement = self.code.statement(binding.node) if binding.node is not None else None
                if statement not in self.gone:
                    found.append((line, name))
        return max(found)[1] if found else None

    def _input(self, value: Value, at: ast.AST) -> Text:
        for name, binding in self.reading.visible(at).items():
            if self._after.bound(binding) == GRAPH:
                number = self._inputs[value.id]
                kind = "buffer" if type(value.type).__name__ == "BufferType" else "tensor"
                return constantly(f"{name}.inputs[{number}].{kind}")
        raise unreachable(f"the input {value.name or value.id}")

    def _called(self, value: Value) -> str:
        op = self._made_by.get(value.id)
        return value.name or (short(op) if op is not None else f"%{value.id}")

    def _fresh(self, wish: str) -> str:
        """A name that nothing has."""
        stem = wish if wish.isidentifier() and not keyword.iskeyword(wish) else "value"
        taken = self._taken | self._used | set(self.code.namespace) | set(dir(builtins))
        name, number = stem, 1
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        self._taken.add(name)
        return name

    def _put_value(self, place: ast.expr, value: Value, before: Value, says: str) -> None:
        """Write ``value`` where ``place`` stands, which gave ``before``."""
        given = self._stands_for(place, before)
        statement = self.code.statement(place)
        op = self._made_by.get(value.id)
        is_new = op is not None and op.id not in self._was
        is_new = is_new and op not in self.changes.exchanged.values()
        uses = sum(value.uses.values()) if is_new else 0
        if op is not None and is_new and uses == 1 and len(op.results) == 1:
            wraps = [v for v in op.operands if v.id == given]
            is_list = bool(wraps) and self._wording.of(op).gives_list
            if wraps and not isinstance(place, ast.Name) and not is_list:
                self._wrap(place, op, given, statement)
                return
        if is_new and op is not None and is_constant(op) and is_number(op):
            if self._may_be_number(op):
                self._keep(place)
                self.put[place] = constantly(number(op))
                self._inlined.add(value.id)
                self._says.append(says)
                return
        self._keep(place)
        self.put[place] = self._reference(value, statement, place)
        self._says.append(says)

    def _keep(self, place: ast.AST) -> None:
        """Give what ``place`` makes lines of their own: something else will stand there."""
        for node in self._living(place):
            if node not in self.alias:
                last = self.reading.sites[node][-1]
                living = self._now.get(last.id) or self.changes.exchanged[last.id]
                self._hoisted(living.results[0], living, self.code.statement(node))

    def _living(self, place: ast.AST) -> list[Site]:
        """The outermost expressions in ``place`` that make operations which are still there."""
        if isinstance(place, (ast.expr, ast.AugAssign)) and place in self.reading.sites:
            last = self.reading.sites[place][-1]
            if last.id in self._now or last.id in self.changes.exchanged:
                return [place]
        return [one for child in ast.iter_child_nodes(place) for one in self._living(child)]

    def _wrap(self, place: ast.expr, op: Op, given: str, statement: ast.stmt) -> None:
        """Put the new ``op`` around ``place``, which it alone reads."""
        words = self._wording.of(op)
        texts: list[Text] = []
        is_wrapped = False
        for value in op.operands:
            if value.id == given and not is_wrapped:
                texts.append(self._whole(place, self._made_by.get(given)))
                is_wrapped = True
            else:
                made = self._made_by.get(value.id)
                is_plain = made is not None and is_constant(made) and is_number(made)
                if made is not None and is_plain and made.id not in self._was:
                    self._inlined.add(value.id)
                    is_short = self._may_be_number(made)
                    whole = self._wording.of(made).on([])
                    texts.append(constantly(number(made) if is_short else whole))
                else:
                    texts.append(self._reference(value, statement, place))
        self._inlined.update(v.id for v in op.results)
        self.put[place] = lambda: words.on([text() for text in texts])
        self._says.append(f"{short(op)} is new")

    def _whole(self, place: ast.expr, op: Op | None) -> Text:
        """``place`` as a value that stands alone: a number is a constant then."""
        if is_literal(place) and op is not None and is_constant(op):
            text = self._wording.of(op).on([])
            return constantly(text)
        return lambda: Composing(self.parts).named(place)


__all__ = ["Referring"]
