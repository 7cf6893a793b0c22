"""Canonical integer polynomials: the algebra behind symbolic dims and behind every index of a loop
nest.

A polynomial is a sum of monomials over *atoms*. An atom is a name (a symbolic dim, or a loop axis
in the compiler) or a floor division of two polynomials that could not be carried out. Every
polynomial has exactly one form, so equality is equality of tuples, and ``(x + 1) * 2 == x * 2 + 2``
needs no solver.

Division rounds towards minus infinity, here, in the NumPy references and in generated code alike:
``(a * c + r) // c == a + r // c`` then holds for every sign, which is what lets terms cancel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Union

Atom = Union[str, "FloorDiv"]
Monomial = tuple[tuple[Atom, int], ...]  # (atom, power), sorted by atom
Terms = tuple[tuple[Monomial, int], ...]  # (monomial, coefficient), sorted


def _atom_key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, atom.key)


def _monomial_key(monomial: Monomial) -> tuple[int, tuple[tuple[tuple[int, str], int], ...]]:
    # Higher degree first; the constant term comes last.
    degree = sum(power for _, power in monomial)
    return (-degree, tuple((_atom_key(atom), power) for atom, power in monomial))


class FloorDiv:
    """The atom ``numerator // denominator``; equal when both parts are."""

    __slots__ = ("_hash", "denominator", "key", "numerator")

    def __init__(self, numerator: Poly, denominator: Poly) -> None:
        self.numerator = numerator
        self.denominator = denominator
        self.key = f"({numerator})//({denominator})"
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FloorDiv) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_positive(self) -> bool:
        """Whether no term of either part is negative."""
        parts = self.numerator, self.denominator
        return all(part.coefficients_are_positive for part in parts)

    def __repr__(self) -> str:
        return self.key


