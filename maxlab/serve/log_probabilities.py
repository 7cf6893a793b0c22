"""Log probabilities of tokens, as chats and as completions tell them."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from maxlab.interfaces import LogProbabilities


@dataclass(frozen=True)
class TokenProbability:
    """A token with its log probability, and those of the most probable ones at its place.

    Attributes:
        token: The id of the token.
        log_probability: Its log probability; None of the first token of a prompt.
        top: The most probable tokens there, with theirs.
    """

    token: int
    log_probability: float | None
    top: dict[int, float]


def aligned(
    prompt: Sequence[int], tokens: Sequence[int], told: Iterable[LogProbabilities]
) -> list[TokenProbability]:
    """The log probabilities by token.

    Args:
        prompt: The tokens of the prompt, where those are told too; empty otherwise.
        tokens: The tokens of the answer.
        told: What the pipeline told with them, and perhaps with tokens behind them: of each step
            those of one token, or of a whole prompt and one token.
    """
    values = [value for one in told for value in one.token_log_probabilities]
    tops = [top for one in told for top in one.top_log_probabilities]
    given = [*prompt[1:], *tokens]
    found = [TokenProbability(prompt[0], None, {})] if prompt else []
    found += [
        TokenProbability(token, value, top)
        for token, value, top in zip(given, values, tops, strict=False)
    ]
    return found


class TokenTexts:
    """The text and the bytes of single tokens.

    A token may be a part of a character. Its bytes say which; its text stands then as
    ``bytes:\\xe4\\xbd``.

    Args:
        tokenizer: A tokenizer with a ``delegate`` of transformers, or one of transformers.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = getattr(tokenizer, "delegate", tokenizer)
        self._letters = _letters() if _is_byte_level(self._tokenizer) else {}
        self._special = frozenset(getattr(self._tokenizer, "all_special_ids", ()))
        self.bytes_of = lru_cache(1 << 16)(self._bytes_of)

    def _bytes_of(self, token: int) -> bytes:
        """The bytes of a token."""
        named = self._tokenizer.convert_ids_to_tokens(token)
        if named is None:
            return b""
        if len(named) == 6 and named.startswith("<0x"):
            return bytes([int(named[3:5], 16)])
        if self._letters and token not in self._special and set(named) <= set(self._letters):
            return bytes(self._letters[one] for one in named)
        text = self._tokenizer.decode([token], clean_up_tokenization_spaces=False)
        if named.startswith("▁") and not text.startswith(" "):
            text = f" {text}"  # a space that is dropped at the beginning of a text
        return str(text).encode()

    def text_of(self, token: int) -> str:
        """The text of a token.

        Args:
            token: The token.
        """
        found = self.bytes_of(token)
        try:
            return found.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{one:02x}" for one in found)

    # ------------------------------------------------------------ as the API tells them
    def of_chat(self, told: Iterable[TokenProbability], most: int) -> dict[str, Any]:
        """The ``logprobs`` of a choice of a chat.

        Args:
            told: The tokens.
            most: How many of the most probable tokens are told with each.
        """
        return {
            "content": [
                {
                    **self._entry(one.token, one.log_probability or 0.0),
                    "top_logprobs": [
                        self._entry(token, value) for token, value in _best(one.top)[:most]
                    ],
                }
                for one in told
            ],
            "refusal": None,
        }

    def _entry(self, token: int, value: float) -> dict[str, Any]:
        text, data = self.text_of(token), self.bytes_of(token)
        return {"token": text, "logprob": value, "bytes": list(data)}

    def of_completion(
        self, told: Sequence[TokenProbability], most: int, offsets: Offsets
    ) -> dict[str, Any]:
        """The ``logprobs`` of a choice of a completion.

        Args:
            told: The tokens.
            most: How many of the most probable tokens are told with each; the token itself is told
                beside them where it is none of these.
            offsets: Where the tokens begin in the text.
        """

        def tops(one: TokenProbability) -> dict[str, float] | None:
            if one.log_probability is None:
                return None
            best = dict(_best(one.top)[:most])
            found = {self.text_of(token): value for token, value in best.items()}
            found.setdefault(self.text_of(one.token), one.log_probability)
            return found

        return {
            "tokens": [self.text_of(one.token) for one in told],
            "token_logprobs": [one.log_probability for one in told],
            "top_logprobs": [tops(one) for one in told] if most else None,
            # Special tokens are told, and are not in the text.
            "text_offset": [
                offsets.next(b"" if one.token in self._special else self.bytes_of(one.token))
                for one in told
            ],
        }


class Offsets:
    """Where tokens begin in a text, in characters."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._place = 0

    def next(self, data: bytes) -> int:
        """The place of the next token.

        Args:
            data: Its bytes.
        """
        place = self._place
        self._place += len(self._decoder.decode(data))
        return place


def _best(top: dict[int, float]) -> list[tuple[int, float]]:
    return sorted(top.items(), key=lambda one: (-one[1], one[0]))


def _is_byte_level(tokenizer: Any) -> bool:
    """Whether the letters of tokens stand for bytes, as in GPT-2."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return backend is not None and '"type":"ByteLevel"' in _decoder_json(backend)


def _decoder_json(backend: Any) -> str:
    import json

    return json.dumps(json.loads(backend.to_str()).get("decoder"), separators=(",", ":"))


def _letters() -> dict[str, int]:
    """The byte of each letter of byte-level tokens: printable ones are themselves, and the others
    are the letters from U+0100 on, in their order."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    found = {chr(byte): byte for byte in own}
    others = [byte for byte in range(256) if byte not in own]
    return found | {chr(0x100 + place): byte for place, byte in enumerate(others)}


__all__ = ["Offsets", "TokenProbability", "TokenTexts", "aligned"]
