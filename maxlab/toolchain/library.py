"""The runtime library: executor, GEMM and attention, from ``kernels/c``.

An installation brings it as machine code (`prebuilt`). Where none fits, its files are compiled on
first need, at the same time, and linked into one library. Either is kept in the cache beside the
kernels and opened once a process.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from maxlab import progress, trace
from maxlab.config import config
from maxlab.digests import blake2b
from maxlab.errors import CancelledError, MaxlabError, ToolchainError
from maxlab.toolchain import loader, prebuilt
from maxlab.toolchain.artefacts import Artefact, Cache, Key, cache, content_of
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.compiler import Compiler, find_compiler, require_library, run
from maxlab.toolchain.flags import Flags
from maxlab.toolchain.interrupts import Interrupts
from maxlab.toolchain.prelude import kernels_dir, prelude
from maxlab.toolchain.processes import Batch, StoppedError, parallel, together
from maxlab.toolchain.units import check

_WAIT_S = 0.1  # between two looks whether a wait was cancelled
FLAGS = Flags(extra=("-fvisibility=hidden", "-pthread"))
# A source may ask for more in its first line, where the optimiser's time is well spent:
#   // maxlab-flags: -O2
OWN_FLAGS = re.compile(r"\A// maxlab-flags: (?P<flags>.*)$", re.MULTILINE)


class Runtime:
    """The opened runtime library.

    Attributes:
        ffi: the cffi object whose types the functions of ``lib`` take.
        lib: the executor and the allocator of ``mx_abi.h``.
        interrupts: what the executor asks whether a run is to go on.
        path: the library file.
        hit: True if nothing was compiled: it was in the cache, or the installation brought it.
        ms: milliseconds it took to compile or find.
    """

    ffi = ffi

    def __init__(self, found: Artefact, hit: bool, ms: float) -> None:
        self.path = found.path
        self.hit = hit
        self.ms = ms
        self._handle = loader.open_library(found, _MAPPED_AS[RUNTIME])
        self.lib: Any = ffi.dlopen(self._handle)
        self.interrupts = Interrupts(self.lib)
        self._products: Any = None
        self._product_handle: Any = None
        self._given: Artefact | None = None
        self._teams: dict[int, Any] = {}
        self._lock = threading.Lock()

    def team(self, threads: int) -> Any:
        """The ``mx_team *`` of that many threads, the caller being one; made once, then shared.

        Raises:
            ToolchainError: ML506, the system gives no memory for it.
        """
        found = self._teams.get(threads)
        if found is None:
            with self._lock:
                found = self._teams.get(threads)
                if found is None:
                    found = self.lib.mx_team_new(threads)
                    if found == ffi.NULL:
                        raise ToolchainError(
                            "ML506",
                            f"a team of {threads} threads cannot be made",
                            fix="ask for fewer threads (MAXLAB_NUM_THREADS), or free some memory",
                        )
                    self._teams[threads] = found
        return found

    @property
    def lacks_products(self) -> bool:
        """Whether the products library is not loaded yet."""
        return self._products is None

    @property
    def products(self) -> Any:
        """The functions of the products library: ``mx_gemm_plan``, ``mx_pack_b_f32`` and so on.

        It is compiled and loaded at first use, and kernels get its table as ``ctx->lib`` from
        then on.

        Raises:
            ToolchainError: As `runtime`.
        """
        if self._products is None:
            with _interruptible(PRODUCTS), self._lock:
                if self._products is None:
                    found = self._given if self._given is not None else _find(PRODUCTS)[0]
                    handle = loader.open_library(found, _MAPPED_AS[PRODUCTS])
                    self._product_handle = handle, found.path
                    products = ffi.dlopen(self._product_handle[0])
                    self.lib.mx_use_lib(products.mx_get_lib())
                    self._products = products
        return self._products

    def address(self, symbol: str) -> int:
        """The address of an exported kernel: one of the executor's own, or one of the products,
        for example ``mx_k_pack_b_f32``.

        Raises:
            ToolchainError: ML503, the library does not export it.
        """
        if symbol in OWN_KERNELS:
            return loader.symbol_address(self._handle, symbol, self.path)
        self.products  # noqa: B018 - loads the library
        handle, path = self._product_handle
        return loader.symbol_address(handle, symbol, path)

    def give_products(self, found: Artefact) -> None:
        """Let `products` be the library ``found``, if it is not open yet."""
        self._given = found

    def rest_teams(self) -> None:
        """End the runs of other threads, and the worker threads. The next run starts new ones:
        models keep the teams that they run on."""
        with self._lock:
            for team in self._teams.values():
                self.lib.mx_team_rest(team)


_opened: dict[tuple[Path, str | None], Runtime] = {}
_lock = threading.Lock()


def runtime() -> Runtime:
    """The runtime library of this process, compiled on first need.

    Raises:
        ToolchainError: ML501 no compiler; ML502 it refused a source; ML503 the result cannot
            be loaded; ML504 the sources are missing; ML505 the compiler was killed or hung; ML507
            it wrote no library; ML508 it cannot build what it needs itself.
        CacheError: ML510, there is nowhere to write.
    """
    settings = config()
    key = (settings.cache_dir, settings.cc)
    found = _opened.get(key)
    if found is None:
        with _interruptible(RUNTIME), _held(_lock):
            found = _opened.get(key)
            if found is None:
                found = _open()
                atexit.register(found.rest_teams)
                _opened[key] = found
    return found


def is_open() -> bool:
    """Whether this process has opened the runtime library."""
    settings = config()
    return (settings.cache_dir, settings.cc) in _opened


def adopt(own: Artefact, products: Artefact | None) -> Runtime:
    """The runtime library of this process; ``own`` if none is open yet, which no compiler is asked
    for then.

    Args:
        own: The runtime library, of sources with the digest `sources_digest`, for a CPU that can do
            no more than this one. Whoever gives it vouches for it.
        products: The same of the products library.

    Raises:
        ToolchainError: ML503, it cannot be loaded.
    """
    settings = config()
    key = (settings.cache_dir, settings.cc)
    with _held(_lock):
        found = _opened.get(key)
        if found is None:
            found = Runtime(own, True, 0.0)
            atexit.register(found.rest_teams)
            _opened[key] = found
    if products is not None and found.lacks_products:
        found.give_products(products)
    return found


@functools.cache
def sources_digest() -> str:
    """A digest of all C that maxlab brings: runtime, products, and what kernels include. Machine
    code of equal sources works together."""
    folder = kernels_dir() / "c"
    digest = blake2b(prelude().text.encode(), digest_size=16)
    for path in sorted(folder.iterdir()):
        if path.suffix in (".c", ".h"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def own_library(name: str) -> tuple[Key, bytes]:
    """The key and the bytes of the library ``name``, `RUNTIME` or `PRODUCTS`, for this machine;
    compiled if it is new.

    Raises:
        ToolchainError: As `runtime`.
    """
    found, _, _ = _find(name)
    return _sources_and_key(name)[1], content_of(found)


def runtime_ahead(*, products: bool = False) -> threading.Thread | None:
    """The thread that compiles the runtime library, or None if that is done already.

    Building it from an empty cache takes longer than tracing a graph or compiling a small one, so
    a session starts it early and they overlap. A failure is reported by the call that needs it.

    Args:
        products: Compile the products library instead, which only some graphs need.
    """
    settings = config()
    opened = _opened.get((settings.cache_dir, settings.cc))
    if opened is not None and not (products and opened.lacks_products):
        return None
    name = PRODUCTS if products else RUNTIME

    def prepare() -> None:
        try:
            if products:
                _find(name)
            else:
                runtime()
        except StoppedError:
            return  # the user knows
        except MaxlabError as error:
            trace.emit("warning", name, message=error.what, fix=error.fix)

    try:
        key = _sources_and_key(name)[1]
        if cache().find(key)[0] is not None:
            return None
        if prebuilt.has_code(name, key, FLAGS.portable_arguments):
            return None  # a thread would only get in the way of its user
    except MaxlabError:
        return None  # the call that needs the library says what is wrong
    thread = threading.Thread(target=prepare, name="maxlab-runtime", daemon=True)
    thread.start()
    return thread


OWN_KERNELS = frozenset(("mx_k_copy", "mx_k_refuse", "mx_k_settle"))
"""The kernels of the runtime library itself, which needs no products."""
RUNTIME = "runtime"
PRODUCTS = "products"
PRODUCT_FILES = (
    "attention.c", "float8.c", "gemm.c", "halves.c", "inplace.c", "int8.c", "lanes.c",
    "products.c", "quantized.c", "taps.c", "windows.c", "winograd.c",
)  # fmt: skip
# Whoever comes while a library is being built waits, and finds it in the cache.
_being_found = {RUNTIME: threading.Lock(), PRODUCTS: threading.Lock()}
_builds: dict[str, Batch] = {}  # the compilers of those that are being built
_MAPPED_AS = {RUNTIME: "maxlab-runtime", PRODUCTS: "maxlab-products"}


def _open() -> Runtime:
    return Runtime(*_find(RUNTIME))


@contextmanager
def _interruptible(name: str) -> Iterator[None]:
    """Let an interrupt of a thread that waits for the library ``name`` end its compilers, which
    another thread may have started."""
    try:
        yield
    except (KeyboardInterrupt, CancelledError):
        batch = _builds.get(name)
        if batch is not None:
            batch.stop()
        raise


@contextmanager
def _held(lock: threading.Lock) -> Iterator[None]:
    """Hold ``lock``; who waits for it looks whether that was cancelled."""
    while not lock.acquire(timeout=_WAIT_S):
        progress.check()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def ended_with_its_caller() -> Iterator[None]:
    """Let a cancel of the ``with`` block end the compilers of libraries too that were started ahead
    of it; who needs those later compiles them again."""
    try:
        yield
    except CancelledError:
        for batch in list(_builds.values()):
            batch.stop()
        raise


def _find(name: str) -> tuple[Artefact, bool, float]:
    """The library ``name``, whether it was in the cache, and the milliseconds it took."""
    with _held(_being_found[name]):
        return _find_alone(name)


def _sources_and_key(name: str) -> tuple[list[Path], Key]:
    """The C files of the library ``name``, and the name of its artefact."""
    folder = kernels_dir() / "c"
    with os.scandir(folder) as entries:
        files = sorted(
            (entry.name, entry.stat().st_mtime_ns, entry.stat().st_size)
            for entry in entries
            if entry.name[-2:] in (".c", ".h")
        )
    sources, key = _key_of(name, folder, tuple(files), find_compiler())
    return list(sources), key


@functools.lru_cache(maxsize=8)  # asked several times while a session starts
def _key_of(
    name: str, folder: Path, files: tuple[tuple[str, int, int], ...], compiler: Compiler
) -> tuple[tuple[Path, ...], Key]:
    wanted = name == PRODUCTS
    names = [file for file, _, _ in files]
    sources = tuple(
        folder / file for file in names if file[-2:] == ".c" and (file in PRODUCT_FILES) is wanted
    )
    if not sources:
        raise ToolchainError("ML504", f"no runtime sources in {folder}", fix="reinstall maxlab")
    digest = blake2b(digest_size=16)
    for path in [*sources, *(folder / file for file in names if file[-2:] == ".h")]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    flags = FLAGS.digest(compiler)
    return sources, Key(digest.hexdigest(), prelude().digest, flags, compiler.digest, compiler.cpu)


def _find_alone(name: str) -> tuple[Artefact, bool, float]:
    start = time.perf_counter()
    sources, key = _sources_and_key(name)
    store = cache()
    found, why = store.find(key)
    if found is None:
        found = _copied(store, key, name)
    hit = found is not None
    if found is None:
        with trace.span("compile", name, kernels=[s.stem for s in sources], why=why) as event:
            with together() as batch:
                _builds[name] = batch
                try:
                    find_compiler().make_ready()
                    found = _build(store, find_compiler(), key, sources, name)
                finally:
                    del _builds[name]
            event["ms"] = (time.perf_counter() - start) * 1e3
    ms = (time.perf_counter() - start) * 1e3
    trace.emit("cache", name, hit=hit, why=why, ms=ms)
    return found, hit, ms


def _copied(store: Cache, key: Key, name: str) -> Artefact | None:
    """The library ``name`` that the installation brings, now in the cache; None without one."""
    code = prebuilt.code_of(name, key, FLAGS.portable_arguments)
    if code is None:
        return None

    def make(folder: Path) -> Path:
        path = folder / f"{name}.so"
        path.write_bytes(code)
        return path

    def accept(made: Artefact) -> None:
        loader.open_library(made, _MAPPED_AS[name])

    try:
        return store.build([key], make, accept)[0]
    except ToolchainError as error:  # another C library than the one it was linked for
        trace.emit("warning", name, message=error.what, fix=error.fix)
        return None


def _build(store: Cache, compiler: Compiler, key: Key, sources: list[Path], name: str) -> Artefact:
    def make(folder: Path) -> Path:
        return _compiled(folder, compiler, FLAGS.arguments(compiler), sources, name)

    def accept(made: Artefact) -> None:
        loader.open_library(made, _MAPPED_AS[name])

    return store.build([key], make, accept)[0]


def prebuilt_name(level: prebuilt.Level, name: str) -> str:
    """The name of the code of the library ``name`` for ``level``, of the sources that are here."""
    return prebuilt.code_name(name, level, _sources_and_key(name)[1], FLAGS.portable_arguments)


def compiled_for(level: prebuilt.Level, name: str) -> bytes:
    """The machine code of the library ``name`` for all CPUs of ``level``, without symbols for
    debuggers.

    Raises:
        ToolchainError: As `runtime`.
    """
    import tempfile  # not at a start, which compiles nothing

    compiler = find_compiler()
    sources, _ = _sources_and_key(name)
    native = FLAGS.arguments(compiler)
    arguments = [one for one in native if one not in compiler.machine_arguments]
    with tempfile.TemporaryDirectory() as work:
        made = _compiled(
            Path(work), compiler, [*arguments, *level.arguments], sources, name, ("-s",)
        )
        return made.read_bytes()


def _compiled(
    folder: Path,
    compiler: Compiler,
    arguments: list[str],
    sources: list[Path],
    name: str,
    link_arguments: tuple[str, ...] = (),
) -> Path:
    """The library ``name`` in ``folder``, compiled with ``arguments``."""
    arguments = [*compiler.command, *arguments, f"-I{sources[0].parent}"]

    def compile_one(source: Path) -> str:
        target = f"{source.stem}.o"
        text = source.read_text(encoding="utf-8")
        own = OWN_FLAGS.match(text)
        extra = own["flags"].split() if own else []
        done = run([*arguments, *extra, "-pipe", "-c", str(source), "-o", target], cwd=folder)
        check(done, {str(source): text})
        return target

    # The longest file first: it decides when the last one is done.
    order = sorted(sources, key=lambda s: -s.stat().st_size)
    work = [partial(compile_one, source) for source in order]
    objects = parallel(work, max(config().num_threads, 1))
    link = [*compiler.command, *objects, "-o", f"{name}.so", *link_arguments]
    check(run([*link, *compiler.link_arguments], cwd=folder), {name: ""})
    return require_library(folder / f"{name}.so", compiler.command)
