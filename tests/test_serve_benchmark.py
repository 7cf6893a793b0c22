"""The benchmark of serving times what it says, on a server and a clock that are made up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import serve_cases
from benchmarks.llm_shapes import MODELS
from benchmarks.serve_cases import CONCURRENT, NEW, PROMPT, Request

SIZES = MODELS["tiny"]
PART, STEP_NS, PART_NS = 256, 10, 35


class Slow:
    """A server whose steps take 10 ns, and 35 ns with a part of a long prompt."""

    def __init__(self) -> None:
        self.ns = 0
        self.left: dict[int, int] = {}
        self.requests: list[Request] = []
        self.cancelled = 0

    def submit(self, request: Request) -> None:
        """Takes a request."""
        self.requests.append(request)
        self.left[id(request)] = len(request.prompt)

    def step(self) -> list[tuple[Request, list[int]]]:
        """A token for each request whose prompt is computed, and at most a part of the others."""
        found, takes = [], STEP_NS
        for one in self.requests:
            if self.left[id(one)] > PART:
                takes = PART_NS
            self.left[id(one)] = max(self.left[id(one)] - PART, 0)
            if not self.left[id(one)]:
                found.append((one, [7]))
        self.ns += takes
        self.requests = [
            one for one in self.requests if self.left[id(one)] or len(one.tokens) + 1 < one.new
        ]
        return found

    def cancel(self, requests: Sequence[Request]) -> None:
        """Ends requests."""
        self.cancelled += len(requests)
        self.requests = []


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """A server whose time is the only one."""
    made = Slow()
    monkeypatch.setattr(serve_cases, "now", lambda: (made.ns, 2 * made.ns))
    return made


@pytest.mark.parametrize("case", CONCURRENT)
def test_requests_that_come_at_once_are_timed_to_the_last_token(server: Slow, case: str) -> None:
    found = serve_cases.throughput(server, SIZES, case)
    assert found["tokens"] == [[7] * NEW] * CONCURRENT[case]
    assert found["total"] == [STEP_NS * NEW, 2 * STEP_NS * NEW]


def test_the_first_token_and_the_longest_pause_are_timed(server: Slow) -> None:
    assert PROMPT == 2 * PART
    alone = serve_cases.first_token(server, SIZES, "first_alone", 0)
    assert alone == {"first": [PART_NS + STEP_NS, 2 * (PART_NS + STEP_NS)], "tokens": [[7]]}
    beside = serve_cases.first_token(server, SIZES, "first_beside_8", 1)
    assert beside["first"] == alone["first"]
    assert beside["step"] == [STEP_NS, 2 * STEP_NS]
    assert beside["longest"] == [PART_NS, 2 * PART_NS]
    assert server.cancelled == serve_cases.DECODING


def test_prompts_of_two_turns_begin_differently() -> None:
    starts = {
        tuple(serve_cases.prompt(SIZES, 1000 * turn + n, 8).tolist())
        for turn in range(1, 4)
        for n in range(serve_cases.DECODING + 1)
    }
    assert len(starts) == 3 * (serve_cases.DECODING + 1)
