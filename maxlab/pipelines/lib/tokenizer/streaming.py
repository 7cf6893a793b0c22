"""The text of tokens as they come: no broken characters, and nothing behind a text that ends it.

A token may hold a part of a character, and its text may depend on the token before it. So the new
text is what the last tokens give together, less what they gave before; characters that are not
complete wait. Texts that end the generation may begin in one token and end in another: what may be
the beginning of one waits too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab.interfaces import fields

_BROKEN = "\ufffd"
_MOST_WAITING = 3
"""The most bytes of a character that can be there while it is not complete."""
_CONTEXT = 8
"""How many tokens of the prompt are looked at for the text of the first token."""
_LONG, _TOO_LONG = 32, 256
"""From how many tokens without a complete end on a place to cut them is looked for, and made."""
_TOKENS = fields.listed(fields.integer(0, fields.INT32), kinds=(Sequence,))


def _byte_tokens(tokenizer: Any) -> dict[int, int]:
    """The tokens that stand for a byte each, as ``<0x80>``, with it; empty where there are none."""
    ids, names = (
        getattr(tokenizer, f"convert_{name}", None) for name in ("tokens_to_ids", "ids_to_tokens")
    )
    if ids is None or names is None:
        return {}
    known = ids("<0x80>")  # without a token for what is unknown, it is None
    if known is None or names(known) != "<0x80>":
        return {}
    found = {ids(f"<0x{byte:02X}>"): byte for byte in range(256)}
    return {one: byte for one, byte in found.items() if names(one) == f"<0x{byte:02X}>"}


class StopFinder:
    """Gives the text before the first of the texts that end it; what may begin one waits.

    Args:
        stops: The texts.

    Example:
        >>> finder = StopFinder(["END"])
        >>> finder.push("an EN"), finder.push("d E"), finder.push("NDING"), finder.stopped
        ('an ', 'ENd ', '', 'END')
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        self._waiting = ""
        self._stopped: str | None = None

    @property
    def stopped(self) -> str | None:
        """The text that ended it; None while there was none."""
        return self._stopped

    def push(self, piece: str) -> str:
        """The part of the text so far that can be given: it is neither behind a stop nor in one.

        Args:
            piece: More text.
        """
        if self._stopped is not None:
            return ""
        text = self._waiting + piece
        ends = [
            (place + len(stop), place, stop)
            for stop in self._stops
            if (place := text.find(stop)) >= 0
        ]
        if ends:
            _, place, self._stopped = min(ends)
            self._waiting = ""
            return text[:place]
        held = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(text)), held, -1):
                if text.endswith(stop[:size]):
                    held = size
                    break
        self._waiting = text[len(text) - held :]
        return text[: len(text) - held]

    def finish(self) -> str:
        """The text that was waiting for more."""
        rest, self._waiting = self._waiting, ""
        return rest


