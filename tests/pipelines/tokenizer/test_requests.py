"""Contexts of requests: what of a request reaches its context, and what is refused."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxlab.errors import InputError, InputTypeError, MaxlabError, UnsupportedError
from maxlab.interfaces import (
    PipelineTokenizer,
    RequestID,
    SamplingParams,
    SamplingParamsInput,
    TextGenerationRequest,
)
from maxlab.pipelines.core import TextContext, validate_requires_vision_context
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.tokenizer import (
    IdentityPipelineTokenizer,
    PreTrainedPipelineTokenizer,
    TextTokenizer,
    max_tokens_to_generate,
    run_with_default_executor,
)
from tests.pipelines.config import folders
from tests.pipelines.tokenizer import trained

pytest.importorskip("transformers", reason="transformers not installed")

Folders = Callable[..., Path]
HELLO: list[Any] = [{"role": "user", "content": "The fox"}]


def made(folder: Path, /, max_length: int | None = None, **request: Any) -> TextContext:
    """The context of a request to a new tokenizer of a folder."""
    tokenizer = TextTokenizer(str(folder), max_length=max_length)
    return context_of(tokenizer, **request)


def context_of(tokenizer: TextTokenizer, **request: Any) -> TextContext:
    """The context of a request, of "The fox" unless it says more."""
    if not {"prompt", "messages"} & set(request):
        request["prompt"] = "The fox"
    given = TextGenerationRequest(RequestID("r"), "tiny", **request)
    return asyncio.run(tokenizer.new_context(given))


def peer(folder: Path) -> Any:
    """The tokenizer of transformers."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder))


# ---------------------------------------------------------------- prompts
@pytest.mark.parametrize("kind", trained.KINDS)
@pytest.mark.parametrize("text", [*trained.TEXTS, "", " lead", "\ud800 half", "[INST] <s>"])
def test_tokens_and_texts_are_those_of_transformers(
    folder_of: Folders, kind: str, text: str
) -> None:
    tokenizer, oracle = TextTokenizer(str(folder_of(kind))), peer(folder_of(kind))
    clean = text.replace("\ud800", "?")
    for special in (True, False):
        got = asyncio.run(tokenizer.encode(text, special))
        assert got.dtype == np.int64
        assert got.tolist() == oracle.encode(clean, add_special_tokens=special)
        for skip in (True, False):
            back = asyncio.run(tokenizer.decode(got, skip_special_tokens=skip))
            assert back == oracle.decode(got.tolist(), skip_special_tokens=skip)


def test_a_chat_template_writes_the_special_tokens_alone(folder_of: Folders) -> None:
    folder = folder_of("byte_level", "llama3")
    first = peer(folder).bos_token_id
    of_messages = made(folder, messages=HELLO).prompt_tokens.tolist()
    assert of_messages.count(first) == 1
    assert made(folder, prompt="The fox").prompt_tokens.tolist().count(first) == 1
    whole = peer(folder).apply_chat_template(HELLO, add_generation_prompt=True, return_dict=False)
    assert of_messages[: len(whole)] == whole


def test_tools_and_options_reach_the_template(folder_of: Folders) -> None:
    folder = folder_of("byte_level", "chatml")
    tools: Any = [
        {"type": "function", "function": {"name": "w", "description": "", "parameters": {}}}
    ]
    context = made(
        folder, messages=HELLO, tools=tools, chat_template_options={"enable_thinking": False}
    )
    text = peer(folder).decode(context.prompt_tokens)
    assert '"name": "w"' in text
    assert "<think>" in text
    options = {"enable_thinking": False, "add_generation_prompt": False}
    context = made(folder, messages=HELLO, chat_template_options=options)
    assert "<think>" not in peer(folder).decode(context.prompt_tokens)


