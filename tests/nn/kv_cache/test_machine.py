"""Random histories of a cache against a model of it: a list of sequences with their tokens."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from maxlab.pipelines.core import TextContext
from tests.nn.kv_cache import caches

PROMPTS = st.builds(
    lambda length, last: [*range(length), last],
    st.sampled_from([13, 8, 7, 4, 1]),
    st.integers(0, 1),
)
"""Prompts that begin alike; one of them ends as the next one goes on."""
STEPS = st.sampled_from([1, 5, 2, 9])


class Histories(RuleBasedStateMachine):
    """Sequences begin, run, are chunked, run several steps, are reset, go back, and end."""

    def __init__(self) -> None:
        super().__init__()
        self.live: list[TextContext] = []

    @initialize(count=st.integers(4, 9), host=st.integers(0, 3), shares=st.booleans())
    def make(self, count: int, host: int, shares: bool) -> None:
        self.count = count
        self.cache = caches.cache(count, host if shares else 0, enable_prefix_caching=shares)

    # ------------------------------------------------------------ what happens
    @precondition(lambda self: len(self.live) < 4)
    @rule(tokens=PROMPTS, chunk=st.sampled_from([14, 6]), adapter=st.sampled_from(["", "", "a"]))
    def begin(self, tokens: list[int], chunk: int, adapter: str) -> None:
        made = caches.context(tokens, model_name=adapter)
        if chunk < len(tokens):
            made.set_token_indices(active_idx=chunk)
        self.cache.blocks.claim(made.request_id)
        self.live.append(made)
        self.run(len(self.live) - 1, 0, 1)

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3), token=st.sampled_from([0, 0, 1]), steps=STEPS)
    def run(self, number: int, token: int, steps: int) -> None:
        made = self.live[number % len(self.live)]
        if made.active_idx < made.end_idx:
            steps = 1  # a chunk of a prompt gives no token to go on with
        if self.cache.blocks.wanted(made, steps) > self.count:
            return
        before, start = self.pages(made), made.start_idx
        free = self.cache.blocks.pool.free_count
        if not self.cache.blocks.reserve(made, steps):
            assert made.start_idx == start, "a failed reservation moved the context"
            kept = self.pages(made)
            # A page in whose middle a sequence goes on may have become a copy of its own.
            changed = [at for at, page in enumerate(kept) if page != before[at]]
            assert changed in ([], [start // caches.PAGE])
            assert self.cache.blocks.pool.free_count >= free - len(changed)
            return
        assert start <= made.start_idx < made.active_idx
        for _ in range(steps):
            caches.write(self.cache, made)
            made.update(token)
        self.cache.blocks.commit(made)

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3))
    def reset(self, number: int) -> None:
        self.live[number % len(self.live)].reset()

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3))
    def preempt(self, number: int) -> None:
        made = self.live[number % len(self.live)]
        self.cache.blocks.release(made.request_id)
        made.reset()
        self.cache.blocks.claim(made.request_id)

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3), back=st.sampled_from([1, 4, 7]), token=st.integers(0, 1))
    def go_back(self, number: int, back: int, token: int) -> None:
        """As a draft that was refused: tokens are taken back, and another one comes."""
        made = self.live[number % len(self.live)]
        if made.needs_ce or made.end_idx - back <= len(made.prompt_tokens):
            return
        made.bump_token_indices(start_idx=-back, active_idx=-back, end_idx=-back)
        made.tokens[made.end_idx - 1] = token

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3))
    def end(self, number: int) -> None:
        made = self.live.pop(number % len(self.live))
        self.cache.blocks.release(made.request_id)

    @precondition(lambda self: not self.live)
    @rule()
    def forget(self) -> None:
        self.cache.blocks.forget_prefixes()

    # ------------------------------------------------------------ what holds
    def pages(self, made: TextContext) -> list[int]:
        return list(self.cache.blocks.of(made.request_id).pages)

    @invariant()
    def every_page_is_counted(self) -> None:
        if not hasattr(self, "cache"):
            return
        users = np.zeros(self.count, int)
        for made in self.live:
            for page in self.pages(made):
                users[page] += 1
            assert len(set(self.pages(made))) == len(self.pages(made))
        pool = self.cache.blocks.pool
        assert pool.users == users.tolist()
        assert pool.free_count == int((users == 0).sum())

    @invariant()
    def what_was_written_is_read(self) -> None:
        for made in self.live:
            found = caches.read(self.cache, made)
            np.testing.assert_array_equal(found, caches.expected(made)[: len(found)])

    @invariant()
    def pages_in_use_are_shared_only_when_full(self) -> None:
        for made in self.live:
            for number, page in enumerate(self.pages(made)):
                if self.cache.blocks.pool.users[page] > 1:
                    assert self.cache.blocks.pool.hashes[page] is not None
                    assert number < len(self.cache.blocks.of(made.request_id).hashes)

    @invariant()
    def empty_pages_are_poisoned(self) -> None:
        if not hasattr(self, "cache"):
            return
        pool, blocks = self.cache.blocks.pool, self.cache.memory.blocks[0].to_numpy()
        for page in range(self.count):
            if not pool.users[page] and pool.hashes[page] is None:
                assert np.isnan(blocks[page]).all()

    def teardown(self) -> None:
        if not hasattr(self, "cache"):
            return
        for made in self.live:
            self.cache.blocks.release(made.request_id)
        assert self.cache.blocks.pool.free_count == self.count
        assert not self.cache.blocks.claimed
        self.cache.blocks.check()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
