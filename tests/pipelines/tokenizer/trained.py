"""Small tokenizers, trained here, in folders as models have them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

TEXTS = (
    "The quick brown fox jumps over the lazy dog, and doesn't stop.",
    "user assistant system content tool ipython function weather Boston today",
    "naïve café déjà vu 你好 世界 こんにちは 안녕 🙂 👩‍👩‍👧 emoji",
    "1 2 3 42 {} [] \" ' \\ <|stop|> ### END end.\n\n  indented\ttab",
)
SPECIAL = ("<s>", "</s>", "<unk>", "<|start|>", "<|end|>", "[INST]", "[/INST]", "<image>")

LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start|>' + message['role'] + '\n\n' + message['content'] | trim + "
    "'<|end|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
    "{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\n\n' }}"
    "{% endif %}"
)
CHATML = """{%- if tools %}
    {{- '<|start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last='') %}
{%- for message in messages %}
    {%- if message.role == 'tool' and ns.last != 'tool' %}
        {{- '<|start|>user\\n' + message.content + '<|end|>\\n' }}
    {%- elif message.tool_calls %}
        {{- '<|start|>assistant' }}
        {%- for call in message.tool_calls %}
            {{- '\\n' ~ call.function.name ~ call.function.arguments | tojson }}
        {%- endfor %}
        {{- '<|end|>\\n' }}
    {%- else %}
        {{- '<|start|>' + message.role + '\\n' + message.content + '<|end|>' + '\\n' }}
    {%- endif %}
    {%- set ns.last = message.role %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
            {%- endfor %}
            {{- "][/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {% generation %}{{- " " + message["content"]|trim + eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}
"""
TEMPLATES = {"llama3": LLAMA3, "chatml": CHATML, "mistral": MISTRAL}


def byte_level() -> Any:
    """A byte-level BPE tokenizer, as those of GPT-2 and Llama 3, that puts <s> first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=list(SPECIAL),
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return made


def unigram() -> Any:
    """A Unigram tokenizer with bytes for what it does not know, as Llama 2's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(
        TEXTS[:2],
        trainers.UnigramTrainer(
            vocab_size=120, special_tokens=list(SPECIAL), unk_token="<unk>", show_progress=False
        ),
    )
    pieces = json.loads(trained.to_str())["model"]["vocab"]
    pieces += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    pieces += [["▁The", -3.0], ["▁fox", -3.0]]
    made = Tokenizer(
        models.Unigram([(text, score) for text, score in pieces], unk_id=2, byte_fallback=True)
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.add_special_tokens(list(SPECIAL))
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return made


def word_piece() -> Any:
    """A WordPiece tokenizer, as BERT's, without a special token before texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.WordPiece(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(
        TEXTS,
        trainers.WordPieceTrainer(
            vocab_size=300, special_tokens=list(SPECIAL), show_progress=False
        ),
    )
    return made


KINDS = {"byte_level": byte_level, "unigram": unigram, "word_piece": word_piece}


@cache
def tokenizer_json(kind: str) -> str:
    """The file ``tokenizer.json`` of the tokenizer ``kind``; trained once."""
    return str(KINDS[kind]().to_str())


CONFIG: dict[str, Any] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "clean_up_tokenization_spaces": False,
    "model_max_length": 512,
}


def folder(path: Path, kind: str = "byte_level", **config: Any) -> Path:
    """``path`` with the files of a tokenizer; ``config`` goes into its configuration."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "tokenizer.json").write_text(tokenizer_json(kind), "utf-8")
    given = {name: value for name, value in {**CONFIG, **config}.items() if value is not ...}
    (path / "tokenizer_config.json").write_text(json.dumps(given), "utf-8")
    return path
