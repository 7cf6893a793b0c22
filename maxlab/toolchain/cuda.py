"""CUDA kernels from source text: cubins, compiled if they are new, found if they are not.

The CUDA side of `maxlab.toolchain.units`: one cache entry a kernel, new kernels grouped into
translation units that are compiled at the same time. A unit that is refused is compiled again
kernel by kernel, so that an error names the kernel it belongs to and two kernels that use one
name for different helpers still compile. Nothing here needs a GPU.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import struct
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from maxlab import trace
from maxlab.config import config
from maxlab.digests import blake2b
from maxlab.errors import ToolchainError
from maxlab.toolchain.artefacts import Artefact, Cache, Content, Key, cache
from maxlab.toolchain.cuda_compiler import (
    CudaCompiler,
    CudaFlags,
    check_architecture,
    find_cuda_compiler,
)
from maxlab.toolchain.cuda_diagnose import compile_error, line_name
from maxlab.toolchain.cuda_usage import ResourceUsage, parse_usage, sass
from maxlab.toolchain.diagnose import NO_SPACE
from maxlab.toolchain.prelude import kernels_dir
from maxlab.toolchain.processes import parallel

FIRST_HEADER = "mx_device.cuh"
KERNELS_PER_UNIT = 16
_DEFAULT = CudaFlags()
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_LENGTH = struct.Struct("<Q")


class DeviceText(Protocol):
    """A kernel as CUDA text; `maxlab.driver.backend.DeviceSource` is one."""

    @property
    def name(self) -> str:
        """Its entry name; the text may define other kernels as well."""

    @property
    def text(self) -> str:
        """CUDA C++ without headers, by the rules of ``kernels/cuda/README.md``."""

    @property
    def headers(self) -> tuple[str, ...]:
        """File names in ``kernels/cuda``, read in this order after ``mx_device.cuh``."""


@dataclass(frozen=True, slots=True)
class CudaUnit:
    """A kernel that can be loaded.

    Attributes:
        name: its entry name.
        arch: what it was compiled for.
        path: the artefact that holds it; kernels that were compiled together are links to one.
        cubin: machine code; the same object for kernels that were compiled together.
        usage: what it needs of a multiprocessor; None if the compiler did not say.
        hit: True if nothing was compiled for it.
        why_miss: None for a hit, else ``"new text"``, ``"flags changed"``,
            ``"compiler changed"``, ``"architecture changed"``, ``"headers changed"`` or
            ``"corrupt entry rebuilt"``.
        ms: milliseconds of compiling (its share of its unit, by length) or of finding.
    """

    name: str
    arch: str
    path: Path
    cubin: bytes = field(repr=False)
    usage: ResourceUsage | None
    hit: bool
    why_miss: str | None
    ms: float


class _Missing(NamedTuple):
    text: str
    headers: tuple[Path, ...]
    names: tuple[str, ...]
    key: Key
    why: str


class _Job(NamedTuple):
    """The part that all units of a call share."""

    store: Cache
    compiler: CudaCompiler
    arch: str
    flags: CudaFlags


def compile_cuda(
    sources: Sequence[DeviceText],
    arch: str,
    *,
    flags: CudaFlags | None = None,
    jobs: int | None = None,
) -> list[CudaUnit]:
    """The compiled kernels of ``sources``, in their order.

    Args:
        sources: the kernels; the same one may come several times.
        arch: such as ``"sm_80"``, ``"sm_90a"`` or ``"sm_100"``. ``wgmma`` and ``setmaxnreg``
            need the ``a`` of ``sm_90a``; code for it runs on no other architecture.
        flags: compiler options; `CudaFlags()` when not given.
        jobs: compilations at once; by default the session's number of threads.

    Raises:
        ToolchainError: ML501 no compiler; ML502 it refused a kernel, with the line of its text,
            or there is no such architecture; ML503 a text does not define the kernel it is named
            after; ML504 a header is missing; ML505 the compiler was killed or hung.
        CacheError: ML510, there is nowhere to write.
    """
    flags = flags or _DEFAULT
    check_architecture(arch)
    wanted: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for source in sources:
        names = wanted.setdefault((source.text, tuple(source.headers)), [])
        if source.name not in names:
            names.append(source.name)
    job = _Job(cache(), find_cuda_compiler(), arch, flags)
    done: dict[tuple[str, tuple[str, ...], str], CudaUnit] = {}
    missing: list[_Missing] = []
    for (text, headers), names in wanted.items():
        start = time.perf_counter()
        files = _header_files(headers)
        key = _key(job, text, files)
        found, why = job.store.find(key)
        if found is None:
            missing.append(_Missing(text, files, tuple(names), key, _in_cuda_words(why)))
            continue
        for unit in _open(found, names, arch, hit=True, why=None, start=start):
            trace.emit("cache", unit.name, hit=True, ms=unit.ms)
            done[text, headers, unit.name] = unit
    folder = kernels_dir() / "cuda"
    for item, unit in _compile_missing(job, missing, jobs):
        trace.emit("cache", unit.name, hit=False, why=item.why, ms=unit.ms)
        headers = tuple(file.relative_to(folder).as_posix() for file in item.headers[1:])
        done[item.text, headers, unit.name] = unit
    return [done[source.text, tuple(source.headers), source.name] for source in sources]


def ptx(source: DeviceText, arch: str, *, flags: CudaFlags | None = None) -> str:
    """The PTX of a kernel: what the compiler's front end made of the text, before registers and
    machine instructions are chosen.

    Raises:
        ToolchainError: As `compile_cuda`.
    """
    flags = flags or _DEFAULT
    check_architecture(arch)
    store, compiler = cache(), find_cuda_compiler()
    folder = store.build_dir()
    try:
        files = _header_files(tuple(source.headers))
        arguments = [*flags.arguments(), f"-I{kernels_dir() / 'cuda'}"]
        text = _unit_text([(source.name, source.text)])
        done = compiler.compile(text, arch, arguments, files, folder, ptx=True)
        if done.status != 0:
            raise compile_error(done.status, done.log, {source.name: source.text})
        return done.code.decode("utf-8", "replace")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- names of artefacts


def _header_files(headers: Iterable[str]) -> tuple[Path, ...]:
    folder = kernels_dir() / "cuda"
    files = tuple(folder / name for name in (FIRST_HEADER, *headers))
    for file in files:
        if not file.is_file():
            raise ToolchainError(
                "ML504",
                f"a CUDA header is missing: {file.name}",
                why=[f"looked in {folder}"],
                fix="reinstall maxlab: pip install --force-reinstall . in its checkout",
            )
    return files


def _key(job: _Job, text: str, headers: Sequence[Path]) -> Key:
    return Key(
        blake2b(text.encode(), digest_size=16).hexdigest(),
        _headers_digest(headers),
        job.flags.digest(),
        blake2b(job.compiler.description.encode(), digest_size=4).hexdigest(),
        job.arch,
    )


def _headers_digest(headers: Sequence[Path]) -> str:
    """8 hex digits for the headers and what they include from their own folder."""
    digest = blake2b(digest_size=4)
    queue, seen = list(headers), set()
    while queue:
        file = queue.pop(0)
        if file in seen:
            continue
        seen.add(file)
        content = _content(file, file.stat().st_mtime_ns)
        digest.update(file.name.encode() + b"\0" + content + b"\0")
        included = _INCLUDE.findall(content.decode("utf-8", "replace"))
        queue += [file.parent / name for name in included if (file.parent / name).is_file()]
    return digest.hexdigest()


_contents: dict[Path, tuple[int, bytes]] = {}


def _content(file: Path, changed_ns: int) -> bytes:
    found = _contents.get(file)
    if found is None or found[0] != changed_ns:
        found = _contents[file] = changed_ns, file.read_bytes()
    return found[1]


def _in_cuda_words(why: str | None) -> str:
    """The cache's reason, with the parts of the key called what they are here."""
    text = why or "new text"
    return text.replace("cpu", "architecture").replace("prelude", "headers")


