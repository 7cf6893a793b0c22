"""`TextContext` against a list: every pair of transitions, many times, and messages in between."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.errors import DocumentError, InputError, InputTypeError
from maxlab.interfaces import (
    GenerationStatus,
    LogProbabilities,
    RequestID,
    SamplingParams,
    TextGenerationContext,
    TextGenerationInputs,
    msgpack_eq,
    msgpack_numpy_decoder,
    msgpack_numpy_encoder,
)
from maxlab.pipelines.core import TextContext
from tests.pipelines.model import Model, RefusedError

OPERATIONS = ("update", "probable", "jump", "chunk", "reset", "rollback", "tell", "wire")
encode, decode = msgpack_numpy_encoder(), msgpack_numpy_decoder(TextContext)


def made(**options: Any) -> TextContext:
    """A context of three tokens with room for ten."""
    return TextContext(**{"max_length": 10, "tokens": np.array([5, 6, 7]), **options})


class Walk:
    """A context and its model, taken through the same random transitions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.randint
        prompt = [pick(1, 9) for _ in range(self.random.choice([1, 3, 126, 200]))]
        room = pick(4, 60)
        most = self.random.choice([None, pick(4, 80)])
        least = pick(0, 3)
        ends, stops = {0}, [[1, 2], [3, 3, 3]]
        stop_ids = self.random.choice([None, [9]])
        ignore = self.random.random() < 0.3
        self.context = TextContext(
            max_length=len(prompt) + room,
            tokens=np.array(prompt, self.random.choice([np.int32, np.int64])),
            eos_token_ids=ends,
            eos_sequences=stops,
            ignore_eos=ignore,
            sampling_params=SamplingParams(
                max_new_tokens=most, min_new_tokens=least, stop_token_ids=stop_ids
            ),
        )
        limit = len(prompt) + min(room, most or room)
        self.model = Model(
            prompt, limit, least, (set() if ignore else ends) | set(stop_ids or ()), stops
        )

    def step(self, operation: str) -> bool:
        """One transition of both, and whether it was allowed; what one refuses, the other refuses
        too, and does nothing."""
        pick = self.random.randint
        token = self.random.choices(range(10), [1, 5, 9, 5, 9, 9, 9, 9, 9, 1])[0]
        number = self.random.choice([-1, 0, 1, 2, 3, len(self.model.tokens) - self.model.start])
        count = pick(1, 3)
        before = encode(self.context)
        actions: dict[str, Callable[[], Any]] = {
            "update": lambda: self.model.update(token),
            "probable": lambda: self.model.update(token, -float(token)),
            "jump": lambda: self.model.jump(token),
            "chunk": lambda: self.model.chunk(number),
            "reset": self.model.reset,
            "rollback": lambda: self.model.rollback(count),
            "tell": self.model.tell,
            "wire": lambda: None,
        }
        try:
            expected = actions[operation]()
        except RefusedError:
            with pytest.raises(InputError):
                self.act(operation, token, number, count)
            assert encode(self.context) == before
            return False
        assert self.act(operation, token, number, count) == expected
        self.compare()
        return True

    def act(self, operation: str, token: int, number: int, count: int) -> Any:
        """The transition of the context."""
        context = self.context
        if operation == "update":
            return context.update(token)
        if operation == "probable":
            return context.update(token, LogProbabilities([-float(token)], [{token: -1.0}]))
        if operation == "jump":
            return context.jump_ahead(token)
        if operation == "chunk":
            return context.set_token_indices(active_idx=context.start_idx + number)
        if operation == "reset":
            return context.reset()
        if operation == "rollback":
            end = context.end_idx - count
            start = min(0, end - 1 - context.start_idx)
            active = min(0, end - context.active_idx)
            return context.bump_token_indices(start, active, end_idx=-count)
        if operation == "tell":
            output = context.to_generation_output()
            assert output.final_status is context.status
            probabilities = output.log_probabilities or []
            return output.tokens, [one.token_log_probabilities[0] for one in probabilities]
        self.context = decode(encode(context))
        assert msgpack_eq(self.context, context)
        return None

    def compare(self) -> None:
        """Everything that the context tells is what the list has."""
        context, model = self.context, self.model
        assert context.status.value == model.status
        assert context.is_done is (model.status != "active")
        places = (context.start_idx, context.active_idx, context.end_idx)
        assert places == (model.start, model.active, len(model.tokens))
        assert context.active_length == model.active - model.start
        assert context.current_length == len(model.tokens)
        assert context.all_tokens.tolist() == model.tokens
        assert context.next_tokens.tolist() == model.tokens[model.start : model.active]
        assert context.prompt_tokens.tolist() == model.tokens[: model.prompt]
        assert context.generated_tokens.tolist() == model.tokens[model.prompt :]
        assert context.is_initial_prompt is (len(model.tokens) == model.prompt)
        assert context.needs_ce is (model.start < model.encode)
        assert len(context.tokens) % 128 == 0
        assert len(context.tokens) >= len(model.tokens)
        left = model.least - (len(model.tokens) - model.prompt)
        masks = context.get_min_token_logit_mask(4)
        assert [len(mask) > 0 for mask in masks] == [step < left for step in range(4)]


