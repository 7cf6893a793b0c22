"""Handlers of the Jupyter server for files that are opened in a tab, without a kernel."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jupyter_server.auth.decorator import authorized
from tornado import web

from maxlab.diagnostics.monitor.recording import Recording
from maxlab.errors import FileError, MaxlabError
from maxlab.files import open_regular, unreadable
from maxlab.lab.dashboard.store import Store
from maxlab.lab.protocol.files import FileState, ModelContents, SavedGraph, WeightHeader
from maxlab.lab.server.base import Handler, add_handlers
from maxlab.lab.server.places import gone, place_in, require_same

if TYPE_CHECKING:
    from maxlab.lab.server.weight_file import WeightFile

FORGET_S = 120.0
"""Seconds after the last question in which a file is let go of."""

MOST_OPEN = 8
"""Files that are kept open; the one that was asked for longest ago is closed first."""

STEP = 1 << 20
"""Bytes that are sent at once."""

GONE = frozenset({"ML002", "ML890"})
CHANGED = frozenset({"ML639", "ML641", "ML891"})

K = TypeVar("K")


@dataclass(slots=True)
class _Kept(Generic[K]):
    """A file that was read, and when it was last asked for."""

    stamp: str
    value: K
    used_s: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class Shelf(Generic[K]):
    """Files that were read lately, by where they lie. A file that has changed is read again.

    Args:
        read: Reads the file at a place.
    """

    def __init__(self, read: Callable[[str], K]) -> None:
        self._read = read
        self._kept: dict[str, _Kept[K]] = {}
        self._lock = threading.Lock()

    def get(self, place: str, stamp: str) -> tuple[K, threading.Lock]:
        """The reader of the file at ``place`` with this stamp, and the lock for asking it."""
        with self._lock:
            found = self._kept.get(place)
            if found is not None and found.stamp == stamp:
                found.used_s = time.monotonic()
                return found.value, found.lock
        value = self._read(place)
        with self._lock:
            kept = self._kept[place] = _Kept(stamp, value, time.monotonic())
            while len(self._kept) > MOST_OPEN:
                del self._kept[min(self._kept, key=lambda one: self._kept[one].used_s)]
            return kept.value, kept.lock

    def forget(self) -> None:
        """Let go of what nobody has asked for in a while."""
        now = time.monotonic()
        with self._lock:
            for place in [p for p, one in self._kept.items() if now - one.used_s > FORGET_S]:
                del self._kept[place]


class FileService:
    """The files that pages look into."""

    def __init__(self) -> None:
        self.weights = Shelf(_weights)
        self.stores = Shelf(_store)

    def header(self, path: str, place: str) -> WeightHeader:
        """The content of the weight file."""
        stamp = require_same(path, place, "")
        file, _ = self.weights.get(place, stamp)
        return {
            "format": file.format,
            "bytes": file.nbytes,
            "stamp": require_same(path, place, stamp),
            "metadata": file.metadata,
            "tensors": file.rows(),
        }

    def ask(self, path: str, place: str, stamp: str, work: Callable[[WeightFile], Any]) -> Any:
        """The result of ``work`` on the weight file that has this stamp.

        Raises:
            FileError: ML891, it has changed, or is gone.
        """
        file, lock = self.weights.get(place, require_same(path, place, stamp))
        with lock:
            return work(file)

    def replay(self, path: str, place: str, stamp: str, work: Callable[[Store], Any]) -> Any:
        """The result of ``work`` on the recording that has this stamp.

        Raises:
            FileError: ML891, it has changed, or is gone.
        """
        store, lock = self.stores.get(place, require_same(path, place, stamp))
        with lock:
            return work(store)

    def model(self, path: str, place: str) -> ModelContents:
        """A kept model's description of itself."""
        from maxlab.lab.server.model_file import contents_of

        stamp = require_same(path, place, "")
        found = contents_of(place, stamp)
        require_same(path, place, stamp)
        return found

    def graph(self, path: str, place: str) -> SavedGraph:
        """The graph of a saved run, with its times, of a document, or of a kept model."""
        from maxlab.analysis.opening import open_file
        from maxlab.engine.kept.archive import is_archive
        from maxlab.graph import Graph
        from maxlab.lab.server.model_file import graph_in
        from maxlab.lab.snapshot import take

        stamp = require_same(path, place, "")
        opened = graph_in(place) if is_archive(place) else open_file(place)
        found: SavedGraph = {
            "label": opened.name if isinstance(opened, Graph) else opened.label,
            "stamp": require_same(path, place, stamp),
            "document": take(opened).packed,
        }
        return found

    def forget(self) -> None:
        """Let go of what nobody has asked for in a while."""
        self.weights.forget()
        self.stores.forget()


