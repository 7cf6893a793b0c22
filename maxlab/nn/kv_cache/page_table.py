"""The pages of a cache and the requests that have them, at one moment: table, text and picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from maxlab.nn.kv_cache import page_table_showing
from maxlab.nn.kv_cache.block_manager import BlockManager
from maxlab.nn.kv_cache.metrics import KVCacheMetrics
from maxlab.tabular import Field, Tabular, aligned

STATES = {
    "shared": "a prefix of several requests",
    "prefix": "a full page of one request, which others may find",
    "own": "a page of one request, which it writes into",
    "kept": "a prefix without a request, evicted when no page is empty",
    "empty": "holds nothing",
    "host": "a prefix that was evicted and lies on the host",
}
"""The states of a page, and what they mean."""


@dataclass(frozen=True)
class Page:
    """A page of a cache.

    Attributes:
        replica: The number of its replica.
        number: Its number, on the devices or, in the state ``"host"``, on the host.
        state: One of `STATES`.
        requests: The requests that have it.
        prefix: The start of the hash of its prefix; empty where it keeps none.
        evicted: How often its prefix gave way to others.
    """

    replica: int
    number: int
    state: str
    requests: tuple[str, ...]
    prefix: str
    evicted: int


@dataclass(frozen=True)
class Row:
    """The pages of a request.

    Attributes:
        request: Its id.
        replica: The number of its replica.
        start: The tokens that were in the cache when pages were last reserved.
        length: The tokens that the reserved pages are for.
        pages: The numbers of its pages, in the order of its tokens.
    """

    request: str
    replica: int
    start: int
    length: int
    pages: tuple[int, ...]


class PageTable(Tabular):
    """The pages of a cache and the requests that have them; `PagedKVCacheManager.page_table`.

    As the last value of a cell it is a picture: a row for each request, a square for each of its
    pages. Printed, it is the same in words. ``to_dataframe()`` has a row for each page.

    Args:
        replicas: The pages of each replica.
        page_size: The number of tokens of a page.

    Attributes:
        pages: All pages, those on the host that hold a prefix included.
        rows: The requests.
        page_size: As above.
        metrics: The counters at that moment.
    """

    def __init__(self, replicas: Sequence[BlockManager], page_size: int) -> None:
        self.page_size = page_size
        self.metrics = sum((one.metrics for one in replicas), KVCacheMetrics())
        self.pages: list[Page] = []
        self.rows: list[Row] = []
        for number, blocks in enumerate(replicas):
            self._add(number, blocks)

    def _add(self, replica: int, blocks: BlockManager) -> None:
        owners: dict[int, list[str]] = {}
        for request_id, claimed in blocks.claimed.items():
            name = str(request_id)
            self.rows.append(
                Row(name, replica, claimed.start, claimed.length, tuple(claimed.pages))
            )
            for page in claimed.pages:
                owners.setdefault(page, []).append(name)
        pool = blocks.pool
        for page in range(pool.count):
            digest, users = pool.hashes[page], tuple(owners.get(page, ()))
            if users:
                state = "shared" if len(users) > 1 else "own" if digest is None else "prefix"
            else:
                state = "empty" if digest is None else "kept"
            self.pages.append(Page(replica, page, state, users, _short(digest), pool.evicted[page]))
        for digest, page in blocks.host.hashes().items():
            self.pages.append(Page(replica, page, "host", (), _short(digest), 0))

    def count(self, state: str) -> int:
        """The number of pages in a state, one of `STATES`."""
        return sum(page.state == state for page in self.pages)

    def title(self) -> str:
        """How many pages there are and have users, in a line."""
        used = sum(self.count(state) for state in ("shared", "prefix", "own"))
        total = len(self.pages) - self.count("host")
        return f"{used} of {total} pages of {self.page_size} tokens in use by {len(self.rows)} " + (
            "request" if len(self.rows) == 1 else "requests"
        )

    def _heads(self) -> Sequence[str]:
        return ("replica", "page", "state", "requests", "prefix", "evicted")

    def _records(self) -> Iterable[Sequence[Field]]:
        for page in self.pages:
            yield (
                page.replica,
                page.number,
                page.state,
                " ".join(page.requests),
                page.prefix,
                page.evicted,
            )

    def notes(self) -> list[str]:
        """Sentences about what the cache did so far."""
        counted = self.metrics
        told = [
            f"{counted.cache_tokens} of {counted.prompt_tokens} tokens of prompts were found",
            f"pages evicted: {counted.evictions}; given back as doubles: {counted.deduplicated}",
        ]
        if counted.d2h_blocks_copied or counted.h2d_blocks_copied:
            told.append(
                f"pages copied to the host: {counted.d2h_blocks_copied}; "
                f"copied back: {counted.h2d_blocks_copied}"
            )
        return told

    def __str__(self) -> str:
        states = [(state, str(self.count(state)), said) for state, said in STATES.items()]
        rows = [("request", "replica", "cached", "reserved", "pages")]
        rows += [
            (row.request, str(row.replica), str(row.start), str(row.length), numbers(row.pages))
            for row in self.rows
        ]
        return "\n".join(
            [
                self.title(),
                *aligned([("state", "pages", "meaning"), *states], right=(1,)),
                *aligned(rows, right=(1, 2, 3)),
                *self.notes(),
            ]
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """A picture of the pages, with the same in words."""
        states = {
            (page.replica, page.number): page.state for page in self.pages if page.state != "host"
        }
        rows = [
            page_table_showing.Line(
                row.request,
                f"{row.start} tokens cached, pages for {row.length}",
                [(page, states[row.replica, page]) for page in row.pages],
            )
            for row in self.rows
        ]
        counts = [(state, self.count(state), said) for state, said in STATES.items()]
        return page_table_showing.page(self.title(), rows, counts, self.notes())


def numbers(pages: Sequence[int]) -> str:
    """Numbers in words, runs of them folded.

    Example:
        >>> numbers([4, 5, 6, 9, 2])
        '4-6 9 2'
    """
    runs: list[list[int]] = []
    for page in pages:
        if runs and page == runs[-1][1] + 1:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _short(digest: bytes | None) -> str:
    return "" if digest is None else digest.hex()[:8]


__all__ = ["STATES", "Page", "PageTable", "Row", "numbers"]
