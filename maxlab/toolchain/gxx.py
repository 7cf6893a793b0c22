"""CUDA text compiled for this machine: g++, `kernels/cuda/cudasim.h`, and the same cache as C.

A simulated module is a shared library of its own; the scheduler and the checker it needs are a
second one, compiled from ``kernels/cuda/sim`` on first need and shared by all modules. A module
names that library as a dependency, so it is opened first.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from maxlab import trace
from maxlab.config import config
from maxlab.digests import blake2b
from maxlab.errors import ToolchainError
from maxlab.toolchain import loader
from maxlab.toolchain.artefacts import Artefact, Key, cache
from maxlab.toolchain.compiler import (
    Compiler,
    Finished,
    _identify,
    find_compiler,
    require_library,
    run,
)
from maxlab.toolchain.flags import Accuracy
from maxlab.toolchain.prelude import kernels_dir
from maxlab.toolchain.processes import parallel
from maxlab.toolchain.units import check as check_run

_INSTALL = (
    "install g++ (Debian/Ubuntu: apt install g++; Fedora: dnf install gcc-c++; "
    "conda: conda install -c conda-forge gxx)"
)
# Wrapping integers and loads through any pointer type are what a device does. Products and sums
# are fused only where the text says fmaf, so that results do not depend on the optimiser.
_COMMON = (
    "-std=c++17", "-g1", "-fPIC", "-pipe", "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti",
)  # fmt: skip
_MODULE = (
    "-fvisibility=hidden", "-fno-threadsafe-statics", "-fwrapv", "-ffp-contract=off",
    "-fno-math-errno", "-fno-trapping-math",
)  # fmt: skip
_FAST = ("-O2",)
# Of "fast", what nvcc's --use_fast_math has that g++ has too; no sums are reordered, as by nvcc.
_ACCURACY: dict[Accuracy, tuple[str, ...]] = {
    "exact": ("-DMX_EXACT",),
    "default": (),
    "fast": ("-fno-signed-zeros", "-freciprocal-math"),
}
# -O1 keeps the order and the number of accesses close to the text's.
_CHECKED = (
    "-O1", "-fsanitize=thread", "-fsanitize=bounds,alignment",
    "--param", "tsan-instrument-func-entry-exit=0",
)  # fmt: skip
_RECORDED = (*_CHECKED, "-fsanitize-coverage=trace-pc")  # also says which way branches go
_RUNTIME = ("-O2", "-pthread")
# Without the compiler's own choice of libraries, which would add libtsan.
_ERROR = re.compile(
    r"^(?P<file>[^:\n]+):\d+:(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.MULTILINE
)
_LINK = ("-shared", "-nostartfiles", "-nodefaultlibs")


class SimRuntime(NamedTuple):
    """The opened library of the simulator: where it is, its handle for `loader`, and its bytes,
    which modules are linked with whatever becomes of the file.
    """

    path: Path
    handle: Any
    data: bytes


class SimUnit(NamedTuple):
    """A compiled module.

    Attributes:
        path: its shared library, which has line tables for `source_lines`.
        handle: the opened library.
        runtime: the library that runs its kernels.
        hit: True if nothing was compiled for it.
        why_miss: None for a hit, else what was new; see `maxlab.toolchain.LoadedKernel`.
        ms: milliseconds of compiling or of loading.
    """

    path: Path
    handle: Any
    runtime: SimRuntime
    hit: bool
    why_miss: str | None
    ms: float


class Symbol(NamedTuple):
    """A variable in thread-local memory: its name as g++ mangles it, place and size in bytes."""

    name: str
    offset: int
    nbytes: int


_runtimes: dict[Path, SimRuntime] = {}
_kept: dict[bytes, bytes] = {}  # the bytes of open libraries, by the digest of their content
_digests: dict[Path, bytes] = {}
_lock = threading.Lock()


def compile_sim(
    text: str,
    *,
    name: str,
    kernels: Sequence[str],
    check: bool = False,
    record: bool = False,
    headers: Sequence[Path] = (),
) -> SimUnit:
    """The opened module of a CUDA text.

    Args:
        text: what nvcc would get, without headers that only nvcc has.
        name: what the text is called in messages and line tables, such as ``"kernel.cu"``.
        kernels: the names of its ``__global__`` functions; each gets an entry ``cs_run_<name>``.
        check: see every access to memory, at a tenth of the speed or less.
        record: with ``check``, see every branch too.
        headers: files to read before the text, in order; lines are counted without them.

    Raises:
        ToolchainError: ML501 no g++; ML502 it refused the text, with the line; ML503 the result
            cannot be loaded; ML505 it was killed or hung; ML507 it wrote none.
        CacheError: ML510, there is nowhere to write.
    """
    start = time.perf_counter()
    compiler = find_cxx()
    runtime = sim_runtime()
    arguments = module_arguments(compiler, check, record)
    entries = "\n".join(f"CS_KERNEL({kernel})" for kernel in kernels)
    before = [header.read_text(encoding="utf-8") for header in headers]
    key = module_key(compiler, arguments, "\0".join((name, text, entries, *before)))

    def build(folder: Path) -> Path:
        # The file has the text's name, because the compiler's line tables mix up files that
        # only a #line directive names.
        whole = f'{text}\n#line 1 "entry points"\n{entries}\nCS_MODULE\n'
        (folder / name).write_text(whole, encoding="utf-8")
        command = module_command(compiler, arguments, headers)
        command += ["-x", "c++", name, "-x", "none", *link_arguments(runtime, folder)]
        done = run([*command, "-o", "module.so"], cwd=folder)
        check_run(Finished(done.code, _at_the_text(done.output, name)), {name: text})
        return require_library(folder / "module.so", compiler.command)

    def accept(made: Artefact) -> None:
        opened(made, name)

    found, why = _cached(name, key, build, kernels, accept)
    handle = opened(found, name)
    ms = (time.perf_counter() - start) * 1e3
    return SimUnit(found.path, handle, runtime, why is None, why, ms)


def module_arguments(
    compiler: Compiler, check: bool, record: bool = False, *, accuracy: Accuracy = "default"
) -> list[str]:
    """The options that modules are compiled with."""
    how = _RECORDED if record else _CHECKED if check else _FAST
    return [*_COMMON, *_MODULE, *how, *_ACCURACY[accuracy], *compiler.machine_arguments]


def module_key(compiler: Compiler, arguments: Sequence[str], text: str) -> Key:
    """The name in the cache of what ``text`` becomes with these options."""
    return _key(compiler, arguments, text, _sources_digest())


def module_command(
    compiler: Compiler, arguments: Sequence[str], headers: Sequence[Path | str]
) -> list[str]:
    """The beginning of a compiler's command line: the language of CUDA, and ``headers``.

    Headers are paths, or names in ``kernels/cuda``.
    """
    folder = kernels_dir() / "cuda"
    command = [*compiler.command, *arguments, f"-I{folder / 'sim' / 'shims'}"]
    for included in ("cudasim.h", *headers):
        command += ["-include", str(folder / included)]
    return command


def link_arguments(runtime: SimRuntime, folder: Path) -> list[str]:
    """The end of a command line that makes a module in ``folder``, which gets a copy of the
    simulator's library to link with."""
    copy = folder / "cudasim.so"
    copy.write_bytes(runtime.data)
    return [*_LINK, str(copy), "-lm", "-lc", "-lgcc"]


