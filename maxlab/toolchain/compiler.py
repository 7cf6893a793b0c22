"""Finding the C compiler and running it.

A compiler is known by its command, its version line and the CPU it compiles for: all
three are part of the name of an artefact, so a home directory shared by unlike machines
never hands one of them the code of another.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from maxlab.config import config
from maxlab.digests import blake2b
from maxlab.errors import ToolchainError
from maxlab.toolchain import processes, versions, zig

CANDIDATES = ("gcc", "cc", "clang")
INSTALL_HINT = (
    "install a C compiler (Debian/Ubuntu: apt-get install gcc, or clang; Fedora: dnf install gcc; "
    f"conda: conda install -c conda-forge gcc), or, without an administrator: {zig.INSTALL}; or "
    "set MAXLAB_CC to one"
)
TIMEOUT_S = 300.0
"""Seconds that a compilation may take; most take less than one."""
VERSION_TIMEOUT_S = 10.0
"""Seconds that a compiler may take to say its version, which costs a few milliseconds."""
_CHOOSE = "set MAXLAB_CC to another compiler, or unset it to let maxlab look"


_QUICK = (
    "-fno-openmp-simd", "-fno-ivopts", "-fno-tree-ccp", "-fno-tree-dominator-opts",
    "-fno-tree-pta", "-fno-tree-fre", "-fno-tree-sra", "-fno-tree-dse", "-fno-tree-copy-prop",
    "-fno-tree-sink", "-fno-tree-ter", "-fno-tree-loop-optimize", "-fno-move-loop-invariants",
    "-fno-dse", "-fno-cprop-registers", "-fno-forward-propagate", "-fno-split-wide-types",
    "-fno-if-conversion", "-fno-if-conversion2", "-fno-tree-ch", "-fno-tree-bit-ccp",
    "-fno-tree-slsr", "-fno-tree-scev-cprop", "-fno-tree-builtin-call-dce",
    "-fno-tree-coalesce-vars", "-fno-ipa-pure-const", "-fno-ipa-reference", "-fno-ipa-profile",
    "-fno-guess-branch-probability", "-fno-shrink-wrap", "-fno-compare-elim",
    "-fno-combine-stack-adjustments", "-fno-auto-inc-dec", "-fno-branch-count-reg",
    "-fno-reorder-blocks", "-fno-merge-constants",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler on this machine.

    Attributes:
        command: the program and its leading arguments (``("ccache", "gcc")``).
        path: where the program was found.
        version: the first line it prints for ``--version``; of zig, behind its own version.
        family: ``"gcc"``, ``"clang"`` or ``"zig"``, which is a clang too.
        cpu: 8 hex digits that stand for the CPU's model and features.
        machine: the architecture, such as ``"x86_64"``.
    """

    command: tuple[str, ...]
    path: str
    version: str
    family: str
    cpu: str
    machine: str

    @property
    def machine_arguments(self) -> tuple[str, ...]:
        """The arguments that select this machine's instructions."""
        if self.machine in ("x86_64", "AMD64"):
            # 512-bit vectors where the CPU has them; gcc would choose 256 on most.
            return ("-march=native", "-mprefer-vector-width=512")
        if self.machine in ("aarch64", "arm64"):
            return ("-mcpu=native",)
        return ()

    @property
    def family_arguments(self) -> tuple[str, ...]:
        """The arguments that make another family do what gcc does: contract products and sums to
        fused ones, and say nothing of loops that stay scalar. zig would watch for undefined
        behaviour, and add line tables, by itself."""
        if self.family == "gcc":
            return ()
        plain = ("-ffp-contract=fast", "-Wno-pass-failed")
        return (*plain, "-fno-sanitize=undefined", "-g0") if self.family == "zig" else plain

    @property
    def brief_arguments(self) -> tuple[str, ...]:
        """The arguments that leave out the loops of narrower vectors for what is left when a loop
        of whole vectors has ended: a quarter less to compile, and 8 or more elements that are left
        take 20 to 50 ns longer. Empty where the compiler is not known to have them."""
        return ("--param=vect-epilogues-nomask=0",) if self._is_known_gcc else ()

    @property
    def quick_arguments(self) -> tuple[str, ...]:
        """The arguments that compile in a quarter of the time: loops stay scalar, and passes that
        only make code faster are left out. None of these passes changes a value, so the results of
        a loop that adds nothing up are those of optimised code, bit by bit. Empty where the
        compiler is not known to have the options."""
        return _QUICK if self._is_known_gcc else ()

    @property
    def _is_known_gcc(self) -> bool:
        """Whether it is a gcc whose options were tried."""
        number = re.search(r"(\d+)\.\d+\.\d+$", self.version)
        return self.family == "gcc" and number is not None and 8 <= int(number[1]) <= 15

    @property
    def link_arguments(self) -> tuple[str, ...]:
        """The arguments that make a shared library with the least work."""
        if self.family == "gcc":
            # No start files: a kernel library has no constructors, and they cost 6 ms.
            return ("-shared", "-nostdlib", "-lgcc", "-lm")
        return ("-shared", "-lm")

    @property
    def description(self) -> str:
        """The version, and where the program is, in words."""
        place = f"{self.path}, of the package {zig.PACKAGE}" if self.is_packaged else self.path
        return f"{self.version} ({place})"

    @property
    def is_packaged(self) -> bool:
        """Whether it is that of the package ``ziglang``."""
        return self.family == "zig" and f"/{zig.PACKAGE}/" in self.path

    def make_ready(self) -> None:
        """Let a compiler that builds a part of itself do so, the first time on this machine.

        Raises:
            ToolchainError: ML508, it cannot.
        """
        if self.family == "zig":
            arguments = (*self.machine_arguments, *self.family_arguments, "-O1", "-fPIC")
            zig.warm(self.command, self.version, (*arguments, *self.link_arguments), run)

    @property
    def digest(self) -> str:
        """8 hex digits for the family, the command and the version."""
        first, last = self.command[:-1], os.path.basename(self.command[-1])
        if self.family == "zig":  # each environment of Python has its own
            first = ("zig", *self.command[1:-1])
        text = "\0".join((self.family, *first, last, self.version))
        return blake2b(text.encode(), digest_size=4).hexdigest()