def test_tokens_are_taken_as_they_are(folder_of: Folders) -> None:
    context = made(folder_of(), prompt=[5, 6, 7])
    assert context.prompt_tokens.tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"prompt": None}, "ML159"),
        ({"images": [b"x"]}, "ML159"),
        ({"tools": [{"type": "f", "function": {"name": "f", "parameters": {}}}]}, "ML159"),
        ({"chat_template_options": {"a": 1}}, "ML159"),
        ({"messages": []}, "ML159"),
        ({"prompt": []}, "ML989"),
        ({"prompt": "The fox " * 300}, "ML160"),
        ({"prompt": [1] * 513}, "ML160"),
        ({"sampling_params": SamplingParams(min_new_tokens=600)}, "ML989"),
        ({"target_endpoint": "nowhere"}, "ML981"),
        ({"response_format": {"type": "xml", "json_schema": {}}}, "ML161"),
        ({"response_format": {"type": "json_schema", "json_schema": {"a": b""}}}, "ML161"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(
    folder_of: Folders, request_: dict[str, Any], code: str
) -> None:
    with pytest.raises(InputError) as caught:
        made(folder_of(), **request_)
    assert caught.value.code == code


def test_a_prompt_of_the_whole_length_is_no_longer_too_long(folder_of: Folders) -> None:
    size = len(made(folder_of()).prompt_tokens)
    assert made(folder_of(), size).max_length == size
    with pytest.raises(ValueError, match="ML160"):
        made(folder_of(), size - 1)


# ---------------------------------------------------------------- what contexts get
def test_the_fields_of_a_request_reach_its_context(folder_of: Folders) -> None:
    params = SamplingParams(max_new_tokens=7, min_new_tokens=2, ignore_eos=True, seed=3)
    context = made(
        folder_of(),
        sampling_params=params,
        logprobs=3,
        echo=True,
        target_endpoint="tcp://host:80",
        response_format={"type": "json_schema", "json_schema": {"type": "integer"}},
    )
    size = len(context.prompt_tokens)
    assert (context.request_id, context.model_name) == (RequestID("r"), "tiny")
    assert (context.max_length, context.min_tokens) == (size + 7, 2)
    assert (context.log_probabilities, context.log_probabilities_echo) == (3, True)
    assert (context.ignore_eos, context.sampling_params) == (True, params)
    assert context.json_schema == '{"type": "integer"}'
    assert context.target_endpoint == "tcp://host:80"
    assert context.eos_token_ids == {peer(folder_of()).eos_token_id}


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        (None, None),
        ({"type": "text", "json_schema": {}}, None),
        ({"type": "json_object", "json_schema": {}}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}}}, {"a": 1}),
        ({"type": "json_schema", "json_schema": {"enum": ["ü"]}}, {"enum": ["ü"]}),
    ],
)
def test_response_formats(folder_of: Folders, form: Any, schema: Any) -> None:
    found = made(folder_of(), response_format=form).json_schema
    assert (None if found is None else json.loads(found)) == schema


@pytest.mark.parametrize(
    ("config", "max_length", "configured", "expected"),
    [
        ({}, None, None, 512),
        ({}, 100, 50, 100),
        ({}, None, 50, 50),
        ({"model_max_length": ...}, None, None, None),
    ],
)
def test_the_longest_length(
    tmp_path: Path, config: Any, max_length: Any, configured: Any, expected: Any
) -> None:
    made_config: Any = SimpleNamespace(max_length=configured)
    folder = trained.folder(tmp_path, **config)
    tokenizer = TextTokenizer(str(folder), max_length=max_length, pipeline_config=made_config)
    assert tokenizer.max_length == expected
    context = context_of(tokenizer)
    assert context.max_length == (expected or 2**31 - 1)


def test_the_tokens_that_end_come_from_all_files(tmp_path: Path) -> None:
    folder = trained.folder(tmp_path, chat_template=trained.LLAMA3)
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 8]}')
    (folder / "config.json").write_text('{"eos_token_id": 9}')

    of_model = SimpleNamespace(eos_token_id=[10])
    config: Any = SimpleNamespace(model_config=SimpleNamespace(huggingface_config=of_model))
    tokenizer = TextTokenizer(str(folder), pipeline_config=config)
    assert context_of(tokenizer).eos_token_ids == {1, 7, 8, 9, 10}
    assert tokenizer.eos == 1


def test_without_an_end_there_is_none_to_tell(tmp_path: Path) -> None:
    tokenizer = TextTokenizer(str(trained.folder(tmp_path, eos_token=None)))
    assert context_of(tokenizer).eos_token_ids == set()
    with pytest.raises(InputError) as caught:
        _ = tokenizer.eos
    assert caught.value.code == "ML164"


# ---------------------------------------------------------------- where generations end
@pytest.mark.parametrize("kind", trained.KINDS)
@pytest.mark.parametrize("where", ["request", "list", "parameters", "both"])
def test_texts_that_end_become_sequences_of_tokens(
    folder_of: Folders, kind: str, where: str
) -> None:
    asked: dict[str, Any] = {
        "request": {"stop": "###"},
        "list": {"stop": ["###", "END"]},
        "parameters": {"sampling_params": SamplingParams(stop=["###", "END"])},
        "both": {"stop": ["END", "###"], "sampling_params": SamplingParams(stop=["###"])},
    }
    oracle = peer(folder_of(kind))
    context = made(folder_of(kind), **asked[where])
    wanted = ["###"] if where == "request" else ["###", "END"]
    for stop in wanted:
        assert oracle.encode(stop, add_special_tokens=False) in context.eos_sequences
    texts = {oracle.decode(one).strip() for one in context.eos_sequences}
    assert texts == {oracle.decode(oracle.encode(one, add_special_tokens=False)).strip()
                     for one in wanted}  # fmt: skip