class Poly:
    """An immutable polynomial in canonical form.

    Example:
        >>> x, y = Poly.symbol("x"), Poly.symbol("y")
        >>> (x + y) * (x - y) == x * x - y * y
        True
        >>> four = Poly.constant(4)
        >>> str((x * four + Poly.constant(3)).floordiv(four))
        'x'
    """

    __slots__ = ("_hash", "terms")
    terms: Terms

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._hash = hash(terms)

    # ------------------------------------------------------------ constructors
    @staticmethod
    def constant(value: int) -> Poly:
        """The polynomial that is ``value`` everywhere."""
        poly = _CONSTANTS.get(value)
        return poly if poly is not None else Poly((((), value),) if value else ())

    @staticmethod
    def symbol(name: str) -> Poly:
        """The polynomial that is the symbol ``name``."""
        poly = _SYMBOLS.get(name)
        if poly is None:
            poly = _SYMBOLS[name] = Poly(((((name, 1),), 1),))
        return poly

    @staticmethod
    def _from_dict(terms: dict[Monomial, int]) -> Poly:
        items = [(m, c) for m, c in terms.items() if c]
        if len(items) > 1:
            items.sort(key=lambda item: _monomial_key(item[0]))
        return Poly(tuple(items))

    # ------------------------------------------------------------ questions
    @property
    def is_constant(self) -> bool:
        """Whether no atom occurs."""
        return not self.terms or (len(self.terms) == 1 and not self.terms[0][0])

    @property
    def is_symbol(self) -> bool:
        """Whether it is a name and nothing else."""
        match self.terms:
            case (((((str(), 1),), 1)),):
                return True
        return False

    @property
    def coefficients_are_positive(self) -> bool:
        """Whether no term is negative, nor any term of a quotient in it: then neither is the value,
        for dims and places in them."""
        return all(
            scale > 0 and all(isinstance(atom, str) or atom.is_positive for atom, _ in monomial)
            for monomial, scale in self.terms
        )

    @property
    def value(self) -> int:
        """The constant term, which is the whole of a constant polynomial."""
        if self.terms and not self.terms[-1][0]:
            return self.terms[-1][1]
        return 0

    def symbols(self) -> tuple[str, ...]:
        """The names that occur, in order of first appearance."""
        return _symbols(self)

    def _names(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for monomial, _ in self.terms:
            for atom, _power in monomial:
                if isinstance(atom, str):
                    found[atom] = None
                else:
                    found.update(dict.fromkeys(atom.numerator.symbols()))
                    found.update(dict.fromkeys(atom.denominator.symbols()))
        return tuple(found)

    def depends_on(self, names: Iterable[str]) -> bool:
        """Whether any of ``names`` occurs."""
        return not set(names).isdisjoint(self.symbols())

    @functools.lru_cache(maxsize=1 << 15)  # noqa: B019 - polynomials are shared and few
    def coefficient(self, name: str) -> Poly | None:
        """The factor ``c`` when this is ``c * name + rest`` with neither part using ``name``; else
        None.

        A polynomial that does not use the name has the coefficient 0.
        """
        factor: dict[Monomial, int] = {}
        for monomial, scale in self.terms:
            for atom, power in monomial:
                if atom == name:
                    if power != 1:
                        return None
                    rest = tuple(item for item in monomial if item[0] != name)
                    factor[rest] = scale
                elif not isinstance(atom, str) and (
                    atom.numerator.depends_on((name,)) or atom.denominator.depends_on((name,))
                ):
                    return None
        for monomial in factor:
            if any(atom == name for atom, _ in monomial):
                return None
        return Poly._from_dict(factor)

    # ------------------------------------------------------------ arithmetic
    def __add__(self, other: Poly) -> Poly:
        if not other.terms:
            return self
        if not self.terms:
            return other
        return _add(self, other)

    def _plus(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for monomial, scale in other.terms:
            terms[monomial] = terms.get(monomial, 0) + scale
        return Poly._from_dict(terms)

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + (-other)

    def __mul__(self, other: Poly) -> Poly:
        if not self.terms or not other.terms:
            return ZERO
        if other is ONE:
            return self
        return _mul(self, other)

    def _times(self, other: Poly) -> Poly:
        if other.is_constant:
            scale = other.value
            return self if scale == 1 else Poly(tuple((m, c * scale) for m, c in self.terms))
        if self.is_constant:
            return other * self
        terms: dict[Monomial, int] = {}
        for left, left_scale in self.terms:
            for right, right_scale in other.terms:
                monomial = _multiply(left, right)
                terms[monomial] = terms.get(monomial, 0) + left_scale * right_scale
        return Poly._from_dict(terms)

    def floordiv(self, other: Poly) -> Poly:
        """``self // other``, carried out as far as it is exact whatever the symbols are.

        Raises:
            ZeroDivisionError: ``other`` is the constant 0.
        """
        if not other.terms:
            raise ZeroDivisionError("a dim is divided by zero")
        if other == ONE:
            return self
        if self.is_constant and other.is_constant:
            return Poly.constant(self.value // other.value)
        quotient, rest = self._divide_terms(other)
        if not rest.terms:
            return quotient
        if rest.is_constant and other.is_constant:
            return quotient + Poly.constant(rest.value // other.value)
        if (whole := rest._over_one_divisor()) is not None and other.coefficients_are_positive:
            top, bottom = whole
            return quotient + top.floordiv(bottom * other)
        atom = FloorDiv(rest, other)
        return quotient + Poly(((((atom, 1),), 1),))

    def _over_one_divisor(self) -> tuple[Poly, Poly] | None:
        """``(a * d + n, d)`` of ``a + n // d``, of which the floor of any fraction is that of the
        same fraction of ``(a * d + n) / d``; None of what has more divisions than that one.
        """
        found: FloorDiv | None = None
        others: list[tuple[Monomial, int]] = []
        for monomial, scale in self.terms:
            if all(isinstance(atom, str) for atom, _ in monomial):
                others.append((monomial, scale))
                continue
            (atom, power), *more = monomial
            if found or more or power != 1 or scale != 1 or isinstance(atom, str):
                return None
            found = atom
        if found is None:
            return None
        return Poly(tuple(others)) * found.denominator + found.numerator, found.denominator

    def _divide_terms(self, other: Poly) -> tuple[Poly, Poly]:
        """``(q, r)`` with ``self == q * other + r``; ``r`` is what no exact step removes."""
        if len(other.terms) == 1:
            quotient: dict[Monomial, int] = {}
            rest: dict[Monomial, int] = {}
            (divisor, scale) = other.terms[0]
            for monomial, coefficient in self.terms:
                reduced = _divide_monomial(monomial, divisor)
                if reduced is None:
                    rest[monomial] = coefficient
                    continue
                exact, left = divmod(coefficient, scale)
                if left and other.is_constant:
                    # keep residues in [0, scale): 5x // 4 and (x // 4) stay comparable
                    rest[monomial] = left
                    if exact:
                        quotient[reduced] = exact
                elif left:
                    rest[monomial] = coefficient
                else:
                    quotient[reduced] = exact
            return Poly._from_dict(quotient), Poly._from_dict(rest)
        return self._long_division(other)

    def _long_division(self, other: Poly) -> tuple[Poly, Poly]:
        quotient, rest = ZERO, self
        lead, scale = other.terms[0]
        for _ in range(8):  # each step removes the leading term or stops
            for monomial, coefficient in rest.terms:
                reduced = _divide_monomial(monomial, lead)
                if reduced is not None and coefficient % scale == 0:
                    step = Poly(((reduced, coefficient // scale),))
                    break
            else:
                return quotient, rest
            quotient, rest = quotient + step, rest - step * other
            if not rest.terms:
                return quotient, rest
        return ZERO, self  # it does not come to an end: leave it undivided

    # ------------------------------------------------------------ evaluation
    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value with every name replaced by ``env[name]``.

        Raises:
            KeyError: A name that ``env`` does not have.
            ZeroDivisionError: A division by a dim that is 0.
        """
        total = 0
        for monomial, scale in self.terms:
            product = scale
            for atom, power in monomial:
                if isinstance(atom, str):
                    factor = env[atom]
                else:
                    factor = atom.numerator.evaluate(env) // atom.denominator.evaluate(env)
                product *= factor if power == 1 else factor**power
            total += product
        return total

    def substitute(self, env: Mapping[str, Poly]) -> Poly:
        """This polynomial with names replaced by polynomials; names not in ``env`` stay."""
        if not any(name in env for name in self.symbols()):
            return self
        total = ZERO
        for monomial, scale in self.terms:
            product = Poly.constant(scale)
            for atom, power in monomial:
                if isinstance(atom, str):
                    factor = env.get(atom)
                    if factor is None:
                        factor = Poly.symbol(atom)
                else:
                    factor = atom.numerator.substitute(env).floordiv(
                        atom.denominator.substitute(env)
                    )
                for _ in range(power):
                    product = product * factor
            total = total + product
        return total

    def source(
        self,
        name: Callable[[str], str],
        division: str | Callable[[str, str, FloorDiv], str] = "//",
        number: Callable[[int], str] = str,
    ) -> str:
        """This polynomial as text: names spelt by ``name``, numbers by ``number``, divisions as ``a
        <division> b``."""
        if not self.terms:
            return number(0)
        parts: list[str] = []
        for monomial, scale in self.terms:
            factors: list[str] = []
            for atom, power in monomial:
                if isinstance(atom, str):
                    text = name(atom)
                else:
                    top = atom.numerator.source(name, division, number)
                    bottom = atom.denominator.source(name, division, number)
                    top = top if _is_word(top) else f"({top})"
                    bottom = bottom if _is_word(bottom) else f"({bottom})"
                    text = (
                        f"{top} {division} {bottom}"
                        if isinstance(division, str)
                        else division(top, bottom, atom)
                    )
                    if len(monomial) > 1 or power > 1 or scale != 1:
                        text = f"({text})"
                factors.extend([text] * power)
            magnitude = abs(scale)
            if magnitude != 1 or not factors:
                factors.append(number(magnitude))
            term = " * ".join(factors)
            if not parts:
                parts.append(f"-{term}" if scale < 0 else term)
            else:
                parts.append(f" - {term}" if scale < 0 else f" + {term}")
        return "".join(parts)

    # ------------------------------------------------------------ identity
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # The hashes of unequal polynomials nearly always differ, and to compare them is cheap.
        return other.__class__ is Poly and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.source(str)

    def __repr__(self) -> str:
        return f"Poly({self})"


def _is_word(text: str) -> bool:
    return text.isidentifier() or text.isdigit()


def _multiply(left: Monomial, right: Monomial) -> Monomial:
    if not left:
        return right
    if not right:
        return left
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _atom_key(item[0])))


def _divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    if not divisor:
        return monomial
    powers = dict(monomial)
    for atom, power in divisor:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        if left:
            powers[atom] = left
        else:
            del powers[atom]
    return tuple(powers.items())


# The layers of a model repeat the same few products; polynomials are immutable, so results are
# shared.
_add = functools.lru_cache(maxsize=1 << 15)(Poly._plus)
_symbols = functools.lru_cache(maxsize=1 << 15)(Poly._names)
_mul = functools.lru_cache(maxsize=1 << 15)(Poly._times)

_SYMBOLS: dict[str, Poly] = {}
_CONSTANTS: dict[int, Poly] = {n: Poly((((), n),) if n else ()) for n in range(-8, 129)}
ZERO = _CONSTANTS[0]
ONE = _CONSTANTS[1]