def sim_runtime() -> SimRuntime:
    """The simulator's own library, compiled on first need (2 s) and opened.

    Raises:
        ToolchainError: as `compile_sim`; ML504, its sources are missing.
    """
    root = config().cache_dir
    found = _runtimes.get(root)
    if found is None:
        with _lock:
            found = _runtimes.get(root)
            if found is None:
                found = _runtimes[root] = _opened_runtime(_runtime())
    return found


def _opened_runtime(made: Artefact) -> SimRuntime:
    handle = opened(made, "maxlab-cudasim")
    return SimRuntime(made.path, handle, _kept[made.content.digest])


def opened(made: Artefact, name: str) -> Any:
    """The handle of a library of the simulator; see `loader.open_library`.

    Its bytes are kept, for others to link with and for `source_lines`, because the cache may be
    cleared.
    """
    if made.content.data:  # else it is open already
        _kept[made.content.digest] = made.content.data
    _digests[made.path] = made.content.digest
    return loader.open_library(made, name)


@contextmanager
def _file_of(library: Path) -> Iterator[Path]:
    """A file with the bytes of an open library: ``library`` itself, while it is there."""
    data = _kept.get(_digests.get(library, b""))
    if data is None or library.is_file():
        yield library
        return
    with tempfile.TemporaryDirectory(prefix="maxlab-") as folder:
        copy = Path(folder) / library.name
        copy.write_bytes(data)
        yield copy


def _runtime() -> Artefact:
    compiler = find_cxx()
    arguments = [*_COMMON, *_RUNTIME, *compiler.machine_arguments]
    folder = kernels_dir() / "cuda" / "sim"
    digest = _sources_digest()
    key = _key(compiler, arguments, "runtime", digest)

    def build(into: Path) -> Path:
        def one(source: Path) -> str:
            command = [*compiler.command, *arguments, "-c", str(source), "-o", f"{source.stem}.o"]
            check_run(run(command, cwd=into), {str(source): source.read_text(encoding="utf-8")})
            return f"{source.stem}.o"

        work = [partial(one, source) for source in sorted(folder.glob("*.cpp"))]
        objects = parallel(work, config().num_threads)
        # Modules depend on it by this name, wherever the cache is.
        soname = f"-Wl,-soname,maxlab-cudasim-{digest}{key.flags}.so"
        link = [*compiler.command, "-shared", "-pthread", soname, *objects, "-ldl"]
        check_run(run([*link, "-o", "cudasim.so"], cwd=into), {"cudasim": ""})
        return require_library(into / "cudasim.so", compiler.command)

    return _cached("cudasim", key, build, [], _opened_runtime)[0]


def find_cxx() -> Compiler:
    """The C++ compiler: the g++ that belongs to the C compiler in use, or g++ on the PATH.

    Raises:
        ToolchainError: ML501, there is none.
    """
    return _find_cxx(config().cc, os.environ.get("PATH", ""))