@pytest.mark.parametrize("kind", ["byte_level", "unigram"])
@pytest.mark.parametrize("before", ["", "The fox", "The fox ", "\n", "café "])
def test_a_text_that_ends_does_so_behind_other_texts(
    folder_of: Folders, kind: str, before: str
) -> None:
    context = made(folder_of(kind), stop=["###"])
    tokens = peer(folder_of(kind)).encode(before + "###", add_special_tokens=False)
    for token in tokens[:-1]:
        context.update(token)
        assert not context.is_done
    context.update(tokens[-1])
    assert context.is_done


def test_requests_share_no_state(folder_of: Folders) -> None:
    tokenizer = TextTokenizer(str(folder_of()))
    first = context_of(
        tokenizer, stop=["###"], sampling_params=SamplingParams(stop_token_ids=[50, 51])
    )
    assert first.eos_sequences
    first.eos_token_ids.add(60)
    first.eos_sequences.append([61])
    tokenizer.eos_token_ids.add(62)
    second = context_of(tokenizer)
    assert (second.eos_token_ids, second.eos_sequences) == ({tokenizer.eos}, [])
    for token, ends in ((50, True), (61, False)):
        again = context_of(
            tokenizer, sampling_params=SamplingParams(stop_token_ids=[50]), stop=["END"]
        )
        again.update(token)
        assert again.is_done == ends
        assert again.eos_sequences  # stop_token_ids turn no stop off


def test_validators_see_each_context(folder_of: Folders) -> None:
    seen: list[TextContext] = []
    tokenizer = TextTokenizer(str(folder_of()), context_validators=[seen.append])
    context = context_of(tokenizer)
    assert seen == [context]
    refusing = TextTokenizer(
        str(folder_of()), context_validators=[validate_requires_vision_context]
    )
    with pytest.raises(InputError) as caught:
        context_of(refusing)
    assert caught.value.code == "ML993"


def test_sampling_parameters_come_from_three_levels(tmp_path: Path) -> None:
    folder = trained.folder(tmp_path)
    (folder / "generation_config.json").write_text(
        '{"temperature": 0.6, "top_k": 20, "eos_token_id": 1, "max_new_tokens": 3}'
    )
    tokenizer = TextTokenizer(str(folder))
    params = tokenizer.sampling_params(SamplingParamsInput(top_k=5))
    assert (params.temperature, params.top_k, params.top_p) == (0.6, 5, 1.0)
    assert tokenizer.sampling_params().top_k == 20
    context = context_of(tokenizer, sampling_params=params)
    assert context.max_length == len(context.prompt_tokens) + 3
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(InputError, match=r"generation_config\.json"):
        tokenizer.sampling_params()


def test_a_pipelines_configuration_says_the_rest(tmp_path: Path) -> None:
    folder = trained.folder(tmp_path / "model")
    folders.model(
        folder,
        {**folders.LLAMA, "eos_token_id": 9},
        generation={"do_sample": True, "temperature": 0.6, "eos_token_id": 8},
    )
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages[0].content }}!")
    config = PipelineConfig(model_path=str(folder), max_length=40, chat_template=template)
    for given in (None, config.retrieve_chat_template()):
        tokenizer = TextTokenizer(str(folder), pipeline_config=config, chat_template=given)
        assert tokenizer.max_length == 40
        assert tokenizer.apply_chat_template(HELLO, None) == "The fox!"
        assert tokenizer.chat_template().origin == str(template)
        assert tokenizer.eos_token_ids == {1, 8, 9}
        assert tokenizer.sampling_params().temperature == 0.6


# ---------------------------------------------------------------- single tokens, threads
@pytest.mark.parametrize("kind", trained.KINDS)
def test_single_tokens_keep_their_space(folder_of: Folders, kind: str) -> None:
    fixed = TextTokenizer(str(folder_of(kind)), enable_llama_whitespace_fix=True)
    plain = TextTokenizer(str(folder_of(kind)))
    oracle = peer(folder_of(kind))
    ids = oracle.encode("a The fox 你", add_special_tokens=False)
    for token in ids:
        got = asyncio.run(fixed.decode(np.array([token])))
        start = oracle.encode("a", add_special_tokens=False)
        assert got == oracle.decode([*start, token])[len(oracle.decode(start)) :]
        assert asyncio.run(plain.decode(np.array([token]))) == oracle.decode([token])
    if kind == "unigram":
        the = oracle.convert_tokens_to_ids("▁The")
        assert the in ids
        assert asyncio.run(fixed.decode(np.array(the))).startswith(" ")
        assert not asyncio.run(plain.decode(np.array(the))).startswith(" ")
    assert asyncio.run(fixed.decode(np.array(ids))) == oracle.decode(ids)


