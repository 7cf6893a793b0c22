"""Chat templates: which one holds, and the prompt that it makes of a conversation."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from maxlab import files
from maxlab.errors import InputError, MaxlabError, ParseError, shown
from maxlab.interfaces import fields
from maxlab.pipelines.lib.tokenizer import budget, packages, sandbox
from maxlab.pipelines.lib.tokenizer.messages import plain

MOST_SOURCE = 1 << 20
"""The most characters of a template."""
_FILE = "<template>"
_RESERVED = frozenset(("messages", "tools"))
_UNREAD = frozenset(
    [
        "chat_template",
        "continue_final_message",
        "conversation",
        "max_length",
        "padding",
        "return_dict",
        "return_assistant_tokens_mask",
        "return_tensors",
        "tokenize",
        "tokenizer_kwargs",
        "truncation",
    ]
)
"""Arguments of transformers' ``apply_chat_template`` that say how to make tokens."""


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template, and where it came from.

    Args:
        source: The program, in Jinja's language.
        origin: Where it came from, such as a file.

    Example:
        >>> template = ChatTemplate("{% for m in messages %}[{{ m.content }}]{% endfor %}", "here")
        >>> template.render([{"role": "user", "content": "a"}])
        '[a]'
    """

    source: str
    origin: str

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[Any] | None = None,
        options: Mapping[str, Any] | None = None,
        special_tokens: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt that the template makes.

        Args:
            messages: The conversation.
            tools: The tools that the model may use.
            options: Values by the names under which the template reads them;
                ``add_generation_prompt`` is True unless it is among them.
            special_tokens: Texts of special tokens, such as ``bos_token``; options go before them.

        Raises:
            ParseError: ML155, it is no template.
            InputError: ML156, it failed or refused the conversation; ML157, it reached for what
                templates must not have; ML158, it used more than it may; ML159, a value that no
                template may see.
            MissingPackageError: ML979, jinja2 is not installed.
        """
        values = {
            "add_generation_prompt": True,
            **plain(dict(special_tokens or {}), "special tokens"),
            **_options(options),
            "messages": plain(messages, "messages"),
            "tools": None if tools is None else plain(tools, "tools"),
        }
        values.setdefault("documents", None)
        template = self._compiled()
        with budget.limited():
            try:
                parts, size = [], 0
                for part in template.generate(values):
                    size += len(part)
                    if size > budget.MOST_CHARACTERS:
                        budget.characters(size)
                    budget.spend(len(part))
                    parts.append(part)
            except MaxlabError:
                raise
            except Exception as error:
                raise self._failed(error) from error
        return "".join(parts)

    def _compiled(self) -> Any:
        try:
            return _compile(self.source)
        except MaxlabError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> MaxlabError:
        """The error of the template that ``error`` stands for, with the line where it was."""
        jinja = packages.jinja2()
        line = getattr(error, "lineno", None) or _line(error)
        where = f"the chat template of {self.origin}" + (f", line {line}" if line else "")
        text = self.source.splitlines()[line - 1].strip() if line else ""
        why = [f"the line is {shown(text)}"] if text else []
        said = shown(str(error), 200)[1:-1] if str(error) else type(error).__name__
        if isinstance(error, jinja.TemplateSyntaxError):
            return ParseError(
                "ML155", f"{where}: {said}", why=why, fix="give a template of Jinja's language"
            )
        if isinstance(error, sandbox.TemplateRefusalError):
            return InputError(
                "ML156",
                f"{where} refuses the conversation: {said}",
                why=why,
                fix="change the messages to what the model's template takes",
            )
        if isinstance(error, jinja.sandbox.SecurityError):
            return InputError(
                "ML157",
                f"{where} reaches for what templates must not have: {said}",
                why=why,
                fix="do not use this model's template: give another one with chat_template",
            )
        if isinstance(error, (budget.LimitError, RecursionError, MemoryError, OverflowError)):
            return InputError(
                "ML158",
                f"{where} uses more than it may: {said}",
                why=why,
                fix="shorten the conversation, or give another template with chat_template",
            )
        return InputError(
            "ML156",
            f"{where} failed: {type(error).__name__}: {said}",
            why=why,
            fix="see which keys of messages the template reads, with explain()",
        )


