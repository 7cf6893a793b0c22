"""What every server of ``benchmarks.serve`` is asked, and how its answers are timed.

Needs NumPy only, so that the environments of all peers can read it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from benchmarks.llm_shapes import Array, Sizes

LONGEST = 1024
"""The most tokens of a request, prompt and answer."""
NEW = 64
"""Tokens of each answer in the cases of throughput."""
CONCURRENT = {"requests_1": 1, "requests_8": 8, "requests_32": 32}
PROMPT, DECODING, BEFORE = 512, 8, 12
"""The long prompt; the requests that decode meanwhile; the tokens that each has before it comes."""
FIRST = ("first_alone", "first_beside_8")
CASES = (*CONCURRENT, *FIRST)


@dataclass
class Request:
    """A prompt, and what came of it.

    Attributes:
        prompt: Its tokens, int64.
        new: The number of tokens that are asked for.
        tokens: Those that came.
        times: The nanoseconds at which each came, by the clock and of the processor.
    """

    prompt: Array
    new: int
    tokens: list[int] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether all tokens came."""
        return len(self.tokens) >= self.new


class Server(Protocol):
    """An engine that takes requests at any time, and works in steps."""

    def submit(self, request: Request) -> None:
        """Takes a request; its tokens are drawn greedily, and none ends it early."""

    def step(self) -> list[tuple[Request, list[int]]]:
        """Works once; the requests that got tokens, with these."""

    def cancel(self, requests: Sequence[Request]) -> None:
        """Ends requests whose tokens nobody waits for."""


class PaddedServer(Protocol):
    """An engine that answers whole batches."""

    def answer(self, requests: Sequence[Request]) -> list[list[int]]:
        """The tokens of each request."""


def now() -> tuple[int, int]:
    """Nanoseconds by the clock and of the processor."""
    return time.perf_counter_ns(), time.process_time_ns()


def since(begin: tuple[int, int], end: tuple[int, int] | None = None) -> list[int]:
    """The nanoseconds from one moment to another, or to this one."""
    return [b - a for a, b in zip(begin, end or now(), strict=True)]


def prompt(sizes: Sizes, number: int, length: int) -> Array:
    """The tokens of a prompt, which begins like no other one."""
    return np.random.default_rng([11, number]).integers(300, sizes.vocab, length)


def together(sizes: Sizes, count: int) -> list[Request]:
    """Requests that come at the same time: prompts of 16 to 112 tokens, of 64 in the mean."""
    lengths = np.linspace(16, 112, count).astype(int) if count > 1 else [64]
    return [Request(prompt(sizes, n, int(length)), NEW) for n, length in enumerate(lengths)]


def _go_on(server: Server) -> None:
    for request, tokens in server.step():
        at = now()
        request.tokens += tokens
        request.times += [at] * len(tokens)


def throughput(server: Any, sizes: Sizes, case: str) -> dict[str, Any]:
    """Answers ``CONCURRENT[case]`` requests that come at once.

    Returns:
        ``total``, the nanoseconds from the first request to the last token, by the clock and of the
        processor; ``tokens`` of each request.
    """
    asked = together(sizes, CONCURRENT[case])
    begin = now()
    if hasattr(server, "answer"):
        for request, tokens in zip(asked, server.answer(asked), strict=True):
            request.tokens = tokens
    else:
        for request in asked:
            server.submit(request)
        while not all(request.is_done for request in asked):
            _go_on(server)
    return {"total": since(begin), "tokens": [request.tokens for request in asked]}


def first_token(server: Server, sizes: Sizes, case: str, turn: int) -> dict[str, Any]:
    """Waits for the first token of a long prompt, alone or beside requests that decode.

    The prompt comes between two steps. No two turns have the same prompts, so that a cache of
    prefixes would find none.

    Returns:
        ``first``, the nanoseconds until the first token; ``tokens`` of it. Beside others ``step``,
        the median time between two tokens of these before the prompt came, and ``longest``, the
        longest one until its first token was there.
    """
    start = 1000 * (turn + 1)
    others = [
        Request(prompt(sizes, start + n, 64 + 16 * n), LONGEST - 512)
        for n in range(DECODING if case == "first_beside_8" else 0)
    ]
    for request in others:
        server.submit(request)
    while any(len(request.tokens) < BEFORE for request in others):
        _go_on(server)
    places = [len(request.times) for request in others]
    asked = Request(prompt(sizes, start + DECODING, PROMPT), 1)
    begin = now()
    server.submit(asked)
    while not asked.is_done:
        _go_on(server)
    found: dict[str, Any] = {"first": since(begin, asked.times[0]), "tokens": [asked.tokens]}
    if others:
        while any(len(one.times) <= place for one, place in zip(others, places, strict=True)):
            _go_on(server)
        before, during = [], []
        for one, place in zip(others, places, strict=True):
            gaps = [since(a, b) for a, b in zip(one.times, one.times[1:], strict=False)]
            before += gaps[max(place - BEFORE + 2, 0) : place - 1]
            during += gaps[place - 1 :]
        found["step"] = np.median(before, axis=0).tolist()
        found["longest"] = np.max(during, axis=0).tolist()
        server.cancel(others)
    return found


__all__ = [
    "CASES", "CONCURRENT", "FIRST", "LONGEST", "NEW", "PROMPT", "PaddedServer", "Request", "Server",
    "first_token", "prompt", "throughput", "together",
]  # fmt: skip