# ---------------------------------------------------------------- artefacts


def _pack(cubin: bytes, usage: dict[str, ResourceUsage]) -> bytes:
    """An artefact: the cubin, the numbers as JSON and their length. A loader of ELF files never
    looks behind what the header names, so the file can be disassembled as it is.
    """
    notes = json.dumps({name: asdict(use) for name, use in usage.items()}, sort_keys=True)
    return cubin + notes.encode() + _LENGTH.pack(len(notes.encode()))


def _unpack(body: bytes) -> tuple[bytes, dict[str, ResourceUsage]]:
    (size,) = _LENGTH.unpack(body[-_LENGTH.size :])
    end = len(body) - _LENGTH.size
    notes = json.loads(body[end - size : end])
    return body[: end - size], {name: ResourceUsage(**use) for name, use in notes.items()}


# By the digest of the content: kernels that were compiled together are read once.
_opened: dict[bytes, tuple[bytes, dict[str, ResourceUsage]]] = {}
_opening = threading.Lock()


def _unpacked(content: Content) -> tuple[bytes, dict[str, ResourceUsage]]:
    """The cubin of an artefact, and what its kernels need."""
    with _opening:
        found = _opened.get(content.digest)
        if found is None:
            found = _opened[content.digest] = _unpack(content.data)
            content.data = b""
        return found