def find_compiler() -> Compiler:
    """The compiler that ``MAXLAB_CC`` names, or the first of gcc, cc and clang on the PATH, or that
    of the package ``ziglang``.

    ``zig`` as the value of ``MAXLAB_CC`` names the program on the PATH or that of the package.

    Raises:
        ToolchainError: ML501, there is none, or it does not run; ML508, the package is not whole.
    """
    wanted = config().cc
    relative = wanted is not None and "/" in wanted and not wanted.startswith("/")
    asked = wanted, os.environ.get("PATH", ""), os.getcwd() if relative else ""
    found = _find(*asked)
    mark = _mark_of(found.path)
    if _marks.setdefault(asked, mark) != mark:  # another program has the name now
        _find.cache_clear()
        _marks.clear()
        found = _find(*asked)
        _marks[asked] = _mark_of(found.path)
    return found


_marks: dict[tuple[str | None, str, str], tuple[int, ...]] = {}


def _mark_of(path: str) -> tuple[int, ...]:
    """A mark that stays the same while the program at ``path`` does; empty when there is none."""
    try:
        info = os.stat(path)
    except OSError:
        return ()
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def _which(name: str, path: str) -> str | None:
    """The program ``name`` in the folders of ``path``, as ``shutil.which`` finds it, whose imports
    take longer than all of a load."""
    folders = path.split(os.pathsep) if path else []
    for folder in [""] if os.path.dirname(name) else folders:
        program = os.path.join(folder, name)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None


@functools.lru_cache(maxsize=16)
def _find(wanted: str | None, path: str, folder: str) -> Compiler:
    """As `find_compiler`; a relative path is one from ``folder``, the working directory."""
    if wanted is not None:
        try:
            command = tuple(shlex.split(wanted))
            program = _which(command[0], path) if command else None
            if command == ("zig",):  # the program, whose compiler it is that is meant
                command, program = ("zig", "cc"), program or zig.packaged()
        except ValueError as error:  # a quote that is not closed, a NUL
            raise _not_found(wanted, f"cannot be read: {str(error).lower()}") from error
        if program is None:
            is_folder = bool(command) and os.path.isdir(command[0])
            raise _not_found(wanted, "is a folder" if is_folder else "was not found")
        program = os.path.abspath(program)  # it is run in other directories
        return _identify((program, *command[1:]), program)
    for name in CANDIDATES:
        program = _which(name, path)
        if program is not None:
            program = os.path.abspath(program)
            return _identify((program,), program)
    program = zig.packaged()
    if program is not None:
        return _identify((program, "cc"), program)
    raise ToolchainError(
        "ML501",
        f"no C compiler was found: looked for {', '.join(CANDIDATES)} on the PATH, and for the "
        f"package {zig.PACKAGE}",
        why=[f"PATH is {path!r}"],
        fix=INSTALL_HINT,
    )


def _not_found(wanted: str, what: str) -> ToolchainError:
    return ToolchainError(
        "ML501",
        f"the C compiler {wanted!r}, set by MAXLAB_CC, {what}",
        fix="set MAXLAB_CC to an installed compiler, or unset it to let maxlab look",
    )


def _identify(command: tuple[str, ...], path: str) -> Compiler:
    key = versions.key_of(command, path)
    told = versions.recall(key)
    if told is None:
        told = _asked(command)
        versions.keep(key, path, told)
    return Compiler(command, path, told.version, told.family, cpu_digest(), platform.machine())


def _asked(command: tuple[str, ...]) -> versions.Told:
    """The version and the family that ``command`` says it is of."""
    done = run([*command, "--version"], timeout_s=VERSION_TIMEOUT_S)
    lines = done.output.splitlines()
    if done.code != 0 or not lines:
        raise ToolchainError(
            "ML501",
            f"{shlex.join(command)} --version failed with status {done.code}",
            why=lines[:3],
            fix=INSTALL_HINT,
        )
    version = lines[0]
    family = "clang" if "clang" in done.output.lower() else "gcc"
    if zig.is_zig(command):
        own = run([command[0], "version"], timeout_s=VERSION_TIMEOUT_S).output.strip()
        family, version = "zig", f"zig {own}, {version}"
    return versions.Told(version, family)


