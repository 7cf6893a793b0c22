"""The pages of a pool: which are free, how often each is used, and which prefix it keeps."""

from __future__ import annotations


class PagePool:
    """Numbers of pages, with counts of their users and the hashes of the prefixes that they keep.

    A page without a user is free. If it keeps a prefix, that stays until no empty page is left:
    then the one that was given back longest ago is evicted.

    Args:
        count: The number of pages.

    Attributes:
        count: As above.
        users: The number of users of each page.
        hashes: The hash of the prefix that each page keeps; None where it keeps none.
        evicted: How often each page was evicted.
        shared_count: The number of pages with several users.

    Example:
        >>> pool = PagePool(2)
        >>> page, evicted = pool.take()
        >>> pool.keep(page, b"prefix")
        >>> pool.give_back(page)  # it is not empty: it keeps a prefix
        False
        >>> pool.free_count, pool.find(b"prefix") == page
        (2, True)
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.users = [0] * count
        self.hashes: list[bytes | None] = [None] * count
        self.evicted = [0] * count
        self.shared_count = 0
        self._by_hash: dict[bytes, int] = {}
        # Dicts as ordered sets: of the empty pages the last is taken, which is the most likely to
        # be in a processor's cache; of those that keep a prefix the first, which is the oldest.
        self._empty = dict.fromkeys(reversed(range(count)))
        self._kept: dict[int, None] = {}

    @property
    def free_count(self) -> int:
        """The number of pages without a user."""
        return len(self._empty) + len(self._kept)

    @property
    def kept_count(self) -> int:
        """The number of pages without a user that keep a prefix."""
        return len(self._kept)

    @property
    def prefix_count(self) -> int:
        """The number of pages that keep a prefix, with users or without."""
        return len(self._by_hash)

    def find(self, digest: bytes) -> int | None:
        """The page that keeps the prefix of this hash; None where none does."""
        return self._by_hash.get(digest)

    def take(self) -> tuple[int, bytes | None]:
        """A free page, which has one user then, and the hash that was evicted from it.

        There must be one.
        """
        if self._empty:
            page, _ = self._empty.popitem()
            self.users[page] = 1
            return page, None
        page = next(iter(self._kept))
        digest = self.hashes[page]
        self.users[page] = 1
        del self._kept[page]
        self.forget(page)
        self.evicted[page] += 1
        return page, digest

    def share(self, page: int) -> None:
        """Adds a user to a page that keeps a prefix."""
        self._kept.pop(page, None)
        self.users[page] += 1
        self.shared_count += self.users[page] == 2

    def give_back(self, page: int) -> bool:
        """Takes a user from a page; True when it is free and keeps no prefix, so is empty."""
        self.users[page] -= 1
        if self.users[page]:
            self.shared_count -= self.users[page] == 1
            return False
        is_empty = self.hashes[page] is None
        (self._empty if is_empty else self._kept)[page] = None
        return is_empty

    def keep(self, page: int, digest: bytes) -> None:
        """Says that a page in use holds the prefix of this hash."""
        self.hashes[page] = digest
        self._by_hash[digest] = page

    def forget(self, page: int) -> None:
        """Says that a page in use keeps no prefix any more."""
        digest = self.hashes[page]
        if digest is not None:
            del self._by_hash[digest]
            self.hashes[page] = None

    def forget_free(self) -> list[int]:
        """Forgets the prefixes of pages without users; returns those pages, which are empty now."""
        emptied = list(self._kept)
        for page in emptied:
            self.forget(page)
        self._empty |= dict.fromkeys(reversed(self._kept))
        self._kept = {}
        return emptied

    def kept(self) -> list[int]:
        """The free pages that keep a prefix; the first is evicted first."""
        return list(self._kept)

    def faults(self, users: list[int]) -> list[str]:
        """Sentences about what does not hold together.

        Args:
            users: How often each page stands in the tables of sequences.
        """
        found = [
            f"page {page} has {self.users[page]} users, and {count} tables name it"
            for page, count in enumerate(users)
            if self.users[page] != count
        ]
        shared = sum(count > 1 for count in self.users)
        if self.shared_count != shared:
            found.append(f"{self.shared_count} pages are counted as shared, and {shared} are")
        for page in range(self.count):
            places = (self.users[page] > 0) + (page in self._empty) + (page in self._kept)
            if places != 1:
                found.append(f"page {page} is in {places} places at once")
            if page in self._empty and self.hashes[page] is not None:
                found.append(f"page {page} is empty and keeps a prefix")
            if page in self._kept and self.hashes[page] is None:
                found.append(f"page {page} keeps no prefix and is listed as keeping one")
        known = {digest: page for page, digest in enumerate(self.hashes) if digest is not None}
        if known != self._by_hash:
            found.append("the pages by hash are not those that keep prefixes")
        return found


class HostPool:
    """Pages on the host for prefixes that left the devices, by their hashes.

    Args:
        count: The number of pages.

    Attributes:
        count: As above.

    Example:
        >>> host = HostPool(1)
        >>> host.store(b"a"), host.store(b"b"), host.take(b"a"), host.take(b"b")
        ((0, False), (0, True), None, 0)
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(reversed(range(count)))
        self._by_hash: dict[bytes, int] = {}
        self._taken: set[int] = set()

    @property
    def used_count(self) -> int:
        """The number of pages that hold a prefix."""
        return len(self._by_hash) + len(self._taken)

    def __contains__(self, digest: object) -> bool:
        return digest in self._by_hash

    def hashes(self) -> dict[bytes, int]:
        """The pages by the hashes of their prefixes; the first gives way first."""
        return dict(self._by_hash)

    def store(self, digest: bytes) -> tuple[int | None, bool]:
        """A page for the prefix, None where all are on their way; and whether another gave way."""
        gave_way = False
        if not self._free and self._by_hash:
            self._free.append(self._by_hash.pop(next(iter(self._by_hash))))
            gave_way = True
        if not self._free:
            return None, False
        page = self._by_hash[digest] = self._free.pop()
        return page, gave_way

    def take(self, digest: bytes) -> int | None:
        """The page of a prefix, which is the caller's until `give_back`; None where none is."""
        page = self._by_hash.pop(digest, None)
        if page is not None:
            self._taken.add(page)
        return page

    def give_back(self, page: int) -> None:
        """Makes a page that was taken free."""
        self._taken.remove(page)
        self._free.append(page)

    def forget(self, digest: bytes) -> None:
        """Forgets a prefix, if it is here."""
        page = self._by_hash.pop(digest, None)
        if page is not None:
            self._free.append(page)

    def forget_all(self) -> None:
        """Forgets all prefixes."""
        self._free += self._by_hash.values()
        self._by_hash = {}

    def faults(self, on_devices: set[bytes]) -> list[str]:
        """Sentences about what does not hold together.

        Args:
            on_devices: The hashes of the prefixes on devices.
        """
        found = []
        pages = [*self._free, *self._by_hash.values(), *self._taken]
        if sorted(pages) != list(range(self.count)):
            found.append(f"the host has {self.count} pages, and lists {sorted(pages)}")
        twice = on_devices & set(self._by_hash)
        if twice:
            found.append(f"{len(twice)} prefixes are on the host and on the devices")
        return found


__all__ = ["HostPool", "PagePool"]
