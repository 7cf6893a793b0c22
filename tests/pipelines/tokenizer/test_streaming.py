"""Texts of tokens as they come are the texts of all tokens, up to the first stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxlab.errors import InputError, InputTypeError
from maxlab.interfaces import RequestID, SamplingParams, TextGenerationRequest
from maxlab.pipelines.lib.tokenizer import IncrementalDecoder, TextTokenizer
from tests.pipelines.tokenizer import trained

pytest.importorskip("transformers", reason="transformers not installed")
BROKEN = "\ufffd"


@cache
def peer(kind: str) -> Any:
    """A tokenizer of transformers."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(trained.tokenizer_json(kind)),
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )


def whole(kind: str, ids: list[int], context: tuple[int, ...] = (), skip: bool = True) -> str:
    """The text of all tokens, decoded at once."""
    options = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": False}
    before = peer(kind).decode(list(context), **options)
    return str(peer(kind).decode([*context, *ids], **options))[len(before) :]


def streamed(kind: str, ids: list[int], sizes: list[int], **options: Any) -> list[str]:
    """The pieces of text of tokens that come by ``sizes``, with the last one of `finish`."""
    decoder = IncrementalDecoder(peer(kind), **options)
    pieces, left, n = [], list(ids), 0
    while left:
        size = sizes[n % len(sizes)]
        pieces.append(decoder.push(left[0] if size == 1 else left[:size]))
        left, n = left[size:], n + 1
    return [*pieces, decoder.finish()]


