"""Slow work of coroutines, done in threads; and how many tokens a request may generate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from maxlab.interfaces import fields

P = ParamSpec("P")
R = TypeVar("R")


async def run_with_default_executor(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The value that ``fn`` returns, called in a thread of the event loop's default executor.

    Other coroutines run meanwhile. Context variables are those of the caller.

    Args:
        fn: The function; what it raises is raised here.
        *args: Its arguments.
        **kwargs: Its named arguments.

    Example:
        >>> asyncio.run(run_with_default_executor(sorted, [3, 1], reverse=True))
        [3, 1]
    """
    return await asyncio.to_thread(fn, *args, **kwargs)


def run_to_end(work: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine, also where this thread has a running event loop.

    There it runs in a thread of its own, as in a cell of a notebook.

    Args:
        work: The coroutine; what it raises is raised here.

    Example:
        >>> run_to_end(run_with_default_executor(sorted, [3, 1]))
        [1, 3]
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "maxlab-generate") as threads:
        return threads.submit(asyncio.run, work).result()


def max_tokens_to_generate(
    prompt_size: int, max_length: int | None, max_new_tokens: int | None = None
) -> int | None:
    """The most tokens that can be generated behind a prompt; None without a limit.

    Args:
        prompt_size: The number of tokens of the prompt.
        max_length: The largest number of tokens, the prompt's included; None is no limit.
        max_new_tokens: The largest number of new tokens; None is no limit.

    Raises:
        InputTypeError, InputError: A number is no int, or negative.

    Example:
        >>> max_tokens_to_generate(10, 16), max_tokens_to_generate(10, 16, max_new_tokens=4)
        (6, 4)
        >>> max_tokens_to_generate(20, 16), max_tokens_to_generate(20, None)
        (0, None)
    """
    fields.integer(0)("prompt_size", prompt_size)
    fields.optional(fields.integer(0))("max_length", max_length)
    fields.optional(fields.integer(0))("max_new_tokens", max_new_tokens)
    if max_length is None:
        return max_new_tokens
    left = max(max_length - prompt_size, 0)
    return left if max_new_tokens is None else min(left, max_new_tokens)


__all__ = ["max_tokens_to_generate", "run_to_end", "run_with_default_executor"]
