"""A text generation as a list: what `TextContext` must do, in as few words as possible."""

from __future__ import annotations


class RefusedError(Exception):
    """The context must refuse this."""


class Model:
    """Tokens in a list; `start`, `active`, `told` and `tellable` are places in it."""

    def __init__(
        self, prompt: list[int], limit: int, least: int, ends: set[int], seqs: list[list[int]]
    ) -> None:
        self.tokens, self.prompt = list(prompt), len(prompt)
        self.limit, self.least, self.ends, self.seqs = limit, least, ends, seqs
        self.start, self.active = 0, len(prompt)
        self.told = self.tellable = self.encode = len(prompt)
        self.status = "active"
        self.probabilities: dict[int, float] = {}

    def take(self, token: int, probability: float | None) -> bool:
        if len(self.tokens) >= self.limit:
            self.status = "maximum_length"
            return False
        self.tokens.append(token)
        new = self.tokens[self.prompt :]
        ended = token in self.ends or any(new[-len(seq) :] == seq for seq in self.seqs)
        if ended and len(new) > self.least:
            self.status = "end_of_sequence"
            return True
        if probability is not None:
            self.probabilities[len(self.tokens) - 1] = probability
        self.tellable = len(self.tokens)
        if len(self.tokens) >= self.limit:
            self.status = "maximum_length"
        return True

    def update(self, token: int, probability: float | None = None) -> None:
        if self.status != "active":
            raise RefusedError
        if self.active < len(self.tokens) or self.take(token, probability):
            self.start, self.active = self.active, len(self.tokens)

    def jump(self, token: int) -> None:
        if self.status != "active" or self.active < len(self.tokens):
            raise RefusedError
        self.take(token, None)
        self.active = len(self.tokens)

    def chunk(self, size: int) -> None:
        if not self.start < self.start + size <= len(self.tokens):
            raise RefusedError
        self.active = self.start + size

    def reset(self) -> None:
        self.start, self.active, self.encode = 0, len(self.tokens), len(self.tokens)

    def rollback(self, count: int) -> None:
        end = len(self.tokens) - count
        if end < max(self.told, self.prompt):
            raise RefusedError
        del self.tokens[end:]
        self.status = "active"
        self.start = min(self.start, end - 1)
        self.active, self.encode = min(self.active, end), min(self.encode, end)
        self.tellable = min(self.tellable, end)
        self.probabilities = {k: v for k, v in self.probabilities.items() if k < end}

    def tell(self) -> tuple[list[int], list[float]]:
        places = range(self.told, self.tellable)
        self.told = self.tellable
        found = [self.probabilities.pop(place, None) for place in places]
        return [self.tokens[place] for place in places], [p for p in found if p is not None]