def _weights(place: str) -> WeightFile:
    from maxlab.lab.server.weight_file import WeightFile  # what tensors are takes time to import

    return WeightFile(place)


def _store(place: str) -> Store:
    return Store(Recording.load(place), os.path.basename(place))


class _FileHandler(Handler):
    # Who may read a file in the file browser may look into it.
    auth_resource = "contents"

    def initialize(self, service: FileService) -> None:
        """Take the ``service`` that all handlers share."""
        self.service = service

    async def answer(self, work: Callable[[str, str, str], Any]) -> Any:
        """The result of ``work`` on the path, the place and the stamp of the request, or None when
        the request was refused, with the reason as JSON.
        """
        path = self.get_query_argument("path")
        stamp = self.get_query_argument("stamp", "")
        try:
            try:
                place = place_in(self.contents_manager, path)
            except FileError as error:
                if stamp and error.code == "ML890":
                    raise gone(path) from error
                raise
            return await self.away(partial(work, path, place, stamp))
        except MaxlabError as error:
            status = 404 if error.code in GONE else 409 if error.code in CHANGED else 400
            self.refuse(error, status)
            return None

    def whole(self, name: str, default: str | None = None) -> int:
        """The argument ``name`` of the request, a whole number.

        Raises:
            HTTPError: 400, it is none.
        """
        return self.wholes(name, default, 1)[0]

    def wholes(self, name: str, default: str | None = None, count: int | None = None) -> list[int]:
        """The argument ``name`` of the request, whole numbers with commas between.

        Raises:
            HTTPError: 400, they are none, or not ``count``.
        """
        text = (
            self.get_query_argument(name)
            if default is None
            else self.get_query_argument(name, default)
        )
        parts = [part for part in text.split(",") if part]
        good = all(re.fullmatch(r"-?[0-9]{1,18}", part) for part in parts)
        if not good or (count is not None and len(parts) != count):
            raise web.HTTPError(400, f"{name} must be whole numbers, got {text!r:.100}")
        return [int(part) for part in parts]


class StateHandler(_FileHandler):
    """``GET state?path=…&stamp=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The stamp and the size of the file, while it is what it was."""

        def work(path: str, place: str, stamp: str) -> FileState:
            return {"stamp": require_same(path, place, stamp), "bytes": os.stat(place).st_size}

        found = await self.answer(work)
        if found is not None:
            self.finish_json(found)


class HeaderHandler(_FileHandler):
    """``GET header?path=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The tensors and the metadata of a weight file."""
        found = await self.answer(lambda path, place, _: self.service.header(path, place))
        if found is not None:
            self.finish_json(found)


class SliceHandler(_FileHandler):
    """``GET slice?path=…&stamp=…&tensor=…&rows=…&columns=…&at=…&window=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Numbers of a tensor along two axes."""
        tensor, rows, columns = (self.whole(name) for name in ("tensor", "rows", "columns"))
        at = self.wholes("at", "")
        asked = self.wholes("window", "")
        window = (asked[0], asked[1], asked[2], asked[3]) if len(asked) == 4 else None

        def work(file: WeightFile) -> Any:
            return file.slice(tensor, rows, columns, at, window)

        found = await self.answer(partial(self.service.ask, work=work))
        if found is not None:
            self.finish_frame(found)


class FactsHandler(_FileHandler):
    """``GET facts?path=…&stamp=…&tensor=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Statistics and a histogram of a tensor."""
        tensor = self.whole("tensor")
        found = await self.answer(partial(self.service.ask, work=lambda file: file.facts(tensor)))
        if found is not None:
            self.finish_json(found)


