"""Finding the C compiler and running it.

A compiler is known by its command, its version line and the CPU it compiles for: all
three are part of the name of an artefact, so a home directory shared by unlike machines
never hands one of them the code of another.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from maxlab.config import config
from maxlab.errors import ToolchainError

CANDIDATES = ("gcc", "cc", "clang")
INSTALL_HINT = (
    "install a C compiler (Debian/Ubuntu: apt install gcc; Fedora: dnf install gcc; "
    "conda: conda install -c conda-forge gcc), or set MAXLAB_CC to one"
)
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler on this machine.

    Attributes:
        command: the program and its leading arguments (``("ccache", "gcc")``).
        path: where the program was found.
        version: the first line it prints for ``--version``.
        family: ``"gcc"`` or ``"clang"``.
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
    def link_arguments(self) -> tuple[str, ...]:
        """The arguments that make a shared library with the least work."""
        if self.family == "gcc":
            # No start files: a kernel library has no constructors, and they cost 6 ms.
            return ("-shared", "-nostdlib", "-lgcc", "-lm")
        return ("-shared", "-nostartfiles", "-lm")

    @property
    def digest(self) -> str:
        """8 hex digits for the command and the version."""
        text = "\0".join((*self.command[:-1], os.path.basename(self.command[-1]), self.version))
        return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def find_compiler() -> Compiler:
    """The compiler that ``MAXLAB_CC`` names, or the first of gcc, cc and clang on the PATH.

    Raises:
        ToolchainError: ML501, there is none, or it does not run.
    """
    return _find(config().cc, os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=16)
def _find(wanted: str | None, path: str) -> Compiler:
    if wanted is not None:
        command = tuple(shlex.split(wanted))
        program = shutil.which(command[0], path=path) if command else None
        if program is None:
            raise ToolchainError(
                "ML501",
                f"the C compiler {wanted!r}, set by MAXLAB_CC, was not found",
                fix="set MAXLAB_CC to an installed compiler, or unset it to let maxlab look",
            )
        program = os.path.abspath(program)  # it is run in other directories
        return _identify((program, *command[1:]), program)
    for name in CANDIDATES:
        program = shutil.which(name, path=path)
        if program is not None:
            program = os.path.abspath(program)
            return _identify((program,), program)
    raise ToolchainError(
        "ML501",
        f"no C compiler was found: looked for {', '.join(CANDIDATES)} on the PATH",
        why=[f"PATH is {path!r}"],
        fix=INSTALL_HINT,
    )


def _identify(command: tuple[str, ...], path: str) -> Compiler:
    done = run([*command, "--version"], timeout_s=30.0)
    lines = done.output.splitlines()
    if done.code != 0 or not lines:
        raise ToolchainError(
            "ML501",
            f"{shlex.join(command)} --version failed with status {done.code}",
            why=lines[:3],
            fix=INSTALL_HINT,
        )
    family = "clang" if "clang" in done.output.lower() else "gcc"
    return Compiler(command, path, lines[0], family, cpu_digest(), platform.machine())


@functools.cache
def cpu_digest() -> str:
    """8 hex digits for the model and the features of this machine's CPU."""
    return hashlib.blake2b(cpu_description().encode(), digest_size=4).hexdigest()


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


@dataclass(frozen=True, slots=True)
class Finished:
    """How a compiler run ended: its status (negative: a signal) and all it printed."""

    code: int
    output: str


def run(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Finished:
    """The outcome of a finished command; its temporary files go to ``cwd``.

    Raises:
        ToolchainError: ML505, it cannot be started or did not end in time.
    """
    # English messages, which the error mapping reads, whatever the user's language.
    env = {**os.environ, "LC_ALL": "C"}
    if cwd is not None:
        env["TMPDIR"] = str(cwd)
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            "ML505",
            f"{os.path.basename(command[0])} did not end within {timeout_s:.0f} s",
            fix="try again when the machine is less busy, or set MAXLAB_CC to another compiler",
        ) from None
    except OSError as error:
        raise ToolchainError(
            "ML505", f"{command[0]} could not be started: {error}", fix=INSTALL_HINT
        ) from error
    return Finished(done.returncode, done.stdout.decode("utf-8", "replace"))
