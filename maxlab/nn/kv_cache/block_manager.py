"""Gives sequences pages, shares the pages of equal prefixes, and takes pages back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from maxlab.errors import ExecutionError, InputError, InsufficientBlocksError
from maxlab.interfaces import ImageMetadata, RequestID, TextGenerationContext
from maxlab.nn.kv_cache import hashing
from maxlab.nn.kv_cache.metrics import KVCacheMetrics
from maxlab.nn.kv_cache.page_memory import PageMemory
from maxlab.nn.kv_cache.page_pool import HostPool, PagePool
from maxlab.nn.kv_cache.sizes import pages_of


@dataclass
class Claimed:
    """The pages of a sequence.

    Attributes:
        pages: The pages, in the order of its tokens.
        hashes: The hashes of the first of them, those that keep a prefix.
        length: The tokens that are to be in the pages by the last reservation.
        start: The tokens that were computed then.
        counted: The tokens of the prompt that the metrics have.
    """

    pages: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    length: int = 0
    start: int = 0
    counted: int = 0


@dataclass
class _Hits:
    """Hashes of pages found for a prefix, and the page of each; None for one on the host."""

    hashes: list[bytes] = field(default_factory=list)
    pages: list[int | None] = field(default_factory=list)


class BlockManager:
    """The pages of the sequences of one replica.

    A page is shared only when it is full, and never written to after that: a sequence writes behind
    the tokens that it has computed, and the page it writes into is its own.

    Args:
        memory: The memory of the pages.
        count: The number of pages.
        page_size: The number of tokens of a page.
        shares: Whether sequences that begin alike share pages.
        host_count: The number of pages on the host.
        checks: Whether every change is followed by a check of all tables.

    Attributes:
        pool: The pages on the devices.
        host: The pages on the host.
        claimed: The pages of each sequence.
        metrics: The counters.
        prefix_key: What keys and values of a sequence depend on besides its tokens and images.
    """

    def __init__(
        self,
        memory: PageMemory,
        count: int,
        page_size: int,
        *,
        shares: bool,
        host_count: int = 0,
        checks: bool = False,
    ) -> None:
        self.memory = memory
        self.page_size = page_size
        self.shares = shares
        self.pool = PagePool(count)
        self.host = HostPool(host_count)
        self.claimed: dict[RequestID, Claimed] = {}
        self.metrics = KVCacheMetrics()
        self._checks = checks
        self.prefix_key: Callable[[Any], str] = _model_name

    # ------------------------------------------------------------ sequences
    def claim(self, request_id: RequestID) -> None:
        """Makes a sequence without pages."""
        self.claimed[request_id] = Claimed()

    def of(self, request_id: RequestID) -> Claimed:
        """The pages of a sequence.

        Raises:
            InputError: ML621 (a ValueError), it was not claimed.
        """
        found = self.claimed.get(request_id)
        if found is None:
            raise self.unknown(request_id)
        return found

    def unknown(self, request_id: RequestID) -> InputError:
        """The error of a sequence that was not claimed."""
        return InputError(
            "ML621",
            f"the request {request_id} has no place in the cache",
            why=[f"{len(self.claimed)} requests have one"],
            fix="claim(request_id) before its pages are asked for, and release it once",
        )

    def release(self, request_id: RequestID) -> None:
        """Gives all pages of a sequence back; prefixes that they keep may be found again.

        Raises:
            InputError: ML621 (a ValueError), it was not claimed.
        """
        claimed = self.of(request_id)
        self._drop(claimed, 0)
        del self.claimed[request_id]
        self._check()

    # ------------------------------------------------------------ reserving
    def wanted(self, context: TextGenerationContext, num_steps: int) -> int:
        """The number of pages that a sequence has to have for ``num_steps`` steps."""
        return pages_of(context.active_idx + num_steps - 1, self.page_size)

    def reserve(self, context: TextGenerationContext, num_steps: int) -> bool:
        """Gives a sequence the pages that ``num_steps`` steps write to; False where too few are
        free. Then the pages that it has stay, but those behind a place to which its context went
        back are given back, and a shared page in the middle of which it goes on is copied for it.

        Where the start of the tokens that are to be computed is found in shared pages, the
        context's ``start_idx`` moves behind them.

        Raises:
            InputError: ML621 (a ValueError), the sequence was not claimed.
            InsufficientBlocksError: ML647 (a RuntimeError), all pages would not be enough.
        """
        claimed = self.of(context.request_id)
        wanted = self.wanted(context, num_steps)
        if wanted > self.pool.count:
            raise InsufficientBlocksError(
                "ML647",
                f"the request {context.request_id} needs {wanted} pages for "
                f"{context.active_idx + num_steps - 1} tokens, and the cache has {self.pool.count} "
                f"pages of {self.page_size} tokens",
                fix="give the cache more memory, or the request a smaller max_length",
            )
        if not self._rewind(claimed, context.start_idx):
            return False
        hits = self._hits(claimed, context)
        skipped = (len(claimed.hashes) + len(hits.hashes)) * self.page_size
        if not hits.hashes or skipped <= context.start_idx:
            hits, skipped = _Hits(), context.start_idx
        if not self._has_room(claimed, hits, wanted):
            return False
        if hits.hashes:
            self.metrics.cache_tokens += skipped - context.start_idx
            # Tokens of an earlier reservation, which will not be computed after all.
            recounted = min(claimed.counted, skipped) - context.start_idx
            self.metrics.input_tokens -= max(recounted, 0)
            context.set_token_indices(start_idx=skipped)
            self._take_hits(claimed, hits)
        while len(claimed.pages) < wanted:
            claimed.pages.append(self._take())
        self._count(claimed, context)
        claimed.start, claimed.length = skipped, context.active_idx + num_steps - 1
        self._check()
        return True

    def missing(self, context: TextGenerationContext, num_steps: int) -> int:
        """The number of free pages that `reserve` would take, prefixes that are found set apart."""
        claimed = self.of(context.request_id)
        hits = self._hits(claimed, context)
        held = sum(page is not None and self.pool.users[page] > 0 for page in hits.pages)
        behind = (len(claimed.hashes) + len(hits.hashes)) * self.page_size
        have = len(claimed.hashes) if behind > context.start_idx else len(claimed.pages)
        return max(self.wanted(context, num_steps) - have - held, 0)

    def _rewind(self, claimed: Claimed, start: int) -> bool:
        """Drops kept pages behind ``start``, where a context went back; False without a page for
        that."""
        kept, inside = divmod(start, self.page_size)
        if kept >= len(claimed.hashes):
            return True
        if not inside:
            self._drop(claimed, kept)
            return True
        self._drop(claimed, kept + 1)
        # The page will be written to in the middle, so it must be the sequence's alone.
        page = claimed.pages[kept]
        if self.pool.users[page] == 1:
            self.pool.forget(page)
        elif self.pool.free_count:
            own = self._take()
            self.memory.copy(page, own)
            self.pool.give_back(page)
            claimed.pages[kept] = own
        else:
            return False
        del claimed.hashes[kept:]
        return True

    def _hits(self, claimed: Claimed, context: TextGenerationContext) -> _Hits:
        """The kept pages that go on where those of the sequence end.

        The last token that is to be computed is never among them: there must be one to compute.
        """
        found = _Hits()
        if not self.shares or _tells_prompt(context):
            return found
        first = len(claimed.hashes)
        tokens = context.all_tokens[: context.active_idx - 1]
        if len(tokens) // self.page_size <= first:
            return found
        for digest in hashing.pages(
            tokens, self.page_size, first, self._parent(claimed, context), _images(context)
        ):
            page = self.pool.find(digest)
            if page is None and digest not in self.host:
                break
            found.hashes.append(digest)
            found.pages.append(page)
        # An image is encoded as a whole, so none may begin before and end behind the start.
        images = _images(context)
        while found.hashes:
            end = (first + len(found.hashes)) * self.page_size
            if not any(one.start_idx < end < one.end_idx for one in images):
                break
            found.hashes.pop()
            found.pages.pop()
        return found

    def _parent(self, claimed: Claimed, context: TextGenerationContext) -> bytes:
        if claimed.hashes:
            return claimed.hashes[-1]
        return hashing.root(self.prefix_key(context))

    def _has_room(self, claimed: Claimed, hits: _Hits, wanted: int) -> bool:
        """Whether enough pages are free for what `reserve` is about to take."""
        room = self.pool.free_count
        have = len(claimed.pages)
        if hits.hashes:
            have = len(claimed.hashes)
            # Pages that the hits replace are given back first.
            room += len(claimed.pages) - have
            held = [page for page in hits.pages if page is not None]
            have += len(held)
            room -= sum(not self.pool.users[page] for page in held)
        return wanted - have <= room

    def _take_hits(self, claimed: Claimed, hits: _Hits) -> None:
        """Puts the pages of a prefix behind those that the sequence keeps."""
        self._drop(claimed, len(claimed.hashes))
        # First all that are there, so that none is evicted for another one.
        for page in hits.pages:
            if page is not None:
                self.pool.share(page)
        waiting = [
            self.host.take(digest) if page is None else None
            for digest, page in zip(hits.hashes, hits.pages, strict=True)
        ]
        for digest, page, host_page in zip(hits.hashes, hits.pages, waiting, strict=True):
            if page is None and host_page is not None:
                page = self._take()
                self.memory.to_devices(host_page, page, self.metrics)
                self.host.give_back(host_page)
                self.pool.keep(page, digest)
            assert page is not None
            claimed.pages.append(page)
            claimed.hashes.append(digest)

    def _take(self) -> int:
        """A free page; the prefix that is evicted for it goes to the host, if that has pages."""
        page, evicted = self.pool.take()
        if evicted is not None:
            self.metrics.evictions += 1
            if self.host.count:
                host_page, gave_way = self.host.store(evicted)
                self.metrics.host_evictions += gave_way
                if host_page is not None:
                    self.memory.to_host(page, host_page, self.metrics)
            self.memory.empty(page)
        return page

    def _drop(self, claimed: Claimed, first: int) -> None:
        """Gives pages of a sequence back, from number ``first`` on.

        The last one goes first, so that it is evicted before the pages it is of no use without.
        """
        while len(claimed.pages) > first:
            page = claimed.pages.pop()
            if self.pool.give_back(page):
                self.memory.empty(page)
        del claimed.hashes[first:]

    def _count(self, claimed: Claimed, context: TextGenerationContext) -> None:
        """Counts the tokens of a prompt that are to be computed, each once."""
        if context.needs_ce:
            new = context.active_idx - max(context.start_idx, claimed.counted)
            self.metrics.input_tokens += max(new, 0)
            claimed.counted = max(claimed.counted, context.active_idx)

    # ------------------------------------------------------------ keeping
    def commit(self, context: TextGenerationContext) -> None:
        """Keeps the pages that are full by now, so that other sequences find them.

        Raises:
            InputError: ML621, the sequence was not claimed; ML645, more tokens were computed than
                its pages hold (each a ValueError).
        """
        claimed = self.of(context.request_id)
        computed = context.start_idx // self.page_size
        if context.start_idx > len(claimed.pages) * self.page_size:
            raise too_few(context, len(claimed.pages), self.page_size, context.start_idx)
        if not self.shares or computed <= len(claimed.hashes):
            return
        first = len(claimed.hashes)
        tokens = context.all_tokens[: computed * self.page_size]
        parent = self._parent(claimed, context)
        for digest in hashing.pages(tokens, self.page_size, first, parent, _images(context)):
            number = len(claimed.hashes)
            page, other = claimed.pages[number], self.pool.find(digest)
            if other is None:
                self.pool.keep(page, digest)
                self.host.forget(digest)
            else:
                self.pool.share(other)
                claimed.pages[number] = other
                self.metrics.deduplicated += 1
                if self.pool.give_back(page):
                    self.memory.empty(page)
            claimed.hashes.append(digest)
        self._check()

    def forget_prefixes(self) -> None:
        """Forgets the prefixes that no sequence uses, on the devices and on the host."""
        for page in self.pool.forget_free():
            self.memory.empty(page)
        self.host.forget_all()
        self._check()

    # ------------------------------------------------------------ checking
    def check(self) -> None:
        """Raises unless every page is where it is counted.

        Raises:
            ExecutionError: ML643 (a RuntimeError), the tables do not hold together.
        """
        users = [0] * self.pool.count
        for claimed in self.claimed.values():
            for page in claimed.pages:
                users[page] += 1
        faults = self.pool.faults(users)
        faults += self.host.faults({one for one in self.pool.hashes if one is not None})
        for request_id, claimed in self.claimed.items():
            kept = [self.pool.hashes[page] for page in claimed.pages[: len(claimed.hashes)]]
            if kept != claimed.hashes:
                faults.append(f"the request {request_id} has other pages than its prefix")
        if faults:
            raise ExecutionError(
                "ML643",
                f"the tables of the cache do not hold together: {faults[0]}",
                why=faults[1:8],
                fix="use the cache from one thread at a time, and report this if you do",
            )

    def _check(self) -> None:
        if self._checks:
            self.check()


def too_few(context: TextGenerationContext, pages: int, size: int, tokens: int) -> InputError:
    """The error for a sequence with fewer pages than its tokens need."""
    return InputError(
        "ML645",
        f"the request {context.request_id} has {pages} pages of {size} tokens, and {tokens} tokens "
        "are to be in them",
        fix="alloc(context, num_steps) before each run, with the number of its steps",
    )


def _model_name(context: Any) -> str:
    """The model or adapter that a sequence asks."""
    found: str = getattr(context, "model_name", "")
    return found


def _tells_prompt(context: TextGenerationContext) -> bool:
    """Whether log probabilities of the prompt are told, for which each token is computed."""
    return bool(
        context.log_probabilities and context.log_probabilities_echo and context.is_initial_prompt
    )


def _images(context: TextGenerationContext) -> Sequence[ImageMetadata]:
    return getattr(context, "images", ())


__all__ = ["BlockManager", "Claimed", "too_few"]
