"""Checks of fields of requests, contexts and results, and the errors that they raise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

import msgspec
import numpy as np

from maxlab.errors import InputError, InputTypeError, UnsupportedError, shown

Rule = Callable[[str, Any], None]
"""Raises for a value that a field may not hold; the first argument is the field, as written."""
Rules = Mapping[str, Rule]
"""The rule of each field of a class."""

INT32 = 2**31 - 1
INT64 = 2**63 - 1
UINT64 = 2**64 - 1


def check(owner: object, rules: Rules) -> None:
    """Raises for the first field of ``owner`` that breaks its rule.

    Raises:
        InputTypeError: A field of the wrong Python type (a TypeError).
        InputError: A field that is out of its range (a ValueError).
    """
    name = type(owner).__name__
    for field, rule in rules.items():
        rule(f"{name}.{field}", getattr(owner, field))


def wrong_type(field: str, value: object, expected: str, fix: str | None = None) -> InputTypeError:
    """The error for ``value`` of a type that ``field`` does not take."""
    got = f"{shown(value)} ({type(value).__name__})"
    return InputTypeError("ML980", f"{field}: {expected} expected ≠ {got} given", fix=fix)


def out_of_range(field: str, value: object, expected: str, fix: str | None = None) -> InputError:
    """The error for ``value`` that lies outside of the range of ``field``."""
    return InputError("ML981", f"{field}: {expected} expected ≠ {shown(value)} given", fix=fix)


def contradiction(what: str, fix: str) -> InputError:
    """The error for two fields that cannot both hold."""
    return InputError("ML982", what, fix=fix)


_of_classes: dict[type, Rules] = {}


def declare(kind: type, rules: Rules) -> None:
    """Records ``rules`` as those of the class ``kind``, for `range_of`; `check` still applies them.

    Args:
        kind: A class with fields.
        rules: Those of its fields; those of the classes that it extends hold besides.
    """
    _of_classes[kind] = rules


def range_of(kind: type, field: str) -> str:
    """The values that ``field`` of ``kind`` may have, in a few words; empty where no rule says so.

    Example:
        >>> from maxlab.interfaces import SamplingParams
        >>> range_of(SamplingParams, "top_p"), range_of(SamplingParams, "seed")
        ('0 … 1', 'int, 0 … 2**64 - 1')
    """
    for one in kind.__mro__:
        if field in (rules := _of_classes.get(one, {})):
            return str(getattr(rules[field], "range", ""))
    return ""


def _ranged(rule: Rule, range: str) -> Rule:
    """``rule``, which from now on says the values that it allows."""
    rule.range = range  # type: ignore[attr-defined]
    return rule


def _names(kinds: tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)


def _range(rule: Rule) -> str:
    return str(getattr(rule, "range", ""))


_BOUNDS = {INT32: "2**31 - 1", UINT64: "2**64 - 1"}


def _between(least: float, most: float) -> str:
    """The numbers from ``least`` to ``most`` in words; empty where there is no bound."""
    low = "" if least <= -INT64 else f"{least:g}"
    high = "" if most >= INT64 and most != UINT64 else _BOUNDS.get(int(most), f"{most:g}")
    if low and high:
        return f"{low} … {high}"
    return f"{low} or more" if low else f"at most {high}" if high else ""


def integer(least: int = -INT64 - 1, most: int = INT64) -> Rule:
    """The rule of an int in [``least``, ``most``]; no bool is one."""
    expected = f"an int in [{least}, {most}]"

    def rule(field: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise wrong_type(field, value, expected)
        if not least <= value <= most:
            raise out_of_range(field, value, expected)

    return _ranged(rule, ", ".join(filter(None, ("int", _between(least, most)))))


def real(least: float, most: float = math.inf, *, above: bool = False) -> Rule:
    """The rule of a finite number in [``least``, ``most``], or above ``least`` alone."""
    left = f"{'(' if above or least == -math.inf else '['}{least:g}"
    expected = f"a number in {left}, {most:g}{')' if most == math.inf else ']'}"

    def rule(field: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise wrong_type(field, value, expected)
        fits = (value > least if above else value >= least) and value <= most
        try:
            finite = math.isfinite(value)
        except OverflowError:  # an int that no float holds
            finite = False
        if not (fits and finite):
            raise out_of_range(field, value, expected)

    words = f"above {least:g}" if above else _between(least, most)
    return _ranged(rule, words or "any number")


def instance(*kinds: type, name: str = "") -> Rule:
    """The rule of an object of one of ``kinds``."""
    expected = name or f"a {' or '.join(kind.__name__ for kind in kinds)}"

    def rule(field: str, value: Any) -> None:
        if not isinstance(value, kinds):
            raise wrong_type(field, value, expected)

    return _ranged(rule, "True or False" if kinds == (bool,) else _names(kinds))


flag = instance(bool)
"""The rule of True or False."""
text = instance(str)
"""The rule of a string of any length."""


def word(field: str, value: Any) -> None:
    """The rule of a string that is not empty."""
    text(field, value)
    if not value:
        raise out_of_range(field, value, "a str with characters")


_ranged(word, "str, not empty")


def optional(inner: Rule) -> Rule:
    """The rule of None, or of what ``inner`` allows."""

    def rule(field: str, value: Any) -> None:
        if value is not None:
            inner(field, value)

    return _ranged(rule, f"{_range(inner)}, or None" if _range(inner) else "")


def either(first: type, rule_of_first: Rule, otherwise: Rule) -> Rule:
    """The rule ``rule_of_first`` for what is a ``first``, and ``otherwise`` for all else."""

    def rule(field: str, value: Any) -> None:
        (rule_of_first if isinstance(value, first) else otherwise)(field, value)

    return _ranged(rule, " or ".join(filter(None, map(_range, (rule_of_first, otherwise)))))


def listed(inner: Rule, *, kinds: tuple[type, ...] = (list,), hint: str | None = None) -> Rule:
    """The rule of a list whose elements keep to ``inner``."""
    expected = f"a {' or '.join(kind.__name__ for kind in kinds)}"

    def rule(field: str, value: Any) -> None:
        if not isinstance(value, kinds) or isinstance(value, (str, bytes)):
            raise wrong_type(field, value, expected, hint)
        elements: Any = value
        for index, one in enumerate(elements):
            inner(f"{field}[{index}]", one)

    names = _names(kinds)
    return _ranged(rule, f"{names} of {_range(inner)}" if _range(inner) else names)


def mapped(of_key: Rule, of_value: Rule) -> Rule:
    """The rule of a dict whose keys and values keep to the two rules."""

    def rule(field: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise wrong_type(field, value, "a dict")
        of_keys = f"a key of {field}"
        for key, one in value.items():
            of_key(of_keys, key)
            try:
                of_value(field, one)
            except (InputError, InputTypeError):  # only now is its name needed
                of_value(f"{field}[{shown(key, 20)}]", one)
                raise

    return _ranged(rule, "dict")


def array(kind: Any, rank: int | None = None) -> Rule:
    """The rule of a NumPy array whose elements are of ``kind``, with ``rank`` axes if given."""
    axes = "" if rank is None else f" with {rank} {'axis' if rank == 1 else 'axes'}"
    expected = f"an array of {kind.__name__}{axes}"

    def rule(field: str, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            raise wrong_type(field, value, expected)
        got = f"{value.dtype}{list(value.shape)}"
        if not _is_kind(value.dtype, kind):
            raise InputTypeError("ML980", f"{field}: {expected} expected ≠ {got} given")
        if rank is not None and value.ndim != rank:
            raise InputError("ML981", f"{field}: {expected} expected ≠ {got} given")

    return _ranged(rule, expected.removeprefix("an "))


def _is_kind(dtype: np.dtype[Any], kind: Any) -> bool:
    if np.issubdtype(dtype, kind):
        return True
    # bfloat16 and the float8 types come from another package, as kinds of their own.
    return issubclass(np.floating, kind) and dtype.kind in "Vf" and "float" in dtype.name


def anything(field: str, value: Any) -> None:
    """The rule of a field that holds any object, such as the part of a JSON document."""
    del field, value


def refuse_unread(value: object, read: Collection[str]) -> None:
    """Raises when ``value`` asks for something that its reader does not do.

    A pipeline calls it with the fields that it reads, so that a field is never accepted and then
    ignored.

    Args:
        value: A dataclass or a struct with defaults, such as `SamplingParams`.
        read: The names of the fields that are read.

    Raises:
        UnsupportedError: A field that is not read differs from its default (a
            NotImplementedError).
        InputTypeError: ``value`` has no fields, or ``read`` names no field of it.

    Example:
        >>> from maxlab.interfaces import SamplingParams
        >>> refuse_unread(SamplingParams(top_k=5), read={"top_k", "seed"})
    """
    defaults = _defaults(value)
    if unknown := sorted(set(read) - set(defaults)):
        raise wrong_type("refuse_unread.read", unknown, f"names among {', '.join(defaults)}")
    for field, default in defaults.items():
        # A field without a default, or with one that is made anew for each object as a seed is,
        # tells nothing of what was asked for.
        if field in read or default is _NOTHING:
            continue
        got = getattr(value, field)
        # An array has no single answer to !=, and no field has one as its default.
        if isinstance(got, np.ndarray) or got != default:
            raise UnsupportedError(
                "ML995",
                f"{type(value).__name__}.{field} is {shown(got)}, and this pipeline does not read "
                "it",
                fix=f"leave it at its default, {default!r}",
            )


_NOTHING = object()


@cache  # reading annotations takes a millisecond, and a scheduler asks for every step
def _defaults_of_struct(kind: type[msgspec.Struct]) -> dict[str, object]:
    """The public fields of a struct with their defaults."""
    return {
        one.name: _NOTHING if one.default is msgspec.NODEFAULT else one.default
        for one in msgspec.structs.fields(kind)
        if not one.name.startswith("_")
    }


def _defaults(value: object) -> dict[str, object]:
    """The fields of ``value`` with their defaults; of a struct, its public ones."""
    if isinstance(value, msgspec.Struct):
        return _defaults_of_struct(type(value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise wrong_type("refuse_unread", value, "an object of a dataclass or a struct")
    return {
        field.name: _NOTHING if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(value)
    }