def walked(seeds: range) -> Counter[tuple[str, str]]:
    """How often each pair of transitions, the second one allowed, followed each other."""
    counts: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        walk, last = Walk(seed), ""
        for _ in range(40):
            operation = walk.random.choice(OPERATIONS)
            allowed = walk.step(operation)
            counts[last, operation] += allowed
            last = operation if allowed else ""
            if walk.model.status != "active" and walk.random.random() < 0.2:
                break
    return counts


@pytest.mark.parametrize("block", range(4))
def test_every_pair_of_transitions_does_what_the_list_does(block: int) -> None:
    counts = walked(range(block * 1000, block * 1000 + 1000))
    pairs = set(itertools.product(OPERATIONS, OPERATIONS))
    # What was just told cannot be taken back: that the context refuses.
    fewest = min((counts[pair], pair) for pair in pairs - {("tell", "rollback")})
    assert fewest[0] >= 50, fewest


def test_the_pairs_are_counted_where_both_are_allowed() -> None:
    # Not only refusals: walks end in every way, and tokens come out of them.
    ends: Counter[str] = Counter()
    for seed in range(200):
        walk = Walk(seed)
        while walk.model.status == "active":
            walk.step("update")
        ends[walk.model.status] += 1
    assert min(ends["end_of_sequence"], ends["maximum_length"]) > 20


# ---------------------------------------------------------------- single rules
def test_it_is_the_documented_protocol() -> None:
    context = made()
    assert isinstance(context, TextGenerationContext)
    assert TextGenerationInputs([{context.request_id: context}], 1).batch_echo == [False]


def test_the_prompt_is_copied() -> None:
    prompt = np.arange(200)
    context = TextContext(max_length=300, tokens=prompt)
    context.update(1)
    prompt[:] = 0
    assert context.prompt_tokens.tolist() == list(range(200))
    assert len(context.tokens) == 256


def test_a_stop_sequence_spans_updates_and_outputs() -> None:
    context = made(eos_sequences=[[1, 2]])
    context.update(1)
    assert context.to_generation_output().tokens == [1]
    context.update(2)
    output = context.to_generation_output()
    assert (output.tokens, output.final_status) == ([], GenerationStatus.END_OF_SEQUENCE)


def test_a_stop_sequence_does_not_begin_in_the_prompt() -> None:
    context = made(eos_sequences=[[7, 2]])
    context.update(2)
    assert not context.is_done


def test_stop_tokens_of_one_request_are_not_those_of_another() -> None:
    ends = {0}
    first = made(eos_token_ids=ends, sampling_params=SamplingParams(stop_token_ids=[4]))
    second = made(eos_token_ids=ends)
    first.update(4)
    second.update(4)
    assert (first.is_done, second.is_done, ends) == (True, False, {0})


def test_the_last_token_at_the_longest_length_is_told() -> None:
    context = made(max_length=4)
    context.update(8)
    output = context.to_generation_output()
    assert (output.tokens, output.final_status) == ([8], GenerationStatus.MAXIMUM_LENGTH)


def test_a_prompt_of_the_longest_length_takes_no_token() -> None:
    context = made(max_length=3)
    context.update(8)
    assert context.status is GenerationStatus.MAXIMUM_LENGTH
    assert context.to_generation_output().tokens == []


