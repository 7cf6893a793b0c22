"""The place where chat templates run: Jinja's sandbox, with limits on what a template may use.

A template comes with a model, so it is a program of a stranger. Here it sees plain values alone
(texts, numbers, lists and dicts), reads no attribute of Python's own, changes nothing that it is
given, has no files, and cannot run for ever: see `budget`. Loops and macros get a call that counts
them when the template is compiled; operators, filters, tests and methods are counted as they run.

The names that a template finds are those of transformers: ``raise_exception``, ``strftime_now``,
``namespace``, ``tojson`` without HTML escapes, ``break`` and ``continue``, and the block
``generation``. `REMOVED` lists Jinja's filters that are not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sized
from datetime import datetime
from functools import cache, wraps
from string import Formatter
from types import BuiltinMethodType
from typing import Any

from maxlab.pipelines.lib.tokenizer import packages
from maxlab.pipelines.lib.tokenizer.budget import (
    MOST_BITS,
    MOST_WIDTH,
    LimitError,
    characters,
    items,
    spend,
    weigh,
    width,
)

REMOVED = ("urlize", "xmlattr", "pprint", "striptags", "wordwrap", "random")
"""Jinja's filters that chat templates do not get: they write HTML or Python, or draw at random."""

_SHALLOW = frozenset(
    [
        "length",
        "count",
        "first",
        "last",
        "default",
        "d",
        "list",
        "map",
        "select",
        "selectattr",
        "reject",
        "rejectattr",
        "items",
        "reverse",
        "batch",
        "slice",
        "attr",
    ]
)
"""Filters that look at the elements of a list, and not into them."""
_WIDTHS = frozenset({"center", "indent", "truncate", "batch", "slice", "format", "round"})
"""Filters that take a width, or numbers that act as one."""
_STR_WIDTHS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})
_TURN, _CALL = 8, 1024
"""The costs of a turn of a loop or a small function, and of a call of a macro: in characters."""
_LONG_NUMBER = re.compile(r"\d{5,}")


class TemplateRefusalError(Exception):
    """A template called ``raise_exception``; its text is the message."""


# ---------------------------------------------------------------- what is counted
def each(value: Any, static: int) -> Any:
    """``value`` for a loop over it, whose body has ``static`` characters of its own."""
    if isinstance(value, Sized):
        spend(len(value) * (_TURN + static))
        return value
    return _counted(value, static) if isinstance(value, Iterable) else value


def _counted(value: Iterable[Any], static: int) -> Iterator[Any]:
    for one in value:
        spend(_TURN + static)
        yield one


def tick(static: int) -> str:
    """Counts one call of a macro or a block; writes nothing."""
    spend(_CALL + static)
    return ""


def bounded(value: Any) -> Any:
    """``value``, which is about to be written, compared or sorted as a whole."""
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        spend(weigh(value))
    return value


def written(value: Any) -> Any:
    """``value``, whose text is about to be put behind what is written."""
    characters(weigh(value))
    return value


def join(*values: Any) -> str:
    """The texts of ``values`` one after another, as ``~`` makes it."""
    characters(sum(map(weigh, values)))
    return "".join(map(str, values))


def _made(value: Any) -> Any:
    """``value``, a result that is paid for."""
    if isinstance(value, str):
        characters(len(value))
    elif isinstance(value, (list, tuple, dict, set)):
        items(len(value))
    return value


# ---------------------------------------------------------------- operators
def _multiply(left: Any, right: Any) -> None:
    for text, number in ((left, right), (right, left)):
        if isinstance(text, (str, list, tuple)) and isinstance(number, int):
            size = len(text) * max(number, 0)
            (characters if isinstance(text, str) else items)(size)
    if isinstance(left, int) and isinstance(right, int):
        _bits(left.bit_length() + right.bit_length())


def _bits(count: int) -> None:
    if count > MOST_BITS:
        raise LimitError(f"an integer of {count:,} bits, more than {MOST_BITS:,}")


def _power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _bits(left.bit_length() * max(right, 0))


def _add(left: Any, right: Any) -> None:
    if isinstance(left, str) and isinstance(right, str):
        characters(len(left) + len(right))
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        items(len(left) + len(right))


def _percent(left: Any, right: Any) -> None:
    if isinstance(left, str):
        _widths_of(left)
        if "*" in left:
            for one in right if isinstance(right, tuple) else (right,):
                width(one)
        characters(len(left) + weigh(right) + left.count("%") * MOST_WIDTH)


def _widths_of(text: str) -> None:
    """Raises for a text of formats with a width of five digits or more."""
    if found := _LONG_NUMBER.search(text):
        raise LimitError(f"a width of {found.group()[:20]}, more than {MOST_WIDTH:,}")


_OPERATORS: dict[str, Callable[[Any, Any], None]] = {
    "*": _multiply,
    "**": _power,
    "+": _add,
    "%": _percent,
}


# ---------------------------------------------------------------- functions and methods
def limited_range(*bounds: int) -> range:
    """The numbers of ``range``, when they are few enough."""
    numbers = range(*bounds)
    items(len(numbers))
    return numbers


