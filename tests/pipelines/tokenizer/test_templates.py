"""Chat templates give the prompts that transformers gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maxlab.errors import InputError, InputTypeError, MaxlabError, ParseError
from maxlab.pipelines.lib.tokenizer import PreTrainedPipelineTokenizer, TextTokenizer
from tests.pipelines.tokenizer import trained

pytest.importorskip("transformers", reason="transformers not installed")

USER: dict[str, Any] = {"role": "user", "content": 'What is the weather in <Boston> & "Paris"?'}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one": [USER],
    "system": [{"role": "system", "content": "Be brief. "}, USER],
    "turns": [
        USER,
        {"role": "assistant", "content": " Sunny. "},
        {"role": "user", "content": "你好"},
    ],
    "extra keys": [{**USER, "name": "a", "date": None}],
}
CALLS: list[dict[str, Any]] = [
    USER,
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": "w", "arguments": {"a": "ü"}}}],
    },
    {"role": "tool", "content": "18 °C", "tool_call_id": "1"},
]
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a <city>",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
OPTIONS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "no answer": {"add_generation_prompt": False},
    "thinking": {"enable_thinking": False, "add_generation_prompt": True},
    "bos": {"bos_token": "<B>"},
}


def expected(folder: Path, messages: Any, tools: Any, options: dict[str, Any] | None) -> str:
    """The prompt of transformers."""
    from transformers import AutoTokenizer

    given: dict[str, Any] = {"add_generation_prompt": True, **(options or {})}
    peer: Any = AutoTokenizer.from_pretrained(str(folder))
    return str(peer.apply_chat_template(messages, tools=tools, tokenize=False, **given))


@pytest.mark.parametrize("template", trained.TEMPLATES)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("tools", [None, TOOLS], ids=["no tools", "tools"])
def test_prompts_are_those_of_transformers(
    folder_of: Callable[..., Path], template: str, options: str, tools: Any
) -> None:
    folder = folder_of("byte_level", template)
    tokenizer: Any = TextTokenizer(str(folder))
    conversations = CONVERSATIONS if template != "chatml" else {**CONVERSATIONS, "calls": CALLS}
    for name, messages in conversations.items():
        got = tokenizer.apply_chat_template(messages, tools, OPTIONS[options])
        assert got == expected(folder, messages, tools, OPTIONS[options]), name


def test_a_pretrained_tokenizer_applies_its_template(folder_of: Callable[..., Path]) -> None:
    from transformers import AutoTokenizer

    folder = folder_of("byte_level", "llama3")
    tokenizer = PreTrainedPipelineTokenizer(AutoTokenizer.from_pretrained(str(folder)))
    got = tokenizer.apply_chat_template([{"role": "user", "content": "a"}])
    assert got == expected(folder, [{"role": "user", "content": "a"}], None, None)


def test_parts_are_joined_a_line_each(folder_of: Callable[..., Path]) -> None:
    tokenizer: Any = TextTokenizer(str(folder_of("byte_level", "llama3")))
    parts = [{"type": "text", "text": "a"}, {"type": "text", "content": "b"}]
    assert tokenizer.apply_chat_template(
        [{"role": "user", "content": parts}], None
    ) == tokenizer.apply_chat_template([{"role": "user", "content": "a\nb"}], None)


def test_messages_are_left_as_they_are(folder_of: Callable[..., Path]) -> None:
    tokenizer: Any = TextTokenizer(str(folder_of("byte_level", "chatml")))
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    before = json.dumps(messages)
    tokenizer.apply_chat_template(messages, TOOLS)
    assert json.dumps(messages) == before


@pytest.mark.parametrize("form", ["text", "json", "file", "json file", "config"])
def test_a_template_of_ones_own_goes_before_the_models(
    folder_of: Callable[..., Path], tmp_path: Path, form: str
) -> None:
    template = "{{ messages[0].content }}!"
    document = json.dumps({"chat_template": template, "bos_token": "x"})
    path = tmp_path / "template"
    path.write_text(document if form == "json file" else template, "utf-8")

    class Config:
        """A configuration with a template."""

        def retrieve_chat_template(self) -> str:
            return template

    given: dict[str, dict[str, Any]] = {
        "text": {"chat_template": template},
        "json": {"chat_template": document},
        "file": {"chat_template": path},
        "json file": {"chat_template": path},
        "config": {"pipeline_config": Config()},
    }
    tokenizer: Any = TextTokenizer(str(folder_of("byte_level", "chatml")), **given[form])
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a"}], None) == "a!"


def test_a_template_for_tools_holds_with_tools(tmp_path: Path) -> None:
    templates = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    tokenizer: Any = TextTokenizer(str(trained.folder(tmp_path, chat_template=templates)))
    assert tokenizer.apply_chat_template([USER], None) == "d"
    assert tokenizer.apply_chat_template([USER], TOOLS) == "t"


@pytest.mark.parametrize(
    ("templates", "chat_template", "code", "kind"),
    [
        (..., None, "ML154", InputError),
        ([{"name": "other", "template": "x"}], None, "ML154", InputError),
        (..., "", "ML155", ParseError),
        (..., '{"a": 1}', "ML155", ParseError),
        (..., '{"chat_template": ["x"]}', "ML155", ParseError),
        (..., 5, "ML980", InputTypeError),
    ],
)
def test_a_template_that_is_not_there_is_named(
    tmp_path: Path, templates: Any, chat_template: Any, code: str, kind: type[MaxlabError]
) -> None:
    folder = trained.folder(tmp_path, chat_template=templates)

    def prompt() -> str:
        tokenizer: Any = TextTokenizer(str(folder), chat_template=chat_template)
        return str(tokenizer.apply_chat_template([USER], None))

    with pytest.raises(kind) as caught:
        prompt()
    assert caught.value.code == code


BAD_MESSAGES: list[Any] = [
    [],
    None,
    "text",
    [None],
    [{"content": "a"}],
    [{"role": 1, "content": "a"}],
    [{"role": "user", "content": 5}],
    [{"role": "user", "content": ["a"]}],
    [{"role": "user", "content": [{"type": "image"}]}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "user", "content": [{"type": "audio", "text": "a"}]}],
    [{"role": "user", "content": "a", "extra": object()}],
    [{"role": "user", "content": "a", "extra": {1: 2}}],
]


@pytest.mark.parametrize("messages", BAD_MESSAGES, ids=repr)
def test_messages_that_no_template_takes_are_refused(
    folder_of: Callable[..., Path], messages: Any
) -> None:
    tokenizer: Any = TextTokenizer(str(folder_of("byte_level", "chatml")))
    with pytest.raises(InputError) as caught:
        tokenizer.apply_chat_template(messages, None)
    assert caught.value.code == "ML159"


@pytest.mark.parametrize("name", ["messages", "tools", "tokenize", "continue_final_message"])
def test_options_that_nothing_reads_are_refused(folder_of: Callable[..., Path], name: str) -> None:
    tokenizer: Any = TextTokenizer(str(folder_of("byte_level", "chatml")))
    with pytest.raises(InputError, match=name):
        tokenizer.apply_chat_template([USER], None, {name: True})
