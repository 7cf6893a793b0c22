"""Sizes of a plan as functions of C: `Sizes`, and texts as literals of C."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.compiler.guards import Guard
from maxlab.errors import Location
from maxlab.ir.poly import Monomial, Poly

_ESCAPED = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"}


def literal(text: str) -> str:
    """``text`` as a string of C, of its UTF-8 bytes."""
    made = (
        _ESCAPED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
        for byte in text.encode("utf-8", "replace").replace(b"\0", b"?")
    )
    return '"' + "".join(made) + '"'


def number(value: int) -> str:
    """An int64 as a constant of C."""
    return f"{value}LL" if value > -(2**63) else "(-9223372036854775807LL - 1)"


def where(at: Location | None) -> str:
    """The user's line as the end of a message; empty where it is not known."""
    return "" if at is None else f" ({at.file}, line {at.line})"


class Sizes:
    """The sizes that a plan names, each a function of C, and the guards.

    Attributes:
        numbers: The place of each symbol in the array of sizes.
        texts: The functions.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.texts: list[str] = []
        self._functions: dict[Poly, str] = {}
        self._guards = 0

    def symbol(self, name: str) -> str:
        """The element of the array of sizes that ``name`` is."""
        return f"s[{self.numbers.setdefault(name, len(self.numbers))}]"

    def function(self, poly: Poly) -> str:
        """The name of the function that gives ``poly``."""
        found = self._functions.get(poly)
        if found is None:
            body = self.expression(poly)
            found = self._functions[poly] = f"size{len(self._functions)}"
            unused = "" if "s[" in body else " (void)s;"
            self.texts.append(f"static i64 {found}(const i64 *s) {{{unused} return {body}; }}")
        return found

    def functions(self, polys: Sequence[Poly]) -> str:
        """The names of several, separated by commas."""
        return ", ".join(map(self.function, polys))

    def expression(self, poly: Poly) -> str:
        """``poly`` as an expression of C that notes what cannot be counted."""
        terms = [self._term(monomial, scale) for monomial, scale in poly.terms]
        if not terms:
            return "0"
        made = terms[0]
        for term in terms[1:]:
            made = f"plan_add({made}, {term})"
        return made

    def _term(self, monomial: Monomial, scale: int) -> str:
        factors = [] if scale == 1 and monomial else [number(scale)]
        for atom, power in monomial:
            if isinstance(atom, str):
                one = self.symbol(atom)
            else:
                parts = self.expression(atom.numerator), self.expression(atom.denominator)
                one = f"plan_div({parts[0]}, {parts[1]})"
            factors += [one] * power
        made = factors[0]
        for factor in factors[1:]:
            made = f"plan_mul({made}, {factor})"
        return made

    def guard(self, guard: Guard) -> str:
        """The name of the function that is 0 where all of ``guard`` holds, and else says what does
        not; ``NULL`` where there is nothing to test."""
        if not guard.stated:
            return "NULL"
        name = f"guard{self._guards}"
        self._guards += 1
        lines = [*self.tested(guard), "return 0;"]
        body = "\n  ".join(lines)
        self.texts.append(f"static int {name}(const i64 *s) {{\n  {body}\n}}")
        return name

    def tested(self, guard: Guard) -> list[str]:
        """The lines that return unless all of ``guard`` holds."""
        lines = ["plan_wrong = 0;"]
        for poly, op in guard.differences.items():
            lines.append(f"{{ const i64 size = {self.function(poly)}(s);")
            lines.append(self.countable(str(poly), where(op.at)))
            what = literal("%s would make a dim of the negative size %lld: %s%s [ML623]")
            said = f"{literal(op.word)}, size, {literal(str(poly))}, {literal(where(op.at))}"
            lines.append(f"if (size < 0) return plan_say({what}, {said}); }}")
        for op, check in guard.checks:
            left, right = self.function(check.left), self.function(check.right)
            lines.append(f"{{ const i64 left = {left}(s), right = {right}(s);")
            lines.append(
                self.countable(f"{check.left} {check.relation} {check.right}", where(op.at))
            )
            said = ", ".join(
                (
                    literal(f"%s: %lld {check.relation} %lld does not hold%s [ML603]"),
                    literal(check.message),
                    "left",
                    "right",
                    literal(where(op.at)),
                )
            )
            lines.append(f"if (!(left {check.relation} right)) return plan_say({said}); }}")
        return lines

    @staticmethod
    def countable(what: str, at: str) -> str:
        """The line that returns when ``what``, which was computed just now, cannot be counted."""
        over = (
            f'plan_say("the size %s is larger than 63 bits can count%s [ML223]", {literal(what)}, '
        )
        divided = f'plan_say("the size %s is a division by zero%s [ML624]", {literal(what)}, '
        return (
            f"if (plan_wrong & PLAN_OVER) return {over}{literal(at)}); "
            f"if (plan_wrong) return {divided}{literal(at)});"
        )


__all__ = ["Sizes", "literal", "number", "where"]