def raise_exception(message: Any = "") -> None:
    """Ends the rendering: the template refuses the conversation."""
    bounded(message)
    raise TemplateRefusalError(str(message))


def strftime_now(form: Any) -> str:
    """The time now, as ``form`` says."""
    if not isinstance(form, str) or len(form) > 200 or re.search(r"%\W*\d{3,}", form):
        raise LimitError("a form of a date with more than 200 characters, or with widths")
    return datetime.now().astimezone().strftime(form)


def made_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """A dict of pairs and of names, as ``dict`` makes it."""
    return dict(*args, **kwargs)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """``value`` as JSON, without escapes for HTML."""
    width(indent)
    bounded(value)
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    parts, size = [], 0
    for part in encoder.iterencode(value):
        size += len(part)
        characters(size if size > 1 << 16 else len(part))
        parts.append(part)
    return "".join(parts)


def _before_method(name: str, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises when a method of a builtin type would make something too large."""
    values = (*args, *kwargs.values())
    if not isinstance(owner, str):
        if isinstance(owner, (int, float)):
            for one in values:
                width(one)
        return
    spend(len(owner))
    if name in _STR_WIDTHS:
        for one in values:
            width(one)
        characters(len(owner) + MOST_WIDTH * (owner.count("\t") if name == "expandtabs" else 1))
    elif name == "replace" and len(values) >= 2:
        old, new = values[:2]
        if isinstance(old, str) and isinstance(new, str):
            characters(len(owner) + _count(owner, old) * len(new))
    elif name == "join" and values:
        bounded(values[0])
        if isinstance(values[0], Sized):
            count = len(values[0])
            characters(count * len(owner) + (weigh(values[0]) if count else 0))
    elif name == "translate" and values and isinstance(values[0], dict):
        longest = max((len(one) for one in values[0].values() if isinstance(one, str)), default=1)
        characters(len(owner) * max(longest, 1))
    elif name == "split" and values:
        items(_count(owner, values[0]) if isinstance(values[0], str) else 0)


def _count(text: str, part: str) -> int:
    return text.count(part) if part else len(text) + 1


def _filter_guard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter ``function``, which pays for its arguments and for its result."""
    passed = hasattr(function, "jinja_pass_arg")  # the environment or the context comes first

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        values = args[1:] if passed else args
        spend(_TURN)
        for one in values:
            if name not in _SHALLOW:
                spend(weigh(one))
            elif isinstance(one, Sized):
                spend(len(one))
        rest = (*values[1:], *kwargs.values())
        if name in _WIDTHS:
            for one in rest:
                width(one)
        _before_filter(name, values, rest)
        return _made(function(*args, **kwargs))

    return guarded


def _before_filter(name: str, values: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
    text = values[0] if values else None
    if name == "replace" and len(values) >= 3:
        old, new = str(values[1]), str(values[2])
        characters(len(str(text)) + _count(str(text), old) * len(new))
    elif name == "join" and isinstance(text, Sized):
        glue = max((len(one) for one in rest if isinstance(one, str)), default=0)
        characters(weigh(text) + len(text) * glue)
    elif name == "indent" and isinstance(text, str):
        wide = max((one if isinstance(one, int) else weigh(one) for one in rest), default=4)
        characters(len(text) + (text.count("\n") + 1) * max(wide, 0))
    elif name == "format" and isinstance(text, str):
        _percent(text, values[1:])
    elif name == "sum" and any(not isinstance(one, (int, float, str)) for one in rest):
        raise LimitError("a sum of something else than numbers")


def _test_guard(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        for one in args:
            bounded(one)
        return function(*args, **kwargs)

    return guarded


def _formatter(environment: Any) -> Formatter:
    """The formatter behind ``str.format``, which reads attributes by the rules of the sandbox."""
    base: Any = packages.jinja2().sandbox.SandboxedFormatter

    class Limited(base):  # type: ignore[misc]
        def format_field(self, value: Any, format_spec: str) -> Any:
            _widths_of(format_spec)
            bounded(value)
            text = super().format_field(value, format_spec)
            characters(len(text))
            return text

    made: Formatter = Limited(environment)
    return made


# ---------------------------------------------------------------- counting calls put into loops
def count_loops(tree: Any) -> Any:
    """The syntax tree of a template with calls that count its loops, macros and blocks."""
    nodes = packages.jinja2().nodes
    transformer: Any = packages.jinja2().visitor.NodeTransformer

    def call(function: Callable[..., Any], *args: Any, at: Any) -> Any:
        # An imported name, not one of the template, which could give it another meaning.
        name = nodes.ImportedName(f"{function.__module__}.{function.__qualname__}")
        return nodes.Call(name, list(args), [], None, None).set_lineno(at.lineno)

    def mark(size: int, at: Any) -> Any:
        return nodes.Output([call(tick, nodes.Const(size), at=at)]).set_lineno(at.lineno)

    def static(body: list[Any]) -> int:
        found = (data for node in body for data in node.find_all(nodes.TemplateData))
        direct = (node for node in body if isinstance(node, nodes.TemplateData))
        return sum(len(data.data) for data in (*found, *direct))

    class Counting(transformer):  # type: ignore[misc]
        def visit_For(self, node: Any) -> Any:  # noqa: N802 - a name of Jinja's
            size = static(node.body)
            self.generic_visit(node)
            node.iter = call(each, node.iter, nodes.Const(size), at=node)
            if node.recursive:  # it is called again, with other elements
                node.body.insert(0, mark(size, node))
            return node

        def _body(self, node: Any) -> Any:
            size = static(node.body)
            self.generic_visit(node)
            node.body.insert(0, mark(size, node))
            return node

        visit_Macro = visit_CallBlock = visit_Block = _body  # noqa: N815 - names of Jinja's

        def visit_Concat(self, node: Any) -> Any:  # noqa: N802 - a name of Jinja's
            self.generic_visit(node)
            return call(join, *node.nodes, at=node)

        def visit_Compare(self, node: Any) -> Any:  # noqa: N802 - a name of Jinja's
            self.generic_visit(node)
            sides = [node, *node.ops]
            for side in sides:
                if not isinstance(side.expr, nodes.Const):
                    side.expr = call(bounded, side.expr, at=node)
            return node

    return Counting().visit(tree)


# ---------------------------------------------------------------- the environment
def _generation() -> Any:
    """Jinja's extension for the block ``generation``, which marks what an assistant wrote."""
    extension: Any = packages.jinja2().ext.Extension
    nodes = packages.jinja2().nodes

    class Generation(extension):  # type: ignore[misc]
        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    return Generation


def _environment_class() -> Any:
    sandbox = packages.jinja2().sandbox
    base: Any = sandbox.ImmutableSandboxedEnvironment
    undefined = packages.jinja2().Undefined

    class Limited(base):  # type: ignore[misc]
        intercepted_binops = frozenset(_OPERATORS)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _OPERATORS[operator](left, right)
            return _made(super().call_binop(context, operator, left, right))

        def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
            """Raises at once, where Jinja would wait until the value is used."""
            raise sandbox.SecurityError(
                f"the attribute {attribute!r} of {type(obj).__name__} is Python's own"
            )

        def getattr(self, obj: Any, attribute: str) -> Any:
            return self._public(obj, attribute, super().getattr(obj, attribute))

        def getitem(self, obj: Any, argument: Any) -> Any:
            return self._public(obj, argument, super().getitem(obj, argument))

        def _public(self, obj: Any, name: Any, found: Any) -> Any:
            """``found``, unless it is looked for under a name of Python's own and not there."""
            if isinstance(name, str) and name.startswith("__") and isinstance(found, undefined):
                return self.unsafe_undefined(obj, name)
            return found

        def wrap_str_format(self, value: Any) -> Any:
            if (
                not isinstance(value, BuiltinMethodType)
                or value.__name__ not in ("format", "format_map")
                or not isinstance(value.__self__, str)
            ):
                return None
            text, of_map = value.__self__, value.__name__ == "format_map"

            def formatted(*args: Any, **kwargs: Any) -> str:
                named = args[0] if of_map else kwargs
                made: str = _formatter(self).vformat(text, () if of_map else args, named)
                return str(_made(made))

            return formatted

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
            builtin = isinstance(__obj, BuiltinMethodType)
            spend(_TURN)
            if builtin:
                _before_method(__obj.__name__, __obj.__self__, args, kwargs)
            made = super().call(__context, __obj, *args, **kwargs)
            return _made(made) if builtin else made

    return Limited


def _namespace() -> Any:
    base: Any = packages.jinja2().utils.Namespace
    error = packages.jinja2().sandbox.SecurityError

    class Namespace(base):  # type: ignore[misc]
        def __init__(*args: Any, **kwargs: Any) -> None:
            self, rest = args[0], args[1:]
            values = dict(*rest, **kwargs)
            base.__init__(self)
            for name, value in values.items():
                self[name] = value

        def __setitem__(self, name: str, value: Any) -> None:
            if name.startswith("_"):
                raise error(f"the name {name!r} of a namespace begins with _")
            base.__setitem__(self, name, value)

    return Namespace


@cache
def environment() -> Any:
    """The environment that every chat template is compiled in.

    Raises:
        MissingPackageError: ML979, jinja2 is not installed.
    """
    made = _environment_class()(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_generation(), "jinja2.ext.loopcontrols"],
        finalize=written,
    )
    for name in REMOVED:
        made.filters.pop(name, None)
    made.filters = {name: _filter_guard(name, one) for name, one in made.filters.items()}
    made.filters["tojson"] = to_json
    made.tests = {name: _test_guard(one) for name, one in made.tests.items()}
    made.globals.pop("lipsum", None)
    made.globals.update(
        {
            "range": limited_range,
            "dict": made_dict,
            "namespace": _namespace(),
            "raise_exception": raise_exception,
            "strftime_now": strftime_now,
        }
    )
    return made


__all__ = ["REMOVED", "TemplateRefusalError", "count_loops", "environment"]
