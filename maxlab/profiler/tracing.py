"""``Tracer`` and ``traced``: spans as events of the kind ``"python"``."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast, overload

from maxlab import trace
from maxlab.config import config
from maxlab.errors import ArgumentTypeError, SpanError

_FuncType = TypeVar("_FuncType", bound=Callable[..., Any])

DEFAULT_COLOR = "modular_purple"
"""Views draw spans of this colour in the colour of their theme."""

_enabled = config().profiling


def enable(on: bool = True) -> bool:
    """Whether profiling was on before; it is ``on`` from now on, in all threads.

    Spans that are open then are recorded or not as when they were opened.
    """
    global _enabled
    before, _enabled = _enabled, on
    return before


def is_enabled() -> bool:
    """Whether spans are recorded."""
    return _enabled


class _Span:
    """One open span."""

    __slots__ = ("color", "message", "start_ns", "thread")

    def __init__(self, message: str, color: str) -> None:
        self.message = message
        self.color = color
        self.thread = threading.get_ident()
        self.start_ns = time.monotonic_ns()

    def close(self, error: type[BaseException] | None) -> None:
        """Record the span, which ends now."""
        end_ns = time.monotonic_ns()
        data: dict[str, Any] = {"color": self.color}
        if error is not None:
            data["error"] = error.__name__
        start_ns = self.start_ns
        event = trace.Event("python", self.message, start_ns, end_ns - start_ns, data, self.thread)
        trace.recorder().add(event)


class Tracer:
    """A stack of open spans, each inside of the one below it.

    A span is recorded when it is closed: by ``pop``, by ``next``, at the end of the ``with`` block,
    or when the tracer is deleted. A tracer belongs to one thread at a time.

    Args:
        message: The name of a first span; None opens none.
        color: The colour of that span in views: any CSS colour, or ``"modular_purple"`` for the
            theme's.

    Example:
        >>> from maxlab import profiler
        >>> before = profiler.enable()
        >>> with profiler.Tracer("load", color="teal") as tracer:
        ...     tracer.push("read")
        ...     tracer.mark()
        ...     tracer.next("check")
        >>> profiler.enable(before)
        True
    """

    def __init__(self, message: str | None = None, color: str = DEFAULT_COLOR) -> None:
        self._stack: list[_Span | None] = []
        if message is not None:
            self.push(message, color)

    def push(self, message: str | None = None, color: str = DEFAULT_COLOR) -> None:
        """Open a span inside of the newest one.

        Args:
            message: Its name. None takes a place on the stack, so that a ``pop`` belongs to it, and
                records nothing.
            color: Its colour in views.
        """
        self._stack.append(_Span(message, color) if _enabled and message is not None else None)

    def pop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Close the newest span; nothing when none is open.

        Args:
            exc_type: The exception that ended it, which is recorded with it; None if none did.
            exc_value: The exception itself; tells its type where ``exc_type`` is not given.
            traceback: Where it came from. It takes no part: a recorded span keeps no frames alive.
        """
        span = self._stack.pop() if self._stack else None
        if span is not None:
            span.close(exc_type or (type(exc_value) if exc_value is not None else None))

    def next(self, message: str, color: str = DEFAULT_COLOR) -> None:
        """Close the newest span, and open one in its place.

        Args:
            message: The name of the new one.
            color: Its colour in views.

        Raises:
            SpanError: ML860 (an IndexError), no span is open.
        """
        if not self._stack:
            raise _nothing_open("next")
        self.pop()
        self.push(message, color)

    def mark(self) -> None:
        """Record this moment inside of the newest span.

        Raises:
            SpanError: ML860 (an AssertionError), no span is open.
        """
        if not self._stack:
            raise _nothing_open("mark")
        span = self._stack[-1]
        if span is not None:
            trace.emit("mark", span.message, color=span.color)

    def cleanup(self) -> None:
        """Close all open spans, the newest first."""
        while self._stack:
            self.pop()

    def __enter__(self) -> Tracer:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._stack:
            self.pop(exc_type, exc_value, traceback)

    def __del__(self) -> None:
        if getattr(self, "_stack", None):  # it may have failed before there was one
            self.cleanup()


def _nothing_open(method: str) -> SpanError:
    return SpanError(
        "ML860",
        f"Tracer.{method}: no span is open",
        fix="push one first, or make the tracer with a message: Tracer('load')",
    )


@overload
def traced(func: _FuncType) -> _FuncType: ...


@overload
def traced(
    func: None = None, *, message: str | None = None, color: str = DEFAULT_COLOR
) -> Callable[[_FuncType], _FuncType]: ...


def traced(
    func: _FuncType | None = None, *, message: str | None = None, color: str = DEFAULT_COLOR
) -> _FuncType | Callable[[_FuncType], _FuncType]:
    """``func``, each call of which is a span; without ``func``, the decorator that makes it so.

    A coroutine function's span lasts until the coroutine has ended, a generator function's until
    the generator has.

    Args:
        func: The function.
        message: The name of the span; the name of the function by default.
        color: Its colour in views.

    Raises:
        ArgumentTypeError: ML861, ``func`` is not callable, or makes asynchronous generators.

    Example:
        >>> from maxlab import profiler
        >>> @profiler.traced(message="tokenize", color="teal")
        ... def words(text: str) -> list[str]:
        ...     return text.split()
        >>> words("a b")
        ['a', 'b']
    """
    if func is None:
        return lambda given: _traced(given, message, color)
    return _traced(func, message, color)


def _traced(func: _FuncType, message: str | None, color: str) -> _FuncType:
    """``func``, each call of which is a span of that name and colour."""
    if not callable(func) or inspect.isasyncgenfunction(func):
        what = "an asynchronous generator function" if callable(func) else type(func).__name__
        raise ArgumentTypeError(
            "ML861",
            f"traced: takes a function or a coroutine function, got {what}",
            fix="open spans inside of it, with Tracer",
        )
    name = message if message is not None else getattr(func, "__name__", type(func).__name__)

    if inspect.iscoroutinefunction(func):

        @functools.wraps(func)
        async def run_later(*args: Any, **kwargs: Any) -> Any:
            if not _enabled:
                return await func(*args, **kwargs)
            with Tracer(name, color):
                return await func(*args, **kwargs)

        return cast(_FuncType, run_later)

    if inspect.isgeneratorfunction(func):

        @functools.wraps(func)
        def iterate(*args: Any, **kwargs: Any) -> Any:
            with Tracer(name, color):
                return (yield from func(*args, **kwargs))

        return cast(_FuncType, iterate)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _enabled:
            return func(*args, **kwargs)
        with Tracer(name, color):
            return func(*args, **kwargs)

    return cast(_FuncType, run)
