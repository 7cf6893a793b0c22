"""The text of a cell with the edits of its graph: text × edits → text.

In: the text that the kernel compiled, the graph as that built it, and the graph as it is now. Out:
replacements in the text. Each operation knows the expression that made it; what that gives now is
compared with what the graph reads there now, and only what differs is written anew. Everything else
of the text stays as it is, byte for byte.

An expression that stands for several operations, a value that has no name where it is needed, an
operation that cannot be written: the whole is refused, with the reason.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Sequence
from dataclasses import dataclass, field

from maxlab.graph.code.calls import entries
from maxlab.graph.code.canonical import told_attrs
from maxlab.ir import Dim, Op, Shape, Value
from maxlab.lab.code.arguments import Callee, callee_of, set_arguments
from maxlab.lab.code.composing import Composing
from maxlab.lab.code.ends import Ends
from maxlab.lab.code.following import (
    Text,
    Why,
    constantly,
    is_literal,
    later,
    name_of,
    short,
)
from maxlab.lab.code.parsed import Site
from maxlab.lab.code.refusing import unreachable, wordless
from maxlab.lab.code.text import Replacement
from maxlab.lab.code.wording import Words
from maxlab.opset import is_constant


@dataclass(slots=True)
class Written:
    """Replacements in the text of a cell, and what they do.

    Attributes:
        replacements: In the text, in order; none of them overlap.
        says: What they do, a sentence each.
        needs_check: Why it must be built once to be sure; empty where the text says it all.
    """

    replacements: list[Replacement]
    says: list[str] = field(default_factory=list)
    needs_check: str = ""


class Rewriter(Ends):
    """Writes ``changes`` into ``reading.code``; the arguments are those of `Following`."""

    # ------------------------------------------------------------ the whole
    def write(self) -> Written:
        """The replacements for the changes.

        Raises:
            CodeError: The changes cannot be written, or not all of them.
        """
        changes = self.changes
        for op in changes.inner:
            raise wordless(
                f"what changed inside of {short(op)}", "change the function that it calls by hand"
            )
        self._types()
        exchanged = {op.id for op in changes.exchanged.values()}
        for op in changes.base.ops:
            if op.id in self._now or op.id in changes.exchanged:
                self._survivor(op)
            else:
                self._removed(op)
        for op in changes.added:
            if op.id not in exchanged:
                self._added(op)
        for value in changes.names:
            self._rename(value)
        self._require_all_used()
        return Written(Composing(self.parts).all(), self._says, self._needs_check)

    # ------------------------------------------------------------ operations that stay
    def _survivor(self, op: Op) -> None:
        living = self._now.get(op.id) or self.changes.exchanged[op.id]
        is_same = living.id == op.id
        differs = not is_same or dict(living.attrs) != dict(op.attrs)
        if differs and is_same and self.changes.types and _follows(op, living):
            # A size of the input is in it; the expression computes it anew, or does not.
            self._needs_check = "sizes follow from the types of the inputs"
            differs = False
        if (
            is_same
            and not op.ends_block
            and [v.type for v in op.operands] != [v.type for v in living.operands]
        ):
            self._needs_check = f"what makes {short(op)} may do otherwise with other types"
        if is_same and not differs and op.id not in self._site_of:
            self._require_heritage(op, living)
            return
        if op.ends_block:
            self._output(op, living)
            return
        site = self._site_of.get(op.id)
        group = self.reading.sites[site] if site is not None else []
        is_repeated = site is not None and bool(self.code.repeats(site))
        if site is None or is_repeated:
            if differs:
                self._site(op)
            self._require_heritage(op, living)
            return
        others = [one for one in group if not is_constant(one) and one is not op]
        if others:
            self._one_of_several(site, op, living, differs)
            return
        places = self._places(site, op)
        if not is_same or (differs and not is_constant(op)):
            self._anew(site, op, living, places)
        elif differs:
            raise wordless(f"other numbers in the constant {op.id}")
        else:
            self._rewire(site, op, living, places)

    def _require_heritage(self, op: Op, living: Op) -> None:
        """Raises unless ``op``, whose text cannot be changed, reads what it read, or what stands
        for that."""
        if [self._heritage(v) for v in op.operands] != [v.id for v in living.operands]:
            self._site(op)
            raise unreachable(f"what {short(op)} reads", op.loc)

    def _rewire(self, site: Site, op: Op, living: Op, places: Sequence[ast.expr | None]) -> None:
        """Let the arguments of ``site`` be what ``living`` reads."""
        for number, value in enumerate(living.operands):
            place = places[number] if number < len(places) else None
            if place is None:
                if number < len(op.operands) and op.operands[number].id == value.id:
                    continue
                raise unreachable(f"operand {number} of {short(op)}", op.loc)
            before = op.operands[number]
            if self._stands_for(place, before) != value.id:
                self._put_value(place, value, before, f"{short(op)} reads {self._called(value)}")

    def _one_of_several(self, site: Site, op: Op, living: Op, differs: bool) -> None:
        """``op`` is one of several that a call has made: only what it takes can change."""
        own = {v.id for one in self.reading.sites[site] for v in one.results}
        if differs:
            raise wordless(
                f"a part of {self.code.text(site)[:40]!r}: {short(op)} is one of several "
                "operations that it makes",
                "write the operations one by one in the cell",
            )
        arguments = self._arguments(site)
        for old, new in zip(op.operands, living.operands, strict=True):
            if old.id in own and old.id == new.id:
                continue
            for argument in arguments:
                if self._before.value(argument) == old.id:
                    if self._stands_for(argument, old) != new.id:
                        self._put_value(
                            argument, new, old, f"{short(op)} reads {self._called(new)}"
                        )
                    break
            else:
                if old.id != new.id:
                    raise unreachable(f"what {short(op)} reads", op.loc)

    def _anew(self, site: Site, op: Op, living: Op, places: Sequence[ast.expr | None]) -> None:
        """Write ``living`` where ``op`` was made: another operation, or other attributes."""
        words = self._wording.of(living)
        is_same = living.id == op.id
        if is_same:
            self._rewire(site, op, living, places)
            self._says.append(f"{short(op)}: {_told(op, living)}")
            if isinstance(site, ast.Call):
                old = self._wording.of(op)
                changed = {
                    name: words.arguments.get(name)
                    for name in {*old.arguments, *words.arguments}
                    if old.arguments.get(name) != words.arguments.get(name)
                }
                callee = self._callee(site, words)
                if callee is not None and all(callee.has(name) for name in changed):

                    def arguments() -> str:
                        return set_arguments(self._inner(site), callee, changed)

                    self.own[site] = arguments
                    return
            if isinstance(site, ast.Subscript):
                bounds = self._bounds(site, op, living)
                if bounds:
                    self.own[site] = lambda: f"{self._text(site.value)}[{', '.join(bounds)}]"
                    return
        else:
            self._says.append(f"{short(living)} takes the place of {short(op)}")
        if is_constant(living):
            self.own[site] = lambda: words.on([])
            return
        given = [
            (place, self._stands_for(place, before))
            for place, before in zip(places, op.operands, strict=True)
            if place is not None
        ]
        texts: list[Text] = []
        statement = self.code.statement(site)
        for value in living.operands:
            found = next((pair for pair in given if pair[1] == value.id), None)
            if found is not None:
                given.remove(found)
                if len(living.operands) == 1 and is_literal(found[0]):
                    texts.append(self._whole(found[0], value.op))
                else:
                    texts.append(later(self._text, found[0]))
            else:
                texts.append(self._reference(value, statement, site))
        for place, _ in given:
            self._keep(place)
        if isinstance(site, ast.AugAssign):
            assert isinstance(site.target, ast.Name)
            name = site.target.id
            self.own[site] = lambda: f"{name} = {words.on([t() for t in texts])}"
        else:
            self.own[site] = lambda: words.on([text() for text in texts])

    def _bounds(self, site: ast.Subscript, op: Op, living: Op) -> list[str]:
        """The text between the brackets of ``site`` when it gives ``living``: parts that are the
        same as in ``op`` stay as they are written. Empty where the whole has to be written anew.
        """
        before, after = entries(op, ()), entries(living, ())
        if op.name != living.name or before is None or after is None:
            return []
        own = list(site.slice.elts) if isinstance(site.slice, ast.Tuple) else [site.slice]
        rest = [n for n, one in enumerate(own) if is_rest(one)]
        behind = len(own) - rest[0] - 1 if rest else 0
        axes = [
            n if not rest or n < rest[0] else n - len(own) + len(before) for n in range(len(own))
        ]
        written = {axis: one for axis, one in zip(axes, own, strict=True) if not is_rest(one)}
        texts = {axis: self.code.text(one) for axis, one in written.items()}
        for axis, (old, new) in enumerate(zip(before, after, strict=True)):
            if old.flat() != new.flat():
                if axis not in texts:
                    return []
                texts[axis] = self._names.in_cell(new).flat()
        found = [texts[axis] for axis in sorted(texts)]
        if rest:
            found.insert(len(found) - behind, "...")
        return found

    def _callee(self, site: ast.Call, words: Words) -> Callee | None:
        """The callee of ``site``, where it takes the arguments of ``words``."""
        owner = site.func.value if isinstance(site.func, ast.Attribute) else None
        is_method = owner is not None and isinstance(self._before.value(owner), str)
        name = site.func.attr if isinstance(site.func, ast.Attribute) else ""
        return callee_of(self.code.known(site.func), name if is_method else "", words.function)

    # ------------------------------------------------------------ operations that are new
    def _added(self, op: Op) -> None:
        """A new operation is written where something reads it; one that nothing reads becomes a
        line at the end."""
        if op.ends_block:
            raise wordless("outputs that the cell does not give", "write graph.output(...) in it")
        if any(v.id in self._line_of or v.id in self._inlined for v in op.results):
            return
        if any(v.uses for v in op.results):
            return
        end = self._end()
        self._reference(op.results[0], end, end)
        self._says.append(f"{short(op)} is new")

    def _require_all_used(self) -> None:
        exchanged = {op.id for op in self.changes.exchanged.values()}
        for op in self.changes.added:
            if op.id in exchanged or is_constant(op):
                continue
            if not any(v.id in self._line_of or v.id in self._inlined for v in op.results):
                raise unreachable(f"the new {short(op)}")

    # ------------------------------------------------------------ names
    def _rename(self, value: Value) -> None:
        """Call the variable of ``value`` by its new name, where that is safe; the name stays on the
        canvas otherwise."""
        op = self._made_by.get(value.id)
        site = self._site_of.get(op.id) if op is not None else None
        new = value.name
        if site is None or not new.isidentifier() or keyword.iskeyword(new):
            return
        statement = self.code.statement(site)
        name = name_of(statement, site)
        taken = self._taken | self._used | set(self.code.namespace) | set(dir(builtins))
        if name is None or name in self._used or new in taken or self.code.repeats(site):
            return
        own = [n for n in ast.walk(self.code.tree) if isinstance(n, ast.Name) and n.id == name]
        others = [a for a in ast.walk(self.code.tree) if isinstance(a, ast.arg) and a.arg == name]
        stores = [n for n in own if not isinstance(n.ctx, ast.Load)]
        if len(stores) != 1 or others or any(n in self.put for n in own):
            return
        if any(self.code.scope(n) is not self.code.scope(site) for n in own):
            return
        for node in own:
            self.put[node] = constantly(new)
        self._taken.add(new)
        self._says.append(f"{name} is called {new}")


# ---------------------------------------------------------------- small things
def is_rest(node: ast.expr) -> bool:
    """Whether ``node`` is ``...``."""
    return isinstance(node, ast.Constant) and node.value is ...


def _follows(old: Op, new: Op) -> bool:
    """Whether only sizes of an operation differ."""
    return old.attrs.keys() == new.attrs.keys() and all(
        old.attrs[key] == new.attrs[key] or isinstance(old.attrs[key], (Shape, Dim, tuple))
        for key in old.attrs
    )


def _told(old: Op, new: Op) -> str:
    """Says how attributes changed."""
    before, after = dict(told_attrs(old)), dict(told_attrs(new))
    return ", ".join(
        f"{name} {before.get(name, 'as usual')} → {after.get(name, 'as usual')}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    )


__all__ = ["Rewriter", "Why", "Written"]