def _line(error: Exception) -> int | None:
    """The last line of the template that ``error`` came through."""
    found, at = None, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == _FILE:
            found = at.tb_lineno
        at = at.tb_next
    return found


@lru_cache(maxsize=64)
def _compile(source: str) -> Any:
    environment = sandbox.environment()
    if len(source) > MOST_SOURCE:
        raise budget.LimitError(f"a template of {len(source):,} characters, above {MOST_SOURCE:,}")
    code = environment.compile(sandbox.count_loops(environment.parse(source)))
    return environment.template_class.from_code(environment, code, environment.make_globals(None))


def _options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options as plain values.

    Raises:
        InputError: ML159, they have a name that is taken, or one that nothing reads.
    """
    found: dict[str, Any] = plain(dict(options or {}), "chat_template_options")
    for name in found:
        if name in _RESERVED or name in _UNREAD:
            reason = (
                "the template gets it from the request"
                if name in _RESERVED
                else "it is no value for the template, and nothing else reads it here"
            )
            raise InputError(
                "ML159",
                f"chat_template_options has the key {name!r}: {reason}",
                fix=f"leave {name} out of chat_template_options",
            )
    return found


def custom(value: str | os.PathLike[str], origin: str) -> ChatTemplate:
    """The template that a user gives instead of the model's own.

    Args:
        value: The template; or JSON, as of ``tokenizer_config.json``, whose ``chat_template`` it
            is; or the path of a file with either.
        origin: Where it came from.

    Raises:
        ParseError: ML155, it is empty, or JSON without a template.
        InputTypeError: ML980, it is neither a text nor a path.

    Example:
        >>> custom('{"chat_template": "{{ messages }}"}', "here").source
        '{{ messages }}'
    """
    if isinstance(value, os.PathLike):
        origin = str(value)
        value = files.read_text(value, "the chat template", most=4 * MOST_SOURCE)
    fields.text("chat_template", value)
    text = value
    if value.lstrip()[:2] not in ("{{", "{%", "{#") and value.lstrip().startswith("{"):
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            document = None  # a template may begin with a brace of its own
        if isinstance(document, dict):
            found = document.get("chat_template")
            if not isinstance(found, str):
                raise ParseError(
                    "ML155",
                    f"{origin}: a JSON object with a text under 'chat_template' expected ≠ "
                    f"{shown(found)} under it",
                    fix='write the template itself, or {"chat_template": "..."}',
                )
            text = found
    if not text.strip():
        raise ParseError("ML155", f"{origin}: a chat template expected ≠ an empty text given")
    return ChatTemplate(text, origin)


def of_model(templates: Any, tools: Any, origin: str) -> ChatTemplate:
    """The template of a model that holds for a conversation.

    Args:
        templates: What the model's files have: a text, or texts by name.
        tools: The tools of the conversation; with some, the template ``tool_use`` goes first.
        origin: Where the templates came from.

    Raises:
        InputError: ML154, there is no template, or none of the right name.

    Example:
        >>> of_model({"default": "a", "tool_use": "b"}, [{}], "here").source
        'b'
    """
    if isinstance(templates, str) and templates:
        return ChatTemplate(templates, origin)
    if isinstance(templates, Mapping) and templates:
        for name in (*(("tool_use",) if tools is not None else ()), "default"):
            if isinstance(templates.get(name), str):
                return ChatTemplate(templates[name], f"{origin}, named {name!r}")
        raise InputError(
            "ML154",
            f"{origin}: a chat template named 'default' expected ≠ {shown(sorted(templates))} "
            "found",
            fix="give one with chat_template",
        )
    raise InputError(
        "ML154",
        f"{origin} has no chat template, which messages need",
        fix="give a prompt instead of messages, or a template with chat_template",
    )


__all__ = ["MOST_SOURCE", "ChatTemplate", "custom", "of_model"]
