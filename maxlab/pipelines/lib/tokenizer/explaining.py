"""The way of a request before a model sees it: its template, its prompt and its tokens."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.markup import visible
from maxlab.pipelines.lib.tokenizer import packages, sandbox
from maxlab.pipelines.lib.tokenizer.explaining_page import MOST_LINES, page
from maxlab.pipelines.lib.tokenizer.templates import ChatTemplate
from maxlab.tabular import Field, Tabular, aligned

MARKS = ("⟦", "⟧")
"""The marks around a special token in the text of a prompt."""


@dataclass(frozen=True)
class PromptToken:
    """A token of a prompt.

    Args:
        place: Its number in the prompt, from 0.
        id: Its number in the vocabulary.
        piece: How the vocabulary writes it, such as ``"Ġfox"``.
        text: Its text alone, such as ``" fox"``.
        special: Whether it is a special token.
    """

    place: int
    id: int
    piece: str
    text: str
    special: bool


@dataclass(frozen=True)
class PromptExplanation(Tabular):
    """The way of a request to its tokens; a table of them, with what is odd about them.

    ``str()`` of it is a text, and the last value of a cell a page. ``to_csv()`` and
    ``to_dataframe()`` give a row for each token.

    Args:
        template: The chat template that was used; None for a prompt that goes through none.
        prompt: The text that was made into tokens; empty when tokens were given.
        tokens: The tokens.
        warnings: What is odd, a sentence each.
        max_length: The largest number of tokens; None without a limit.
        special_texts: The texts of special tokens.
    """

    template: ChatTemplate | None
    prompt: str
    tokens: tuple[PromptToken, ...]
    warnings: tuple[str, ...]
    max_length: int | None
    special_texts: tuple[str, ...]

    @property
    def ids(self) -> list[int]:
        """The numbers of the tokens."""
        return [token.id for token in self.tokens]

    @property
    def origin(self) -> str:
        """Where the template came from, in words."""
        if self.template is None:
            return "none: the request has a prompt"
        return self.template.origin

    def parts(self) -> list[tuple[str, bool]]:
        """The prompt in parts, each with whether it is a special token."""
        if not self.special_texts:
            return [(self.prompt, False)] if self.prompt else []
        longest_first = sorted(self.special_texts, key=len, reverse=True)
        pattern = "(" + "|".join(map(re.escape, longest_first)) + ")"
        found = re.split(pattern, self.prompt)
        return [(text, n % 2 == 1) for n, text in enumerate(found) if text]

    def marked(self) -> str:
        """The prompt with marks around special tokens."""
        left, right = MARKS
        return "".join(
            f"{left}{text}{right}" if special else text for text, special in self.parts()
        )

    def summary(self) -> str:
        """The number of tokens, in words."""
        special = sum(token.special for token in self.tokens)
        most = "" if self.max_length is None else f" of at most {self.max_length}"
        return f"{len(self.tokens)} tokens{most}, {special} of them special"

    def table(self, count: int | None = MOST_LINES) -> str:
        """The first ``count`` tokens as a table of text; all of them when it is None.

        Args:
            count: How many tokens.
        """
        shown = self.tokens if count is None else self.tokens[: max(count, 0)]
        rows = [
            (str(one.place), str(one.id), one.piece, repr(one.text), "yes" if one.special else "")
            for one in shown
        ]
        lines = aligned([("place", "id", "piece", "text", "special"), *rows], right=(0, 1))
        left = len(self.tokens) - len(shown)
        return visible_lines([*lines, *([f"and {left} more: table(None)"] if left else [])])

    def _heads(self) -> Sequence[str]:
        return ("place", "id", "piece", "text", "special")

    def _records(self) -> Iterable[Sequence[Field]]:
        return [(one.place, one.id, one.piece, one.text, one.special) for one in self.tokens]

    def __str__(self) -> str:
        lines = self.marked().splitlines()
        if len(lines) > MOST_LINES:
            head, tail = lines[: MOST_LINES // 2], lines[-MOST_LINES // 2 :]
            lines = [*head, f"… {len(lines) - len(head) - len(tail)} lines …", *tail]
        return visible_lines(
            [
                f"template: {self.origin}",
                "prompt:",
                *(f"    {line}" for line in lines),
                self.summary(),
                *(f"warning: {one}" for one in self.warnings),
                self.table(),
            ]
        )

    def _repr_html_(self) -> str:
        return page(
            self.origin,
            None if self.template is None else self.template.source,
            self.parts(),
            self.warnings,
            self.summary(),
            [(one.place, one.id, one.piece, one.text, one.special) for one in self.tokens],
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def visible_lines(lines: Iterable[str]) -> str:
    """The lines as one text, without characters that control a terminal."""
    return "\n".join(visible(line) for line in lines)


def explain(
    delegate: Any,
    ids: Sequence[int],
    *,
    prompt: str,
    template: ChatTemplate | None,
    messages: Sequence[Any],
    tools: Any,
    options: Collection[str],
    max_length: int | None,
) -> PromptExplanation:
    """The explanation of a prompt that was made into ``ids``.

    Args:
        delegate: The tokenizer of transformers.
        ids: The tokens.
        prompt: The text that they were made of.
        template: The chat template that made it, if one did.
        messages: The conversation, if there is one.
        tools: The tools of the conversation.
        options: The names of the options for the template.
        max_length: The largest number of tokens.
    """
    special = set(delegate.all_special_ids)
    special |= {one for one, token in delegate.added_tokens_decoder.items() if token.special}
    pieces = delegate.convert_ids_to_tokens(list(ids))
    tokens = tuple(
        PromptToken(place, one, str(piece), str(delegate.decode([one])), one in special)
        for place, (one, piece) in enumerate(zip(ids, pieces, strict=True))
    )
    texts = tuple(str(one) for one in delegate.convert_ids_to_tokens(sorted(special)) if one)
    warnings = [*_about_tokens(delegate, ids, max_length)]
    if template is not None:
        warnings += _about_template(delegate, template, ids, tools, options)
        warnings += _about_messages(messages, prompt, texts)
    return PromptExplanation(template, prompt, tokens, tuple(warnings), max_length, texts)


def _about_tokens(delegate: Any, ids: Sequence[int], max_length: int | None) -> Iterable[str]:
    first, end, unknown = delegate.bos_token_id, delegate.eos_token_id, delegate.unk_token_id
    times = 0
    while first is not None and times < len(ids) and ids[times] == first:
        times += 1
    if times > 1:
        yield (
            f"the prompt begins with {delegate.bos_token} {times} times: models expect it once; "
            "leave it out of the text, or of the template"
        )
    if end is not None and end != first and ids and ids[-1] == end:
        yield f"the prompt ends with {delegate.eos_token}, after which models begin another text"
    if unknown is not None and (count := list(ids).count(unknown)) and unknown not in (first, end):
        yield f"the tokenizer does not know parts of the text: {count} of {delegate.unk_token}"
    if max_length is not None and len(ids) >= max_length:
        more = len(ids) - max_length
        yield (
            f"the prompt has {more} tokens more than max_length = {max_length}, and is refused"
            if more
            else f"the prompt fills max_length = {max_length}: no token can be generated"
        )


def _about_template(
    delegate: Any, template: ChatTemplate, ids: Sequence[int], tools: Any, options: Collection[str]
) -> Iterable[str]:
    environment = sandbox.environment()
    read = packages.jinja2().meta.find_undeclared_variables(environment.parse(template.source))
    if tools and "tools" not in read:
        yield "the template does not read tools: the model is not told of them"
    for name in sorted(set(options) - read - {"add_generation_prompt"}):
        yield f"the template does not read the option {name}"
    first = delegate.bos_token_id
    begins = first is not None and delegate.encode("a")[:1] == [first]
    if begins and list(ids[:1]) != [first]:
        yield (
            f"the template does not write {delegate.bos_token}, with which the tokenizer begins "
            "prompts"
        )


def _about_messages(messages: Sequence[Any], prompt: str, special: Sequence[str]) -> Iterable[str]:
    for n, message in enumerate(messages):
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        for text in (part.get("text") for part in parts):
            if not isinstance(text, str):
                continue
            if text.strip() and text.strip() not in prompt:
                yield f"the prompt does not have the text of messages[{n}] as it stands there"
            if inside := [one for one in special if one in text]:
                yield (
                    f"the text of messages[{n}] has special tokens, {', '.join(inside)}: the model "
                    "takes them for the template's own"
                )


__all__ = ["MARKS", "PromptExplanation", "PromptToken", "explain"]