def _open(
    artefact: Artefact,
    names: Sequence[str],
    arch: str,
    *,
    hit: bool,
    why: str | None,
    start: float,
) -> list[CudaUnit]:
    """The kernels ``names`` of an artefact."""
    cubin, usage = _unpacked(artefact.content)
    path = artefact.path
    ms = (time.perf_counter() - start) * 1e3 / len(names)
    units = []
    for name in names:
        if usage and name not in usage:
            raise ToolchainError(
                "ML503",
                f"the CUDA text defines no kernel {name}",
                why=[f"it defines {', '.join(sorted(usage))}"],
                fix=f'write extern "C" __global__ void {name}(...), or name one that is there',
            )
        units.append(CudaUnit(name, arch, path, cubin, usage.get(name), hit, why, ms))
    return units


# ---------------------------------------------------------------- compiling


def group(missing: Sequence[_Missing], jobs: int) -> list[list[_Missing]]:
    """The kernels of each translation unit: at most 16 that read the same headers, of about equal
    length of text.
    """
    by_headers: dict[tuple[Path, ...], list[_Missing]] = {}
    for item in missing:
        by_headers.setdefault(item.headers, []).append(item)
    groups: list[list[_Missing]] = []
    for items in by_headers.values():
        share = -(-jobs * len(items) // len(missing))
        count = max(-(-len(items) // KERNELS_PER_UNIT), min(share, len(items)))
        parts: list[list[_Missing]] = [[] for _ in range(count)]
        loads = [0] * count
        for item in sorted(items, key=lambda m: (-len(m.text), m.names)):
            room = [i for i in range(count) if len(parts[i]) < KERNELS_PER_UNIT]
            lightest = min(room, key=loads.__getitem__)
            parts[lightest].append(item)
            loads[lightest] += len(item.text)
        groups += parts
    return groups


def _compile_missing(
    job: _Job, missing: list[_Missing], jobs: int | None
) -> list[tuple[_Missing, CudaUnit]]:
    if not missing:
        return []
    jobs = max(jobs or config().num_threads, 1)
    groups = group(missing, jobs)
    done = parallel([partial(_compile_group, job, part) for part in groups], jobs)
    return [pair for made in done for pair in made]


def _compile_group(job: _Job, part: list[_Missing]) -> list[tuple[_Missing, CudaUnit]]:
    names = [name for item in part for name in item.names]
    why = {name: item.why for item in part for name in item.names}
    start = time.perf_counter()
    with trace.span("compile", names[0], kernels=names, why=why, arch=job.arch) as event:
        try:
            artefacts = _build(job, part)
        except ToolchainError as error:
            if len(part) == 1 or error.code != "ML502":
                raise
            # Each on its own: the error of the first that is really wrong, or all of them.
            return [pair for item in part for pair in _compile_group(job, [item])]
        event.update(ms=(time.perf_counter() - start) * 1e3, bytes=artefacts[0].content.size)
    ms = (time.perf_counter() - start) * 1e3
    total = sum(len(item.text) for item in part) or 1
    made: list[tuple[_Missing, CudaUnit]] = []
    for item, artefact in zip(part, artefacts, strict=True):
        share = ms * len(item.text) / total
        began = time.perf_counter() - share / 1e3
        units = _open(artefact, item.names, job.arch, hit=False, why=item.why, start=began)
        made += [(item, unit) for unit in units]
    return made


def _build(job: _Job, part: list[_Missing]) -> list[Artefact]:
    text = _unit_text([(item.names[0], item.text) for item in part])

    def make(folder: Path) -> Path:
        arguments = [*job.flags.arguments(), f"-I{kernels_dir() / 'cuda'}"]
        done = job.compiler.compile(text, job.arch, arguments, part[0].headers, folder)
        if done.status != 0:
            if NO_SPACE in done.log:
                raise OSError(errno.ENOSPC, NO_SPACE)
            raise compile_error(done.status, done.log, {item.names[0]: item.text for item in part})
        (folder / "unit.cu").write_text(text, encoding="utf-8")
        built = folder / "unit.cubin"
        built.write_bytes(_pack(done.code, parse_usage(done.log)))
        return built

    source = "unit.cu" if config().keep_source else None
    return job.store.build([item.key for item in part], make, source=source)


def _unit_text(sources: Sequence[tuple[str, str]]) -> str:
    """The text of a unit; each kernel's lines are counted from 1 under its name."""
    return "".join(f'#line 1 "{line_name(name)}"\n{text}\n' for name, text in sources)


__all__ = [
    "FIRST_HEADER",
    "KERNELS_PER_UNIT",
    "CudaFlags",
    "CudaUnit",
    "DeviceText",
    "ResourceUsage",
    "compile_cuda",
    "ptx",
    "sass",
]
