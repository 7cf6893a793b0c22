"""Errors that are not maxlab's: those of users' functions pass, those of arguments are explained.

An argument can be any object, and reading it can raise anything: ``len`` of a number, the text of
an integer with thousands of digits, an ``__array__`` that fails, a list that is a hundred thousand
lists deep. Operations check what they can name; whatever else comes out is turned into one error
that says which operation was called with which arguments.
"""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from maxlab.errors import MaxlabError, UnusableArgumentError, shown

_USERS = "_maxlab_users_own"
_PASSING = (MaxlabError, OSError, MemoryError, Warning, NameError, ImportError)
"""Exceptions for which no argument is to blame: files that cannot be read, a lack of memory,
warnings that were made errors, and programs that are wrong.
"""


@contextmanager
def users_own() -> Iterator[None]:
    """Lets what a function of the user raises come out as it is: a body, a branch, ``forward``."""
    try:
        yield
    except Exception as error:
        setattr(error, _USERS, True)
        raise


def is_foreign(error: BaseException) -> bool:
    """Whether ``error`` came from reading an argument, and is neither maxlab's nor the user's."""
    return (
        isinstance(error, Exception)
        and not isinstance(error, _PASSING)
        and not getattr(error, _USERS, False)
        and not _is_of_a_handler(error)
    )


def _is_of_a_handler(error: Exception) -> bool:
    """Whether a signal handler of the user raised ``error``, between any two steps of ours."""
    import traceback

    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {getattr(handler, "__code__", None) for handler in handlers}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def explained(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: BaseException,
) -> UnusableArgumentError:
    """The error that says that ``function`` cannot use these arguments, because of ``error``."""
    name = function.__qualname__.removesuffix(".__init__").lstrip("_")
    said: object = error.args[0] if len(error.args) == 1 else error.args
    text = said[:200] if type(said) is str else shown(said)
    return UnusableArgumentError(
        "ML330",
        f"{name} cannot use what it was given: {type(error).__name__}: {text}",
        why=[f"{key} is {shown(value)}" for key, value in _given(function, args, kwargs)],
        fix=f"{_example(function)}pass what it takes: {name}{_signature(function)}",
    )


def _example(function: Callable[..., Any]) -> str:
    """A call of the op ``function``, as a beginning of a text; nothing of other functions."""
    if not function.__module__.startswith("maxlab.graph.ops"):
        return ""
    from maxlab.graph.elsewhere import CALLS

    call = CALLS.get(function.__name__)
    return "" if call is None else f"write {call}; "


def _given(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """The arguments by name, those first that are no values of a graph."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        bound = {**{str(n): x for n, x in enumerate(args)}, **kwargs}
    found = [(key, value) for key, value in bound.items() if key != "self"]
    return sorted(found, key=lambda item: hasattr(type(item[1]), "_ir"))[:6]


def _signature(function: Callable[..., Any]) -> str:
    """The parameters of ``function`` with the types that they take."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(…)"
    kept = [p for name, p in signature.parameters.items() if name != "self"]
    texts = []
    for parameter in kept:
        kind = parameter.annotation
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        text = ("**" if parameter.kind is parameter.VAR_KEYWORD else stars) + parameter.name
        if kind is not parameter.empty:
            text += f": {kind if isinstance(kind, str) else getattr(kind, '__name__', kind)}"
        texts.append(text)
    return f"({', '.join(texts)})"


__all__ = ["explained", "is_foreign", "users_own"]
