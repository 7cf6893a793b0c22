"""The values of the expressions of a cell, and their counterparts since the graph was edited."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

from maxlab.ir import Op, Value
from maxlab.lab.code.changes import Changes
from maxlab.lab.code.composing import Composing, Parts
from maxlab.lab.code.parsed import Site
from maxlab.lab.code.reading import GRAPH, Evaluator, Known, Reading
from maxlab.lab.code.refusing import CodeError, no_place, repeated
from maxlab.lab.code.wording import Names, Wording

Text = Callable[[], str]
Why = Callable[[Op], CodeError | None]
"""Why the text of an operation of another place cannot be rewritten."""


def short(op: Op) -> str:
    """How messages call an operation."""
    return "the output" if op.ends_block else f"{op.name.removeprefix('mo.')} {op.id}"


class Following:
    """Follows what the expressions of ``reading`` make and what becomes of it by ``changes``.

    Args:
        reading: The cell, and what it built.
        changes: What became of it.
        elsewhere: Why an operation that the cell did not write cannot be changed.
        used: Names that other cells use.
    """

    def __init__(
        self, reading: Reading, changes: Changes, elsewhere: Why, used: Collection[str] = ()
    ) -> None:
        self.reading, self.code, self.changes = reading, reading.code, changes
        self._elsewhere, self._used = elsewhere, frozenset(used)
        self._now = {op.id: op for op in changes.now.ops}
        self._made_by = {v.id: op for op in changes.now.ops for v in op.results}
        self._inputs = {v.id: n for n, v in enumerate(changes.now.inputs)}
        self._was = {op.id: op for op in changes.base.ops}
        self._site_of = {op.id: site for site, ops in reading.sites.items() for op in ops}
        self._before = Evaluator(reading, self._made_before)
        self._after = Evaluator(reading, self._made_after)
        self._healed: dict[Site, ast.expr | None] = {}
        bound = {
            n.id
            for n in ast.walk(self.code.tree)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        bound |= {a.arg for a in ast.walk(self.code.tree) if isinstance(a, ast.arg)}
        self._names = Names(self.code.namespace, bound)
        self._wording = Wording(self._names)
        self._taken = {n.id for n in ast.walk(self.code.tree) if isinstance(n, ast.Name)}
        self._taken |= {a.arg for a in ast.walk(self.code.tree) if isinstance(a, ast.arg)}
        self.parts = parts = Parts(reading.code)
        self.own, self.alias, self.put = parts.own, parts.alias, parts.put
        self.lists, self.more = parts.lists, parts.more
        self.gone, self.lines, self.dropped = parts.gone, parts.lines, parts.dropped
        self._line_of: dict[str, tuple[str, ast.stmt]] = {}  # the variable of a value that is new
        self._inlined: set[str] = set()
        self._says: list[str] = []
        self._needs_check = ""

    # ------------------------------------------------------------ what sites give
    def _made_before(self, site: Site) -> Known:
        return results(self.reading.sites[site][-1])

    def _made_after(self, site: Site) -> Known:
        """The value of ``site`` once it is rewritten."""
        last = self.reading.sites[site][-1]
        living = self._now.get(last.id) or self.changes.exchanged.get(last.id)
        if living is not None:
            return results(living)
        heir = self._heir(site)
        return self._after.value(heir) if heir is not None else None

    def _heir(self, site: Site) -> ast.expr | None:
        """The argument that a removed operation leaves to those who read it; None where nobody
        does."""
        if site in self._healed:
            return self._healed[site]
        last = self.reading.sites[site][-1]
        wanted: set[str] = set()
        for value in last.results:
            for reader in value.uses:
                now = self._now.get(reader.id)
                if now is not None and len(now.operands) == len(reader.operands):
                    pairs = zip(reader.operands, now.operands, strict=True)
                    wanted |= {new.id for old, new in pairs if old is value}
        self._healed[site] = None
        given = [a for a in self._arguments(site) if isinstance(self._before.value(a), str)]
        for argument in given:
            if self._after.value(argument) in wanted or (not wanted and argument is given[0]):
                self._healed[site] = argument
                break
        return self._healed[site]

    def _heritage(self, value: Value) -> str:
        """The id of what stands for ``value``, of the base, without another word in the text."""
        op = value.op
        if op is None or op.id in self._now:
            return value.id
        new = self.changes.exchanged.get(op.id)
        if new is not None:
            return new.results[op.results.index(value)].id
        site = self._site_of.get(op.id)
        after = self._after.value(site) if site is not None else None
        return after if isinstance(after, str) else value.id

    def _stands_for(self, place: ast.expr, before: Value) -> str:
        """The id of what ``place`` gives, which gave ``before``."""
        after = self._after.value(place)
        return after if isinstance(after, str) else self._heritage(before)

    # ------------------------------------------------------------ arguments and operands
    def _arguments(self, site: Site) -> list[ast.expr]:
        """The expressions that ``site`` takes, in their order, lists of them taken apart."""
        found: list[ast.expr] = []
        if isinstance(site, ast.Call):
            if isinstance(site.func, ast.Attribute):
                owner = self._before.value(site.func.value)
                if isinstance(owner, str) and owner != GRAPH:
                    found.append(site.func.value)
            found += [a for a in site.args if not isinstance(a, ast.Starred)]
            found += [k.value for k in site.keywords if k.arg is not None]
        elif isinstance(site, ast.BinOp):
            found = [site.left, site.right]
        elif isinstance(site, ast.UnaryOp):
            found = [site.operand]
        elif isinstance(site, ast.Compare):
            found = [site.left, *site.comparators]
        elif isinstance(site, (ast.Subscript, ast.Attribute, ast.AugAssign)):
            found = [site.value]
        return [
            item
            for one in found
            for item in (one.elts if isinstance(one, (ast.List, ast.Tuple)) else [one])
        ]

    def _places(self, site: Site, op: Op) -> list[ast.expr | None]:
        """For each operand of ``op``, which ``site`` made, the argument that it was."""
        left = self._arguments(site)
        own = {v.id for one in self.reading.sites[site] for v in one.results}
        places: list[ast.expr | None] = [None] * len(op.operands)
        for number, value in enumerate(op.operands):
            for argument in left:
                before = self._before.value(argument)
                is_number = before is None and value.id in own and is_literal(argument)
                if before == value.id or is_number:
                    places[number] = argument
                    left.remove(argument)
                    break
        unknown = [a for a in left if self._before.value(a) is None and not is_literal(a)]
        missing = [n for n, place in enumerate(places) if place is None]
        if len(unknown) == len(missing) and not own & {op.operands[n].id for n in missing}:
            for number, argument in zip(missing, unknown, strict=True):
                places[number] = argument
        return places

    def _site(self, op: Op) -> Site:
        """The expression that made ``op``, and nothing else.

        Raises:
            CodeError: There is none.
        """
        site = self._site_of.get(op.id)
        if site is None:
            why = self._elsewhere(op)
            raise why if why is not None else no_place(short(op), "in another place", op.loc)
        why_not = self.code.repeats(site)
        if why_not:
            raise repeated(short(op), why_not, op.loc, ("parameter", "override"))
        return site

    # ------------------------------------------------------------ the text
    def _text(self, node: ast.AST) -> str:
        """The text of ``node`` now."""
        return Composing(self.parts).text(node)

    def _inner(self, node: ast.AST) -> str:
        """``node`` as it stands, with what is inside of it written anew."""
        return Composing(self.parts).inner(node)

    def _text_of_own(self, node: ast.AST) -> str:
        """The text of ``node`` on its own line, now."""
        return Composing(self.parts).own(node)


# ---------------------------------------------------------------- small things
def results(op: Op) -> Known:
    """The results of an operation, in the form that its expression has."""
    ids = tuple(v.id for v in op.results)
    return ids[0] if len(ids) == 1 else ids


def later(call: Callable[[ast.AST], str], node: ast.AST) -> Callable[[], str]:
    return lambda: call(node)


def constantly(text: str) -> Callable[[], str]:
    return lambda: text


def is_literal(node: ast.expr) -> bool:
    """Whether ``node`` is a number, or numbers."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def is_number(op: Op) -> bool:
    """Whether a constant is one number that a literal writes."""
    array = op.attrs["value"].array
    return array.ndim == 0 and array.dtype.kind in "fiub"


def name_of(statement: ast.stmt, site: Site) -> str | None:
    """The one variable that a plain assignment gives what ``site`` makes."""
    if isinstance(statement, ast.AnnAssign) and statement.value is site:
        return statement.target.id if isinstance(statement.target, ast.Name) else None
    if not isinstance(statement, ast.Assign) or statement.value is not site:
        return None
    [target, *more] = statement.targets
    return target.id if not more and isinstance(target, ast.Name) else None


__all__ = [
    "Following",
    "Text",
    "Why",
    "constantly",
    "is_literal",
    "is_number",
    "later",
    "name_of",
    "results",
    "short",
]