def test_masks_name_every_token_that_ends() -> None:
    params = SamplingParams(min_new_tokens=1, stop_token_ids=[9])
    masks = made(eos_token_ids={2, 0}, sampling_params=params).get_min_token_logit_mask(2)
    assert masks[0].tolist() == [[0, 0], [0, 2], [0, 9]]
    assert masks[1].shape == (0, 2)
    assert masks[0].dtype == np.int32


def test_steps_that_are_left() -> None:
    context = made()
    assert [context.compute_num_available_steps(n) for n in (0, 3, 4, 10)] == [0, 0, 1, 7]


class Grammar:
    """Allows even tokens, and remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def consume_token(self, token: int) -> bool:
        self.seen.append(token)
        return token % 2 == 0


def test_the_grammar_sees_every_token_and_may_refuse() -> None:
    context, grammar = made(), Grammar()
    context.set_matcher(grammar)
    context.update(2)
    context.jump_ahead(4)
    with pytest.raises(InputError, match="does not allow the token 3 at 5"):
        context.update(3)
    assert grammar.seen == [2, 4, 3]
    assert context.generated_tokens.tolist() == [2, 4]
    with pytest.raises(InputTypeError, match="cannot be a part of a message"):
        encode(context)
    with pytest.raises(InputTypeError, match="consume_token"):
        context.set_matcher(3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tokens": np.zeros(0, int)}, "1 token or more"),
        ({"tokens": np.zeros(11, int)}, "≠ 11 given"),
        ({"sampling_params": SamplingParams(min_new_tokens=8)}, "leaves 7 of max_length"),
        ({"tokens": np.zeros((1, 2), int)}, "1 axis"),
        ({"max_length": 0}, "max_length"),
        ({"eos_token_ids": {-1}}, "eos_token_ids"),
        ({"eos_sequences": [[]]}, "eos_sequences"),
        ({"log_probabilities": -1}, "log_probabilities"),
        ({"target_endpoint": "http://a:1"}, "tcp://HOST:PORT"),
        ({"target_endpoint": "tcp://host"}, "tcp://HOST:PORT"),
    ],
)
def test_values_that_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as raised:
        made(**options)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("tokens", [1]), ("tokens", np.zeros(2)), ("request_id", "a"), ("eos_token_ids", [0])),
        *(("sampling_params", None), ("status", "active "), ("json_schema", {}), ("ignore_eos", 1)),
    ],
)
def test_types_that_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InputTypeError, match=field):
        made(**{field: value})


@pytest.mark.parametrize("token", [-1, 2**31, 1.5, "a", None, True])
def test_tokens_that_are_refused(token: Any) -> None:
    context = made()
    for method in (context.update, context.jump_ahead):
        with pytest.raises((InputError, InputTypeError), match="new_token"):
            method(token)
    assert context.is_initial_prompt


def test_endpoints() -> None:
    for endpoint in ("tcp://host:5555", "ipc:///tmp/a"):
        assert made(target_endpoint=endpoint).target_endpoint == endpoint


# ---------------------------------------------------------------- hostile messages
@pytest.mark.parametrize("seed", range(40))
def test_a_spoiled_context_is_refused_or_whole(seed: int) -> None:
    random_ = random.Random(seed)
    walk = Walk(seed)
    for _ in range(5):
        walk.step("update")
    message = encode(walk.context)
    refused = 0
    for _ in range(100):
        data = bytearray(message)
        # Not in the tokens, where every change gives a context that is as good.
        data[random_.randrange(len(data))] = random_.randrange(256)
        if random_.random() < 0.3:
            del data[random_.randrange(len(data)) :]
        try:
            context = decode(bytes(data))
        except DocumentError:
            refused += 1
            continue
        assert msgpack_eq(decode(encode(context)), context)
        assert 0 <= context.start_idx < context.active_idx <= context.end_idx
        if not context.is_done:
            context.update(1)
        context.to_generation_output()
    assert refused > 10


def test_another_request_has_another_name() -> None:
    assert made().request_id != made().request_id
    assert isinstance(made().request_id, RequestID)
