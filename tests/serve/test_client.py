"""The API as OpenAI's own client sees it, against what transformers writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.serving.running import TEXTS
from tests.serve.conftest import ADAPTERS, BASE

COUNT = 10
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Boston", "Kyoto"]}, "rain": {"type": "boolean"}},
    "required": ["city", "rain"],
    "additionalProperties": False,
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"deep": {"$ref": "#/$defs/yes"}},
            "required": ["deep"],
            "additionalProperties": False,
            "$defs": {"yes": {"type": "boolean"}},
        },
    },
}
NOW = {"type": "function", "function": {"name": "now", "description": "The time."}}
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def oracle(folder: Path) -> tuple[Any, Any]:
    """The model and the tokenizer of transformers."""
    import transformers

    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def written(oracle: tuple[Any, Any], ids: list[int]) -> tuple[str, list[int]]:
    """The text and the tokens that transformers writes behind tokens."""
    import torch

    model, tokenizer = oracle
    options = {"do_sample": False, "max_new_tokens": COUNT, "pad_token_id": 0}
    given = torch.tensor([ids])
    (found,) = model.generate(given, attention_mask=torch.ones_like(given), **options)
    tokens = found[len(ids) :].tolist()
    return tokenizer.decode(tokens, skip_special_tokens=True), tokens


def test_completions_are_what_transformers_writes(client: Any, oracle: tuple[Any, Any]) -> None:
    wanted = [written(oracle, oracle[1].encode(text))[0] for text in TEXTS]
    found = client.completions.create(model=BASE, prompt=TEXTS, max_tokens=COUNT)
    assert [one.text for one in found.choices] == wanted
    assert [one.index for one in found.choices] == list(range(len(TEXTS)))
    sizes = [len(oracle[1].encode(text)) for text in TEXTS]
    assert found.usage.prompt_tokens == sum(sizes)
    assert found.usage.total_tokens == sum(sizes) + found.usage.completion_tokens
    ids = oracle[1].encode(TEXTS[2])
    same = client.completions.create(model=BASE, prompt=ids, max_tokens=COUNT, echo=True)
    assert same.choices[0].text == TEXTS[2] + wanted[2]
    echoed = client.completions.create(model=BASE, prompt=TEXTS[1], max_tokens=COUNT, echo=True)
    assert echoed.choices[0].text == TEXTS[1] + wanted[1]


def test_a_chat_is_what_transformers_writes(client: Any, oracle: tuple[Any, Any]) -> None:
    messages: list[Any] = [
        {"role": "developer", "content": "be short"},
        {"role": "user", "content": [{"type": "text", "text": "weather"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "now", "arguments": '{"in": "Boston"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    plain: list[Any] = [
        {"role": "system", "content": "be short"},
        {"role": "user", "content": "weather"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "now", "arguments": {"in": "Boston"}}}]},
        {"role": "tool", "content": "42"},
    ]  # fmt: skip
    prompt = oracle[1].apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
    text, tokens = written(oracle, oracle[1].encode(prompt, add_special_tokens=False))
    whole = client.chat.completions.create(model=BASE, messages=messages, max_tokens=COUNT)
    (choice,) = whole.choices
    assert choice.message.content == text
    assert choice.message.role == "assistant"
    assert whole.usage.completion_tokens == len(tokens)
    stream = client.chat.completions.create(
        model=BASE,
        messages=messages,
        max_tokens=COUNT,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    parts = [one.choices[0].delta.content or "" for one in chunks if one.choices]
    assert "".join(parts) == text
    assert sum(map(bool, parts)) > 1
    assert chunks[-2].choices[0].finish_reason == choice.finish_reason
    assert chunks[-1].usage == whole.usage
    assert len({one.id for one in chunks}) == 1


def test_a_stop_ends_the_text_before_it(client: Any, oracle: tuple[Any, Any]) -> None:
    """Wherever it begins and ends, in a token or between two."""
    texts = {one: written(oracle, oracle[1].encode(one))[0] for one in TEXTS[:3]}
    cases = [
        (prompt, text, text[place : place + 2])
        for prompt, text in texts.items()
        for place in range(1, len(text) - 3, 4)
        if text[place : place + 2].isascii()
    ]
    assert len(cases) > 5
    for prompt, text, stop in cases:
        given = {"model": BASE, "prompt": prompt, "max_tokens": COUNT, "stop": stop}
        (whole,) = client.completions.create(**given).choices
        assert (whole.text, whole.finish_reason) == (text[: text.index(stop)], "stop"), stop
        parts = [one.choices[0].text for one in client.completions.create(**given, stream=True)]
        assert "".join(parts) == whole.text


def test_seeds_decide_answers_and_n_gives_several(client: Any) -> None:
    def ask(**given: Any) -> list[str]:
        found = client.completions.create(
            model=BASE, prompt="The quick", max_tokens=8, temperature=1.5, **given
        )
        return [one.text for one in found.choices]

    several = ask(seed=7, n=3)
    assert len(set(several)) == 3
    assert ask(seed=7, n=3) == several
    assert ask(seed=8) == [several[1]]
    assert ask(seed=-1) == ask(seed=-1) != several[:1]


def test_log_probabilities_are_those_of_transformers(client: Any, oracle: tuple[Any, Any]) -> None:
    import torch

    model, tokenizer = oracle
    text = "naïve 世界"
    ids = tokenizer.encode(text)
    _, tokens = written(oracle, ids)
    with torch.no_grad():
        logits = model(torch.tensor([[*ids, *tokens]])).logits[0]
    told = torch.log_softmax(logits, -1).numpy()
    wanted = [told[place, token] for place, token in enumerate([*ids, *tokens][1:])]
    (echoed,) = client.completions.create(
        model=BASE, prompt=text, max_tokens=COUNT, logprobs=3, echo=True
    ).choices
    found = echoed.logprobs
    assert found.token_logprobs[0] is None
    count = len(found.token_logprobs)
    assert len(ids) < count <= len(ids) + len(tokens)
    np.testing.assert_allclose(found.token_logprobs[1:], wanted[: count - 1], atol=1e-4)
    # Tokens behind the vocabulary of the tokenizer all have the text "".
    assert all(1 <= len(one) <= 4 for one in found.top_logprobs[1:])
    starts = [echoed.text.index("世"), echoed.text.index("界")]
    assert set(starts) <= set(found.text_offset)
    prompt = tokenizer.apply_chat_template(HI, tokenize=False, add_generation_prompt=True)
    ids = tokenizer.encode(prompt, add_special_tokens=False)
    _, tokens = written(oracle, ids)
    (chat,) = client.chat.completions.create(
        model=BASE, messages=HI, max_tokens=COUNT, logprobs=True, top_logprobs=2
    ).choices
    content = chat.logprobs.content
    data = bytes(byte for one in content for byte in one.bytes)
    assert data.decode("utf-8", "replace") == chat.message.content
    with torch.no_grad():
        rows = torch.log_softmax(model(torch.tensor([[*ids, *tokens]])).logits[0], -1).numpy()
    for place, one in enumerate(content):
        row = rows[len(ids) - 1 + place]
        np.testing.assert_allclose(one.logprob, row[tokens[place]], atol=1e-4)
        best = sorted(row)[-2:][::-1]
        np.testing.assert_allclose([top.logprob for top in one.top_logprobs], best, atol=1e-4)


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_answers_fit_a_schema(client: Any, temperature: float) -> None:
    pytest.importorskip("llguidance")
    form: Any = {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA}}
    (one,) = client.chat.completions.create(
        model=BASE, messages=HI, response_format=form, temperature=temperature, logprobs=True
    ).choices
    found = json.loads(one.message.content)
    assert found["city"] in ("Boston", "Kyoto")
    assert isinstance(found["rain"], bool)
    assert one.finish_reason == "stop"
    assert "".join(entry.token for entry in one.logprobs.content) == one.message.content


def test_a_tool_that_is_asked_for_is_called(client: Any) -> None:
    pytest.importorskip("llguidance")
    given: dict[str, Any] = {"model": BASE, "messages": HI, "tools": [ADD, NOW], "seed": 3}
    named = {"type": "function", "function": {"name": "add"}}
    (one,) = client.chat.completions.create(**given, tool_choice=named).choices
    (call,) = one.message.tool_calls
    assert call.function.name == "add"
    assert json.loads(call.function.arguments) in ({"deep": True}, {"deep": False})
    assert one.message.content is None
    assert one.finish_reason == "tool_calls"
    stream = client.chat.completions.create(
        **given, tool_choice="required", temperature=1.5, stream=True
    )
    chunks = [chunk.choices[0] for chunk in stream]
    (told,) = [call for one in chunks for call in one.delta.tool_calls or ()]
    assert told.index == 0
    assert told.id.startswith("call_")
    arguments = json.loads(told.function.arguments)
    assert arguments == {} if told.function.name == "now" else set(arguments) == {"deep"}
    assert chunks[-1].finish_reason == "tool_calls"
    (free,) = client.chat.completions.create(**given, max_tokens=5, tool_choice="none").choices
    assert free.message.tool_calls is None
    (free,) = client.chat.completions.create(**given, max_tokens=5).choices
    assert free.message.content


def test_models_are_listed_and_adapters_answer(client: Any) -> None:
    assert [one.id for one in client.models.list()] == [BASE, *ADAPTERS]
    assert client.models.retrieve("two").id == "two"
    texts = {
        name: client.completions.create(model=name, prompt="The quick", max_tokens=6)
        .choices[0]
        .text
        for name in (BASE, *ADAPTERS)
    }
    assert len(set(texts.values())) == 3


def test_the_sampler_is_asked_beyond_openai(client: Any) -> None:
    def ask(**extra: Any) -> Any:
        return client.completions.create(
            model=BASE, prompt="1 2 3", max_tokens=12, temperature=1, seed=1, extra_body=extra
        ).choices[0]

    greedy = client.completions.create(model=BASE, prompt="1 2 3", max_tokens=12).choices[0].text
    assert ask(top_k=1).text == ask(min_p=1.0).text == greedy
    assert ask().text != greedy
    first = ask(top_k=1, logit_bias={}).text
    ended = client.completions.create(
        model=BASE,
        prompt="1 2 3",
        max_tokens=12,
        extra_body={"stop_token_ids": list(range(448, 509))},
    ).choices[0]
    assert ended.finish_reason == "stop"
    assert len(ended.text) <= len(first)
    penal = client.completions.create(
        model=BASE, prompt="1 2 3", max_tokens=40, frequency_penalty=2, presence_penalty=2
    ).choices[0]
    plain = client.completions.create(model=BASE, prompt="1 2 3", max_tokens=40).choices[0]
    assert penal.text != plain.text