def test_many_requests_at_once(folder_of: Folders) -> None:
    tokenizer = TextTokenizer(str(folder_of()))
    texts = [f"{n} {trained.TEXTS[n % 4]}" for n in range(64)]

    async def all_of_them() -> list[str]:
        encoded = await asyncio.gather(*(tokenizer.encode(text, False) for text in texts))
        return list(await asyncio.gather(*(tokenizer.decode(one) for one in encoded)))

    assert asyncio.run(all_of_them()) == texts


def test_slow_work_leaves_the_loop_free() -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(value: int, *, more: int) -> int:
        started.set()
        assert go_on.wait(20)
        return value + more

    async def both() -> int:
        work = asyncio.create_task(run_with_default_executor(slow, 1, more=2))
        assert await asyncio.to_thread(started.wait, 20)
        go_on.set()  # only a free loop comes here
        return await work

    assert asyncio.run(both()) == 3

    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(run_with_default_executor(fails))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((3, 10), 7),
        ((3, 10, 4), 4),
        ((3, 10, 9), 7),
        ((10, 10), 0),
        ((11, 10), 0),
        ((11, 10, 5), 0),
        ((3, None), None),
        ((3, None, 5), 5),
    ],
)
def test_how_many_tokens_can_be_generated(arguments: Any, expected: int | None) -> None:
    assert max_tokens_to_generate(*arguments) == expected


# ---------------------------------------------------------------- simple tokenizers
def test_tokenizers_are_what_pipelines_ask_for(folder_of: Folders) -> None:
    found: list[Any] = [
        TextTokenizer(str(folder_of())),
        IdentityPipelineTokenizer("any", thing=1),
        PreTrainedPipelineTokenizer(peer(folder_of())),
    ]
    for tokenizer in found:
        assert isinstance(tokenizer, PipelineTokenizer)
        assert tokenizer.expects_content_wrapping is False
    assert [one.eos for one in found] == [1, 0, 1]
    for simple in found[1:]:
        with pytest.raises(UnsupportedError) as caught:
            asyncio.run(simple.new_context(None))
        assert caught.value.code == "ML163"


def test_simple_tokenizers_encode_and_decode(folder_of: Folders) -> None:
    identity = IdentityPipelineTokenizer()
    assert asyncio.run(identity.encode("a b")) == "a b"
    assert asyncio.run(identity.decode("a b", skip=True)) == "a b"
    oracle = peer(folder_of())
    simple = PreTrainedPipelineTokenizer(oracle)
    for special in (True, False):
        got = asyncio.run(simple.encode("The fox", special))
        assert got.tolist() == oracle.encode("The fox", add_special_tokens=special)
    assert asyncio.run(simple.decode(got, skip_special_tokens=True)) == "The fox"


BAD: list[Callable[[str], object]] = [
    lambda folder: TextTokenizer(5),  # type: ignore[arg-type]
    lambda folder: TextTokenizer(""),
    lambda folder: TextTokenizer(folder, max_length=0),
    lambda folder: TextTokenizer(folder, max_length="9"),  # type: ignore[arg-type]
    lambda folder: TextTokenizer(folder, trust_remote_code="yes"),  # type: ignore[arg-type]
    lambda folder: TextTokenizer(folder, revision=3),  # type: ignore[arg-type]
    lambda folder: TextTokenizer(folder, enable_llama_whitespace_fix=1),  # type: ignore[arg-type]
    lambda folder: PreTrainedPipelineTokenizer(None),
    lambda folder: max_tokens_to_generate(-1, 5),
    lambda folder: asyncio.run(IdentityPipelineTokenizer().encode(5)),  # type: ignore[arg-type]
    lambda folder: asyncio.run(IdentityPipelineTokenizer().encode("a", True)),
    lambda folder: asyncio.run(IdentityPipelineTokenizer().decode(b"a")),  # type: ignore[arg-type]
    *(
        lambda folder, value=value: asyncio.run(TextTokenizer(folder).decode(value))
        for value in (np.array([-1]), np.array([2**40]), np.array([0.5]), np.zeros((2, 2), int))
    ),
    *(
        lambda folder, value=value: asyncio.run(TextTokenizer(folder).encode(value))
        for value in ([-1], [2**40], ["a"], 5, None, b"bytes", [True])
    ),
]


@pytest.mark.parametrize("call", BAD)
def test_wrong_arguments_are_refused(folder_of: Folders, call: Callable[[str], object]) -> None:
    with pytest.raises((InputError, InputTypeError)) as caught:
        call(str(folder_of()))
    assert isinstance(caught.value, MaxlabError)


def test_arguments_for_others_are_named_in_the_log(
    folder_of: Folders, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        TextTokenizer(str(folder_of()), other_flag=1)
    assert "other_flag" in caplog.text