@functools.cache
def cpu_digest() -> str:
    """8 hex digits for the model and the features of this machine's CPU."""
    return blake2b(cpu_description().encode(), digest_size=4).hexdigest()


@functools.cache
def cpu_description() -> str:
    """The lines of the first processor in /proc/cpuinfo that decide what code it can run."""
    keep = (
        "vendor_id", "cpu family", "model", "model name", "flags",
        "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features", "isa",
    )  # fmt: skip
    lines = [platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
            for line in info:
                if not line.strip():
                    break  # one processor says it all, and 256 of them take a while to print
                name, _, value = line.partition(":")
                if name.strip() in keep:
                    lines.append(f"{name.strip()}={' '.join(sorted(value.split()))}")
    except OSError:
        lines.append(platform.processor())
    return "\n".join(lines)


@functools.cache
def cpu_features() -> frozenset[str]:
    """The features of this machine's CPU, as the system lists them. Code for a CPU runs on each CPU
    of the same architecture that has all of them."""
    for line in cpu_description().splitlines():
        name, _, value = line.partition("=")
        if name in ("flags", "Features", "isa"):
            return frozenset(value.split())
    return frozenset()


@dataclass(frozen=True, slots=True)
class Finished:
    """How a compiler run ended: its status (negative: a signal) and all it printed."""

    code: int
    output: str


def run(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    timeout_s: float | None = None,
    errors: bool = True,
) -> Finished:
    """The outcome of a finished command; its temporary files go to ``cwd``.

    An interrupt ends the command and all that it has started.

    Args:
        command: the program and its arguments.
        cwd: the folder it runs in.
        timeout_s: seconds that it may take; `TIMEOUT_S` when not given.
        errors: whether its standard error is a part of the output.

    Raises:
        ToolchainError: ML505, it cannot be started or did not end in time.
    """
    # English messages, which the error mapping reads, whatever the user's language.
    env = {**os.environ, "LC_ALL": "C"}
    if cwd is not None:
        env["TMPDIR"] = str(cwd)
    if zig.is_zig(command):
        env.update(zig.environment(cwd))
    limit = TIMEOUT_S if timeout_s is None else timeout_s
    try:
        code, output = processes.run_process(
            command, cwd=cwd, env=env, timeout_s=limit, errors=errors
        )
    except processes.TimeLimitError:
        name = os.path.basename(command[0])
        asked = f"{name} --version" if list(command[-1:]) == ["--version"] else name
        raise ToolchainError(
            "ML505",
            f"{asked} did not end within {limit:.0f} s",
            fix=f"try again when the machine is less busy, or {_CHOOSE}",
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL
        raise ToolchainError(
            "ML505", f"{command[0]} could not be started: {error}", fix=f"{_CHOOSE}; {INSTALL_HINT}"
        ) from error
    return Finished(code, output.decode("utf-8", "replace"))


_ELF = struct.Struct("<4sBB10x HHIQQQIHHH")  # up to the number of program headers
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOAD = 1


def require_library(path: Path, command: Sequence[str]) -> Path:
    """``path`` itself, if it is a whole shared library.

    The loader believes what the header of a file says of its length, and touching what is not
    there would kill the process.

    Args:
        path: what a compiler was to write.
        command: the compiler, which said that it was successful.

    Raises:
        ToolchainError: ML507, it is not there, no regular file, no library, or a part of one.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            info = os.fstat(handle)
            wrong = _what_is_wrong(info, file.read(1 << 16) if stat.S_ISREG(info.st_mode) else b"")
    except OSError as error:  # no file; a folder, a link
        wrong = "no file" if isinstance(error, FileNotFoundError) else "no regular file"
    if wrong:
        raise ToolchainError(
            "ML507",
            f"{os.path.basename(command[0])} said that it was successful, and wrote {wrong}",
            why=[f"it was to write the shared library {path.name}"],
            fix=f"see what it does by hand, and {_CHOOSE}",
        )
    return path


def _what_is_wrong(info: os.stat_result, head: bytes) -> str:
    """The fault of a file that is no whole library; "" for one that is. ``head`` begins it."""
    if not stat.S_ISREG(info.st_mode):
        return "no regular file"
    if not head:
        return "an empty file"
    if not head.startswith(b"\x7fELF"):
        return "something else than a library"
    if head[4:6] != b"\x02\x01":  # not 64 bits, little-endian: the loader has its own checks
        return ""
    if len(head) < _ELF.size:
        return "a part of a library"
    *_, table, sections, _, _, _, count = _ELF.unpack_from(head)
    ends = [sections, table + count * _SEGMENT.size]
    for number in range(count):
        place = table + number * _SEGMENT.size
        if place + _SEGMENT.size > len(head):
            break
        kind, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(head, place)
        if kind == _LOAD:
            ends.append(offset + size)
    return "a part of a library" if max(ends) > info.st_size else ""