def cut(text: str, stops: list[str]) -> str:
    """``text`` before the stop that is complete first, read letter by letter."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))]
    return text


TEXTS = st.text(
    st.one_of(
        st.sampled_from("abc The fox dog ###END.,!?'  \n你好世界こんにちは🙂👩\u200d👧é\u0301"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)
KINDS = st.sampled_from(sorted(trained.KINDS))


@settings(max_examples=120, deadline=None)
@given(KINDS, TEXTS, SIZES, st.booleans())
def test_texts_come_whole(kind: str, text: str, sizes: list[int], skip: bool) -> None:
    ids = peer(kind).encode(text, add_special_tokens=True)
    pieces = streamed(kind, ids, sizes, skip_special_tokens=skip)
    assert "".join(pieces) == whole(kind, ids, skip=skip)
    if BROKEN not in text:
        assert not any(BROKEN in piece for piece in pieces)


@settings(max_examples=120, deadline=None)
@given(KINDS, st.lists(st.integers(0, 420), max_size=40), SIZES)
def test_any_tokens_come_whole(kind: str, ids: list[int], sizes: list[int]) -> None:
    text, expected = "".join(streamed(kind, ids, sizes)), whole(kind, ids)
    # A byte that is no character spoils the whole run of bytes where all are decoded at once.
    if kind != "unigram" or BROKEN not in expected:
        assert text == expected


@settings(max_examples=60, deadline=None)
@given(KINDS, TEXTS, TEXTS)
def test_texts_go_on_from_a_prompt(kind: str, prompt: str, text: str) -> None:
    ids = peer(kind).encode(prompt + " " + text, add_special_tokens=False)
    for place in (len(ids) // 3, len(ids) // 2):
        before = tuple(ids[:place])
        if whole(kind, list(before)).endswith(BROKEN):
            continue  # the prompt ends inside of a character
        pieces = streamed(kind, ids[place:], [1], context=before)
        assert "".join(pieces) == whole(kind, ids[place:], before)


@settings(max_examples=120, deadline=None)
@given(
    KINDS,
    TEXTS,
    SIZES,
    st.lists(
        st.sampled_from(["###", "##", "#E", "END", "好世", "a", " ", "🙂", "xEND"]), max_size=4
    ),
)
def test_texts_end_before_a_stop(kind: str, text: str, sizes: list[int], stops: list[str]) -> None:
    ids = peer(kind).encode(text, add_special_tokens=False)
    decoder = IncrementalDecoder(peer(kind), stop=stops)
    pieces = [decoder.push(one) for one in ids] + [decoder.finish()]
    expected = cut(whole(kind, ids), stops)
    assert "".join(pieces) == expected == "".join(streamed(kind, ids, sizes, stop=stops))
    assert (decoder.stopped is not None) == (expected != whole(kind, ids))


def test_a_character_waits_for_its_last_byte() -> None:
    for kind in ("byte_level", "unigram"):
        ids = peer(kind).encode("a\U0001f9a9", add_special_tokens=False)
        assert len(ids) > 3
        decoder = IncrementalDecoder(peer(kind))
        pieces = [decoder.push(one) for one in ids]
        assert [one for one in pieces if one] == ["a", "\U0001f9a9"] == ["a", pieces[-1]]


def test_a_stop_over_several_tokens_is_never_shown() -> None:
    ids = peer("byte_level").encode("xQQZQQZ!", add_special_tokens=False)
    assert len(ids) > 4
    decoder = IncrementalDecoder(peer("byte_level"), stop=["QQZ!"])
    pieces = [decoder.push(one) for one in ids]
    assert "".join(pieces) == "xQQZ"
    assert pieces[:4] == ["x", "", "", ""]
    assert decoder.stopped == "QQZ!"
    assert decoder.push(ids[0]) == decoder.finish() == ""


@pytest.mark.parametrize("kind", trained.KINDS)
def test_endless_broken_bytes_are_decoded_in_short_parts(kind: str) -> None:
    """Tokens that never make a character must not be decoded again and again from the first."""
    name = {"byte_level": "Ā", "unigram": "<0x80>", "word_piece": "<unk>"}[kind]
    token = peer(kind).convert_tokens_to_ids({"Ā": "Ģ"}.get(name, name))
    longest = 0

    class Counting:
        """Counts the most tokens that are decoded at once."""

        all_special_ids = peer(kind).all_special_ids

        def decode(self, ids: list[int], **options: Any) -> str:
            nonlocal longest
            longest = max(longest, len(ids))
            return str(peer(kind).decode(ids, **options))

    decoder = IncrementalDecoder(Counting())
    text = "".join(decoder.push(token) for _ in range(2000)) + decoder.finish()
    assert longest < 300
    assert text == whole(kind, [token] * 2000)


def test_a_tokenizer_without_a_token_for_the_unknown() -> None:
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    letters = Tokenizer(models.WordLevel({"a": 0, "b": 1}))
    letters.decoder = decoders.Fuse()
    decoder = IncrementalDecoder(PreTrainedTokenizerFast(tokenizer_object=letters))
    assert decoder.push([0, 1]) + decoder.push([0]) + decoder.finish() == "aba"


def test_a_request_has_a_decoder(tmp_path: Path) -> None:
    tokenizer = TextTokenizer(str(trained.folder(tmp_path, "unigram")))
    request = TextGenerationRequest(
        RequestID("a"),
        "m",
        prompt="The",
        stop="###",
        sampling_params=SamplingParams(stop=["END"]),
    )
    ids = peer("unigram").encode("The fox", add_special_tokens=False)
    for stop in ("###", "END"):
        decoder = tokenizer.stream(request, prompt_tokens=ids[:1])
        tokens = [*ids[1:], *peer("unigram").encode(f"a{stop}b", add_special_tokens=False)]
        assert "".join(decoder.push(one) for one in tokens) == " fox a"
        assert decoder.stopped == stop


BAD: list[Callable[[], object]] = [
    lambda: IncrementalDecoder(peer("unigram"), stop=[""]),
    lambda: IncrementalDecoder(peer("unigram"), stop="ab"),
    lambda: IncrementalDecoder(peer("unigram"), context=[-1]),
    lambda: IncrementalDecoder(peer("unigram"), skip_special_tokens=None),  # type: ignore[arg-type]
    lambda: IncrementalDecoder(peer("unigram")).push(-1),
    lambda: IncrementalDecoder(peer("unigram")).push([1, 2**40]),
    lambda: IncrementalDecoder(peer("unigram")).push("a"),  # type: ignore[arg-type]
    lambda: IncrementalDecoder(peer("unigram")).push(None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("call", BAD)
def test_wrong_arguments_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises((InputError, InputTypeError)):
        call()


def test_nothing_is_taken_after_the_end() -> None:
    decoder = IncrementalDecoder(peer("unigram"))
    decoder.finish()
    assert decoder.finish() == ""
    with pytest.raises(InputError, match="finish"):
        decoder.push(1)
