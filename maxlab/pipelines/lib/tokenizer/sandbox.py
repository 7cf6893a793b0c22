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
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from string import Formatter
from types import BuiltinMethodType
from typing import Any

from maxlab.pipelines.lib.tokenizer import packages
from maxlab.pipelines.lib.tokenizer.budget import LimitError, characters, items, spend, width
from maxlab.pipelines.lib.tokenizer.counting import (
    COUNTERS,
    OPERATORS,
    TURN,
    before_method,
    bounded,
    cut,
    each,
    filter_guard,
    join,
    paid,
    test_guard,
    tick,
    widths_of,
    written,
)

REMOVED = ("urlize", "xmlattr", "pprint", "striptags", "wordwrap", "random")
"""Jinja's filters that chat templates do not get: they write HTML or Python, or draw at random."""

_CLOSED = frozenset({"encode", "to_bytes", "from_bytes", "fromhex"})
"""Methods that make bytes, which no prompt has, and whose sizes are not counted."""


class TemplateRefusalError(Exception):
    """A template called ``raise_exception``; its text is the message."""


# ---------------------------------------------------------------- functions of templates
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


def _formatter(environment: Any) -> Formatter:
    """The formatter behind ``str.format``, which reads attributes by the rules of the sandbox."""
    base: Any = packages.jinja2().sandbox.SandboxedFormatter

    class Limited(base):  # type: ignore[misc]
        def format_field(self, value: Any, format_spec: str) -> Any:
            widths_of(format_spec)
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

        def visit_Getitem(self, node: Any) -> Any:  # noqa: N802 - a name of Jinja's
            self.generic_visit(node)
            if isinstance(node.arg, nodes.Slice):
                node.node = call(cut, node.node, at=node)
            return node

        def visit_Pair(self, node: Any) -> Any:  # noqa: N802 - a name of Jinja's
            self.generic_visit(node)
            if not isinstance(node.key, nodes.Const):
                node.key = call(bounded, node.key, at=node)
            return node

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
    macro = packages.jinja2().runtime.Macro

    class Limited(base):  # type: ignore[misc]
        intercepted_binops = frozenset(OPERATORS)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            OPERATORS[operator](left, right)
            return paid(super().call_binop(context, operator, left, right))

        def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
            """Raises at once, where Jinja would wait until the value is used."""
            raise sandbox.SecurityError(
                f"the attribute {attribute!r} of {type(obj).__name__} is Python's own"
            )

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return attr not in _CLOSED and super().is_safe_attribute(obj, attr, value)

        def getattr(self, obj: Any, attribute: str) -> Any:
            return self._public(obj, attribute, super().getattr(obj, attribute))

        def getitem(self, obj: Any, argument: Any) -> Any:
            return self._public(obj, argument, super().getitem(obj, bounded(argument)))

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
                return str(paid(made))

            return formatted

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
            builtin = isinstance(__obj, BuiltinMethodType)
            spend(TURN)
            if builtin and __obj.__name__ == "join":
                args = tuple(list(one) if isinstance(one, Iterator) else one for one in args)
            if not builtin and not isinstance(__obj, macro) and __obj not in COUNTERS:
                for one in (*args, *kwargs.values()):
                    bounded(one)
            if builtin:
                before_method(__obj.__name__, __obj.__self__, args, kwargs)
            made = super().call(__context, __obj, *args, **kwargs)
            return paid(made) if builtin else made

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

        def __repr__(self) -> str:
            return "<Namespace>"

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
    made.filters = {name: filter_guard(name, one) for name, one in made.filters.items()}
    made.filters["tojson"] = to_json
    made.tests = {name: test_guard(one) for name, one in made.tests.items()}
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
