"""Makes a function of the user's that adds ops atomic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from maxlab.errors import MaxlabError
from maxlab.graph.foreign import explained, is_foreign
from maxlab.ir import user_location
from maxlab.opset.builder import current

P = ParamSpec("P")
R = TypeVar("R")


def staged(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` as one transaction: when it raises, the graph is as it was and the error names
    the user's line. What it raises is maxlab's error, or that of a function of the user."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        b = current(*args)
        if b is None:
            return located(*args, **kwargs)
        with b.transaction():
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if not is_foreign(error):
                    raise
                raise explained(function, args, kwargs, error).locate(user_location()) from error

    located = placed(function)
    return wrapped


def placed(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which adds no ops, with errors that name the user's line."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except MaxlabError as error:
            error.locate(user_location())
            raise
        except Exception as error:
            if not is_foreign(error):
                raise
            raise explained(function, args, kwargs, error).locate(user_location()) from error

    return wrapped


__all__ = ["placed", "staged"]