class ModelHandler(_FileHandler):
    """``GET model?path=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """A kept model's description of itself."""
        found = await self.answer(lambda path, place, _: self.service.model(path, place))
        if found is not None:
            self.finish_json(found)


class GraphHandler(_FileHandler):
    """``GET graph?path=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The graph of a saved run, with its times, of a document, or of a kept model."""
        found = await self.answer(lambda path, place, _: self.service.graph(path, place))
        if found is not None:
            self.finish_json(found)


class ReplayFrameHandler(_FileHandler):
    """``GET frame?path=…&stamp=…&cursor=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Samples, marks and state that are newer than the cursor."""
        cursor = self.get_query_argument("cursor", "")

        def work(store: Store) -> Any:
            body, raw = store.frame(cursor)
            body["continues"] = None if body["reset"] else cursor
            return body, raw

        found = await self.answer(partial(self.service.replay, work=work))
        if found is not None:
            self.finish_frame(found)


class ReplayDetailHandler(_FileHandler):
    """``GET detail?path=…&stamp=…&start=…&end=…``, in seconds since the first sample"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """All samples between two times."""
        start, end = self.number("start"), self.number("end")
        found = await self.answer(
            partial(self.service.replay, work=lambda store: store.detail(start, end))
        )
        if found is not None:
            self.finish_frame(found)


class BytesHandler(_FileHandler):
    """``GET bytes?path=…&stamp=…``, with a header ``Range: bytes=FIRST-LAST`` or without"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Bytes of the file: all, or one range of them."""

        def size_of(path: str, place: str, stamp: str) -> tuple[str, str, int]:
            return place, require_same(path, place, stamp), os.stat(place).st_size

        found = await self.answer(size_of)
        if found is None:
            return
        place, stamp, size = found
        begin, end = 0, size
        asked = self.request.headers.get("Range")
        if asked is not None:
            part = range_of(asked, size)
            if part is None:
                self.set_status(416)
                self.set_header("Content-Range", f"bytes */{size}")
                self.finish()
                return
            begin, end = part
            self.set_status(206)
            self.set_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Disposition", "attachment")
        self.set_header("Accept-Ranges", "bytes")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Length", str(end - begin))
        while begin < end:
            self.write(await self.away(partial(_part, place, stamp, begin, min(end, begin + STEP))))
            await self.flush()
            begin += STEP


def _part(place: str, stamp: str, begin: int, end: int) -> bytes:
    """Bytes of the file, which still has the stamp.

    Raises:
        FileError: ML891, it has changed, or is gone.
    """
    with open_regular(place) as file:
        try:
            file.seek(begin)
            found = file.read(end - begin)
        except OSError as error:
            raise unreadable(place, "the file", error) from error
    require_same(place, place, stamp)
    return found


def range_of(asked: str, size: int) -> tuple[int, int] | None:
    """Where the one range that a header ``Range`` asks for begins and ends in a file of ``size``
    bytes; None when it cannot be answered.

    Example:
        >>> range_of("bytes=0-99", 50), range_of("bytes=-10", 50), range_of("bytes=60-", 50)
        ((0, 50), (40, 50), None)
    """
    found = re.fullmatch(r"bytes=([0-9]{0,18})-([0-9]{0,18})", asked.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    begin = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    return (begin, end) if begin < end else None


HANDLERS: Mapping[str, type[_FileHandler]] = {
    "state": StateHandler,
    "header": HeaderHandler,
    "slice": SliceHandler,
    "facts": FactsHandler,
    "bytes": BytesHandler,
    "graph": GraphHandler,
    "model": ModelHandler,
    "frame": ReplayFrameHandler,
    "detail": ReplayDetailHandler,
}


def add_files(server: Any) -> None:
    """Add the handlers to ``server``, a ``jupyter_server.serverapp.ServerApp``."""
    from tornado.ioloop import PeriodicCallback

    service = FileService()
    add_handlers(server, "files", HANDLERS, service=service)
    PeriodicCallback(service.forget, FORGET_S * 500).start()
