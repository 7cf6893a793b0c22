"""Lines of a generated text, with indentation: ``Writer``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Writer:
    """Lines of C with indentation, and the ops they came from."""

    out: list[str] = field(default_factory=list)
    depth: int = 0
    origins: list[tuple[int, str]] = field(default_factory=list)

    def __call__(self, line: str, node: str = "") -> None:
        self.out.append("  " * self.depth + line)
        if node:
            self.origins.append((len(self.out), node))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head {``, the lines written inside of the ``with``, ``}``."""
        self(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self("}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """``{``, the lines written inside of the ``with``, ``}``."""
        self("{")
        self.depth += 1
        yield
        self.depth -= 1
        self("}")

    def lines(self) -> list[tuple[int, int, str]]:
        """The origins with neighbouring lines joined."""
        found: list[tuple[int, int, str]] = []
        for line, node in self.origins:
            if found and found[-1][2] == node and found[-1][1] >= line - 1:
                found[-1] = (found[-1][0], line, node)
            else:
                found.append((line, line, node))
        return found