def _find_cxx(wanted: str | None, path: str) -> Compiler:
    found = _compilers.get((wanted, path))
    if found is None:
        names = ["g++", "c++"]
        if wanted is not None:  # MAXLAB_CC=gcc-13 means g++-13
            program = Path(find_compiler().path)
            if "gcc" in program.name:
                names.insert(0, str(program.with_name(program.name.replace("gcc", "g++"))))
        for name in names:
            program_path = shutil.which(name, path=path)
            if program_path is None:
                continue
            found = _identify((program_path,), program_path)
            if found.family == "gcc":
                return _compilers.setdefault((wanted, path), found)
        raise ToolchainError(
            "ML501",
            f"no g++ was found, which simulated CUDA needs: looked for {', '.join(names)}",
            why=[f"PATH is {path!r}"],
            fix=_INSTALL,
        )
    return found


_compilers: dict[tuple[str | None, str], Compiler] = {}


def source_lines(path: Path, addresses: Sequence[int], name: str) -> list[int | None]:
    """The lines of the text ``name`` that the code at ``addresses`` of the module comes from.

    None where no line is known; a function that was inlined counts where it was called from the
    text. An address is one after a call, as the simulator reports it.
    """
    program = shutil.which("addr2line")
    if program is None or not addresses:
        return [None] * len(addresses)
    with _file_of(path) as file:
        command = [program, "-e", str(file), "-i", "-a", *(hex(a - 1) for a in addresses)]
        output = run(command, errors=False).output
    # Under each address stand the places it was inlined from, innermost first.
    lines: list[int | None] = []
    for line in output.splitlines():
        if line.startswith("0x") and ":" not in line:
            lines.append(None)
            continue
        place, _, number = line.split(" (", 1)[0].rpartition(":")
        if lines and lines[-1] is None and os.path.basename(place) == name and number.isdigit():
            lines[-1] = int(number)
    return lines if len(lines) == len(addresses) else [None] * len(addresses)


def line_starts(path: Path) -> frozenset[int]:
    """The addresses where the module's line table names a line anew."""
    program = shutil.which("readelf")
    if program is None:
        return frozenset()
    with _file_of(path) as file:
        table = run([program, "--debug-dump=decodedline", str(file)], errors=False).output
    return frozenset(int(m[1], 16) for m in re.finditer(r"\d\s+0x([0-9a-f]+)\b", table))


def thread_local_symbols(path: Path) -> list[Symbol]:
    """The thread-local variables of a module, which its ``__shared__`` arrays are."""
    program = shutil.which("readelf")
    if program is None:
        raise ToolchainError("ML501", "readelf was not found beside the compiler", fix=_INSTALL)
    with _file_of(path) as file:
        table = run([program, "-sW", str(file)], errors=False).output
    rows = (line.split() for line in table.splitlines())
    found = {
        # Num: Value Size Type Bind Vis Ndx Name
        Symbol(row[7], int(row[1], 16), int(row[2], 0))
        for row in rows
        if len(row) >= 8 and row[3] == "TLS" and row[6] != "UND"
    }
    return sorted(found, key=lambda symbol: symbol.offset)


def _at_the_text(output: str, name: str) -> str:
    """``output`` with the line of the text first, if g++ found the error in what it calls."""
    error = _ERROR.search(output)
    if error is None or error["file"] == name:
        return output
    used = re.search(rf"^{re.escape(name)}:(\d+):(\d+):", output, re.MULTILINE)
    return f"{used[0]} error: {error['text']}\n{output}" if used else output


def _key(compiler: Compiler, arguments: Sequence[str], text: str, sources: str) -> Key:
    return Key(
        _digest(text, 16), sources, _digest("\0".join(arguments), 4), compiler.digest, compiler.cpu
    )


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()


def _sources_digest() -> str:
    """8 hex digits for the headers and the runtime, whose layouts modules are compiled with."""
    folder = kernels_dir() / "cuda"
    files = [folder / "cudasim.h", folder / "mx_device.cuh", *sorted((folder / "sim").rglob("*.*"))]
    digest = blake2b(digest_size=4)
    for file in files:
        if not file.is_file():
            raise ToolchainError(
                "ML504",
                f"a source of the simulator is missing: {file}",
                fix="reinstall maxlab: pip install --force-reinstall . in its checkout",
            )
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _cached(
    name: str,
    key: Key,
    build: Callable[[Path], Path],
    kernels: Sequence[str],
    accept: Callable[[Artefact], object],
) -> tuple[Artefact, str | None]:
    """The artefact and None, or why it had to be built."""
    start = time.perf_counter()
    store = cache()
    found, why = store.find(key)
    if found is None:
        why = why or "new text"
        with trace.span("compile", name, kernels=list(kernels), why=why) as event:
            [found] = store.build([key], build, accept)
            event.update(ms=(time.perf_counter() - start) * 1e3, bytes=found.content.size)
    ms = (time.perf_counter() - start) * 1e3
    trace.emit("cache", name, hit=why is None, why=why, ms=ms)
    return found, why
