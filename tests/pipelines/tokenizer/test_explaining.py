"""Explanations of prompts: the template, the tokens and what is odd, in text and as a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from maxlab.errors import InputError, InputTypeError, MaxlabError
from maxlab.interfaces import RequestID, TextGenerationRequest
from maxlab.pipelines.lib.tokenizer import PromptExplanation, TextTokenizer
from tests.pipelines.tokenizer import trained

pytest.importorskip("transformers", reason="transformers not installed")

Folders = Callable[..., Path]
HELLO: Any = [{"role": "user", "content": "The <fox> & 你好"}]
TOOL: Any = {"type": "function", "function": {"name": "w", "description": "", "parameters": {}}}


def explained(folder: Path, request: Any, **given: Any) -> PromptExplanation:
    """The explanation of a request to a new tokenizer of a folder."""
    return TextTokenizer(str(folder)).explain(request, **given)


@pytest.mark.parametrize("kind", trained.KINDS)
@pytest.mark.parametrize("template", trained.TEMPLATES)
def test_tokens_are_those_of_the_context(folder_of: Folders, kind: str, template: str) -> None:
    tokenizer = TextTokenizer(str(folder_of(kind, template)))
    for given in ({"messages": HELLO}, {"prompt": "The fox"}, {"prompt": [5, 6]}):
        request = TextGenerationRequest(RequestID("a"), "m", **given)
        context = asyncio.run(tokenizer.new_context(request))
        found = tokenizer.explain(request)
        assert found.ids == context.prompt_tokens.tolist()
        assert "".join(text for text, _ in found.parts()) == found.prompt
        assert [row[1] for row in found._records()] == found.ids
    assert (
        tokenizer.explain(HELLO).ids
        == asyncio.run(
            tokenizer.new_context(TextGenerationRequest(RequestID("b"), "m", messages=HELLO))
        ).prompt_tokens.tolist()
    )


def test_the_text_says_where_the_template_is_from_and_marks_special_tokens(
    folder_of: Folders,
) -> None:
    folder = folder_of("byte_level", "llama3")
    text = str(explained(folder, HELLO))
    assert f"template: {folder / 'tokenizer_config.json'}" in text
    assert "⟦<s>⟧⟦<|start|>⟧user\n" in text
    assert "The <fox> & 你好⟦<|end|>⟧" in text
    assert "' fox'" in str(explained(folder, "The fox"))
    assert "template: none" in str(explained(folder, "The fox"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat_template.jinja", "{{ messages[0].content }}"),
        ("argument", "{{ messages[0].content }}"),
    ],
)
def test_the_origin_is_the_file_that_was_used(tmp_path: Path, name: str, text: str) -> None:
    folder = trained.folder(tmp_path)
    if name == "argument":
        tokenizer = TextTokenizer(str(folder), chat_template=text)
        assert tokenizer.explain(HELLO).origin == "the argument chat_template"
        return
    (folder / name).write_text(text)
    assert explained(folder, HELLO).origin == str(folder / name)


WARNINGS: list[tuple[str, str, Any, dict[str, Any], str]] = [
    ("two begin", "{{ bos_token }}{{ bos_token }}{{ messages[0].content }}", HELLO, {}, "2 times"),
    ("two begin in a prompt", "", "<s>The fox", {}, "<s> 2 times"),
    ("no begin", "{{ messages[0].content }}", HELLO, {}, "does not write <s>"),
    ("an end", "{{ bos_token }}{{ messages[0].content }}</s>", HELLO, {}, "ends with </s>"),
    ("tools", "{{ bos_token }}{{ messages[0].content }}", HELLO, {"tools": [TOOL]}, "tools"),
    (
        "options",
        "{{ bos_token }}{{ messages[0].content }}",
        HELLO,
        {"chat_template_options": {"enable_thinking": True}},
        "option enable_thinking",
    ),
    ("left out", "{{ bos_token }}x", HELLO, {}, "does not have the text of messages[0]"),
    (
        "special tokens of a user",
        "{{ bos_token }}{{ messages[0].content }}",
        [{"role": "user", "content": "a<|end|>b"}],
        {},
        "has special tokens, <|end|>",
    ),
    ("too long", "", [5] * 600, {}, "88 tokens more"),
    ("full", "", [5] * 512, {}, "no token can be generated"),
]


@pytest.mark.parametrize("row", WARNINGS, ids=[row[0] for row in WARNINGS])
def test_what_is_odd_is_said(
    tmp_path: Path, row: tuple[str, str, Any, dict[str, Any], str]
) -> None:
    _, template, given, more, expected = row
    folder = trained.folder(tmp_path, chat_template=template or ...)
    if isinstance(given, list) and isinstance(given[0], int):
        given = TextGenerationRequest(RequestID("a"), "m", prompt=given)
    found = explained(folder, given, **more)
    assert [one for one in found.warnings if expected in one], found.warnings
    assert len(found.warnings) == 1
    assert f"warning: {found.warnings[0]}" in str(found)


@pytest.mark.parametrize("template", trained.TEMPLATES)
def test_what_is_common_is_not_odd(folder_of: Folders, template: str) -> None:
    found = explained(folder_of("byte_level", template), HELLO)
    wanted = ["does not write <s>"] if template == "chatml" else []
    assert len(found.warnings) == len(wanted)
    assert all(part in one for part, one in zip(wanted, found.warnings, strict=True))


def test_unknown_parts_are_counted(folder_of: Folders) -> None:
    found = explained(folder_of("word_piece"), "The 犬 猫")
    assert any("2 of <unk>" in one for one in found.warnings)


class Balanced(HTMLParser):
    """Reads a page, and keeps its elements and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.marks: list[str] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag == "mark":
            self.marks.append("")
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["mark"]:
            self.marks[-1] += data
        self.text += data


def test_the_page_is_whole_whatever_is_in_the_prompt(folder_of: Folders) -> None:
    hostile = "</pre><script>alert(1)</script>\x1b[31m\0 <mark>"
    found = explained(folder_of("byte_level", "chatml"), [{"role": "user", "content": hostile}])
    page = Balanced(found._repr_html_())
    assert "<script>alert(1)</script>" in page.text
    assert page.marks[:2] == ["<|start|>", "<|end|>"]
    assert "script" not in page.open
    assert not {"\x1b", "\0"} & set(found._repr_html_() + str(found))


def test_long_prompts_are_folded_and_cut(folder_of: Folders) -> None:
    long = [{"role": "user", "content": "The fox\n" * 3000}]
    found = explained(folder_of("byte_level", "llama3"), long)
    page = found._repr_html_()
    assert "<summary>the prompt, 3" in page
    assert page.count("<tr>") == 2001
    assert "more: table(None)" in page
    assert "lines …" in str(found)
    assert len(str(found).splitlines()) < 120
    assert len(found.table(None).splitlines()) == len(found.tokens) + 1
    assert (
        "<summary>the prompt"
        not in explained(folder_of("byte_level", "llama3"), HELLO)._repr_html_()
    )


def test_what_cannot_be_explained_is_refused(folder_of: Folders) -> None:
    request = TextGenerationRequest(RequestID("a"), "m", prompt="x")
    bad: list[tuple[Any, dict[str, Any]]] = [
        (5, {}),
        (None, {}),
        (request, {"tools": [TOOL]}),
        ("x", {"tools": [TOOL]}),
        (TextGenerationRequest(RequestID("a"), "m", prompt="x", images=[b""]), {}),
        ([], {}),
    ]
    for given, more in bad:
        with pytest.raises((InputError, InputTypeError)) as caught:
            explained(folder_of(), given, **more)
        assert isinstance(caught.value, MaxlabError)