class IncrementalDecoder:
    """Gives the text of tokens piece by piece; together the pieces are the text of all tokens.

    A piece never ends inside of a character. Bytes that are no character become ``�``.

    Args:
        tokenizer: A `TextTokenizer`, or a tokenizer of transformers.
        context: The tokens before the first one, such as the prompt's, whose text is not given;
            with them a space at the beginning of the first token is kept.
        stop: Texts that end it: the text before the first one that is complete is given, and
            nothing after it.
        skip_special_tokens: Whether special tokens have no text.
        min_tokens: The number of tokens before which no text ends it.

    Raises:
        InputTypeError, InputError: An argument of another type, an empty text in ``stop``, or a
            negative number.

    Example:
        >>> class Letters:
        ...     all_special_ids = ()
        ...     def decode(self, ids, **options):
        ...         return bytes(ids).decode("utf-8", "replace")
        >>> decoder = IncrementalDecoder(Letters(), stop=["END"])
        >>> [decoder.push(byte) for byte in "ü E ENDE".encode()]
        ['', 'ü', ' ', '', 'E ', '', '', '', '']
        >>> decoder.stopped
        'END'
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        context: Sequence[int] = (),
        stop: Sequence[str] = (),
        skip_special_tokens: bool = True,
        min_tokens: int = 0,
    ) -> None:
        _TOKENS("context", [int(one) for one in context])
        fields.listed(fields.word, kinds=(list, tuple))("stop", stop)
        fields.flag("skip_special_tokens", skip_special_tokens)
        fields.integer(0)("min_tokens", min_tokens)
        self._free = min_tokens if stop else 0
        self._tokenizer = getattr(tokenizer, "delegate", tokenizer)
        self._skip = skip_special_tokens
        self._special = frozenset(self._tokenizer.all_special_ids) if skip_special_tokens else ()
        self._finder = StopFinder(stop)
        self._bytes = _byte_tokens(self._tokenizer)
        seen = [int(one) for one in context if one not in self._special]
        first = max(len(seen) - _CONTEXT, 0)
        while first and seen[first] in self._bytes:  # a run of bytes is decoded as one
            first -= 1
        self._ids = seen[first:]
        self._read = len(self._ids)
        self._before = self._decode(self._ids)
        self._given = 0
        self._finished = False

    @property
    def stopped(self) -> str | None:
        """The text of ``stop`` that ended it; None while there was none."""
        return self._finder.stopped

    def push(self, tokens: int | Sequence[int]) -> str:
        """The text that more tokens complete; empty while a character or a stop may be open.

        Args:
            tokens: A token, or several.

        Raises:
            InputTypeError, InputError: One is no token; or `finish` was called before.
        """
        given: Any = tokens if isinstance(tokens, Sequence) else [tokens]
        _TOKENS("tokens", given)
        if self._finished:
            raise fields.contradiction(
                "push() after finish()", "make an IncrementalDecoder for each text"
            )
        if self.stopped is not None:
            return ""
        free, bound = given[: self._free], given[self._free :]
        self._free -= len(free)
        text = self._text(free) if free else ""
        return text + self._finder.push(self._text(bound)) if bound else text

    def finish(self) -> str:
        """The text that was waiting for more tokens; afterwards none are taken."""
        if self._finished or self.stopped is not None:
            self._finished = True
            return ""
        self._finished = True
        rest = self._finder.push(self._new(len(self._ids))[self._given :])
        return rest + self._finder.finish()

    # ------------------------------------------------------------ characters
    def _text(self, tokens: Sequence[int]) -> str:
        """The text that more tokens complete, whether it ends the generation or not."""
        self._ids += [int(one) for one in tokens if one not in self._special]
        return self._complete()

    def _decode(self, ids: list[int]) -> str:
        options = {
            "skip_special_tokens": self._skip,
            "clean_up_tokenization_spaces": False,
        }
        return str(self._tokenizer.decode(ids, **options)) if ids else ""

    def _new(self, end: int) -> str:
        """The text of the tokens before ``end`` and behind those whose text was given."""
        text = self._decode(self._ids[:end])
        if text.startswith(self._before):
            return text[len(self._before) :]
        # Bytes that are no character can spoil the text of those before them.
        return self._decode(self._ids[self._read : end])

    def _end(self) -> int:
        """How many tokens there are without the bytes of a character that is not complete."""
        start = len(self._ids)
        while start > self._read and self._ids[start - 1] in self._bytes:
            start -= 1
        run = bytes(self._bytes[one] for one in self._ids[start:])
        try:
            run.decode()
        except UnicodeDecodeError as error:
            if error.end == len(run) and error.reason == "unexpected end of data":
                return start + error.start
        return len(self._ids)

    def _complete(self) -> str:
        """The new text that is complete and was not given; it counts as given from now on."""
        end = self._end()
        new = self._new(end)
        # Where bytes are no tokens of their own, an incomplete character shows in the text alone.
        broken = 0 if self._bytes else len(new) - len(new.rstrip(_BROKEN))
        size = len(new) - min(broken, _MOST_WAITING)
        piece, self._given = new[self._given : size], max(size, self._given)
        if new and not broken:
            self._move(self._read, end - self._read, 0)
        elif len(self._ids) - self._read > _LONG:
            self._cut(new)
        return piece

    def _move(self, first: int, read: int, given: int) -> None:
        """Forgets the tokens before ``first``; of the others, ``read`` are read."""
        self._ids = self._ids[first:]
        self._read, self._given = read, given
        self._before = self._decode(self._ids[:read])

    def _cut(self, new: str) -> None:
        """Forgets tokens of a long text without a complete end, where that changes no text."""
        for place in range(len(self._ids) - 1, len(self._ids) - 2 * _MOST_WAITING, -1):
            head = self._decode(self._ids[self._read : place])
            tail = self._decode(self._ids[place:])
            if head + tail == new and self._given >= len(head):
                self._move(place - 1, 1, self._given - len(head))
                return
        if len(self._ids) - self._read > _TOO_LONG:
            self._move(len(self._ids) - 1, 1, 0)


__all__ = ["IncrementalDecoder", "StopFinder"]
