"""The needs of a compiled CUDA kernel of a multiprocessor, and its machine code.

The numbers are those that ptxas prints (``-v``): they need no GPU, and unlike the attributes of a
loaded function they tell spilled registers from arrays in local memory.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from maxlab.errors import ToolchainError
from maxlab.toolchain.compiler import run
from maxlab.toolchain.nvlib import find_program

_ENTRY = re.compile(r"Compiling entry function '(?P<name>\w+)' for '(?P<arch>\w+)'")
_PROPERTIES = re.compile(r"Function properties for (?P<name>\w+)")
_STACK = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<bytes>\d+)(?:\+(?P<more>\d+))? bytes smem")
_BARRIERS = re.compile(r"used (?P<count>\d+) barriers")
_CONSTANT = re.compile(r"(?P<bytes>\d+) bytes cmem\[(?P<bank>\d+)\]")


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """The needs of one thread or one block of a kernel.

    Attributes:
        registers: of a thread.
        shared_bytes: static shared memory of a block.
        stack_bytes: local memory of a thread, spilled registers included.
        spill_store_bytes: of the instructions that spill registers, each counted once.
        spill_load_bytes: of those that bring them back.
        barriers: named barriers of a block.
        constant_bytes: constant memory in all banks that ptxas names.
    """

    registers: int
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    barriers: int = 0
    constant_bytes: int = 0


def parse_usage(log: str) -> dict[str, ResourceUsage]:
    """The kernels that ptxas reports on in ``log``, by name.

    Example:
        >>> log = '''ptxas info    : Compiling entry function 'k' for 'sm_90'
        ... ptxas info    : Function properties for k
        ...     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
        ... ptxas info    : Used 32 registers, used 1 barriers, 8 bytes cumulative stack size, \
512 bytes smem'''
        >>> parse_usage(log)["k"].shared_bytes
        512
    """
    found: dict[str, ResourceUsage] = {}
    entry = function = ""
    frames: dict[str, tuple[int, int, int]] = {}
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = match["name"]
        elif match := _PROPERTIES.search(line):
            function = match["name"]
        elif match := _STACK.search(line):
            frames[function or entry] = (
                int(match["stack"]), int(match["stores"]), int(match["loads"]),
            )  # fmt: skip
        elif entry and (match := _USED.search(line)):
            shared, barriers = _SHARED.search(line), _BARRIERS.search(line)
            stack, stores, loads = frames.get(entry, (0, 0, 0))
            found[entry] = ResourceUsage(
                registers=int(match["registers"]),
                shared_bytes=int(shared["bytes"]) + int(shared["more"] or 0) if shared else 0,
                stack_bytes=stack,
                spill_store_bytes=stores,
                spill_load_bytes=loads,
                barriers=int(barriers["count"]) if barriers else 0,
                constant_bytes=sum(int(m["bytes"]) for m in _CONSTANT.finditer(line)),
            )
            entry = function = ""
    return found


def sass(cubin: bytes, name: str | None = None) -> str:
    """The machine code of a cubin as text, by cuobjdump or nvdisasm.

    Args:
        cubin: as of `maxlab.toolchain.cuda.CudaUnit`.
        name: only the code of this kernel.

    Raises:
        ToolchainError: ML501, neither program is installed; ML502, it refuses the file; ML503,
            there is no kernel ``name`` in it.
    """
    dump, disassembler = find_program("cuobjdump"), find_program("nvdisasm")
    if dump is None and disassembler is None:
        raise ToolchainError(
            "ML501",
            "machine code cannot be shown: neither cuobjdump nor nvdisasm was found",
            fix="pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm, or install the CUDA "
            "toolkit and set CUDA_HOME",
        )
    with tempfile.TemporaryDirectory(prefix="maxlab-sass-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        # cuobjdump calls nvdisasm itself, so the latter alone is enough and better.
        if disassembler is not None:
            command = [str(disassembler), "-c", str(file)]
        else:
            command = [str(dump), "-sass", str(file)]
        done = run(command, timeout_s=60.0)
    if done.code != 0:
        raise ToolchainError(
            "ML502",
            f"{Path(command[0]).name} refused the cubin with status {done.code}",
            why=done.output.splitlines()[-3:],
            fix="use the disassembler of the toolkit that compiled the kernel, or a newer one",
        )
    return done.output if name is None else _one_function(done.output, name)


def _one_function(text: str, name: str) -> str:
    """The part of a listing that is about ``name``: from its heading to the next one."""
    heading = re.compile(
        r"^(?:\s*Function : (?P<a>\w+)|//-+ \.text\.(?P<b>\w+) -+|"
        r"\s*\.section\s+\.text\.(?P<c>\w+).*)$",
        re.MULTILINE,
    )
    marks = [(m.start(), m["a"] or m["b"] or m["c"]) for m in heading.finditer(text)]
    parts = []
    for index, (start, found) in enumerate(marks):
        end = marks[index + 1][0] if index + 1 < len(marks) else len(text)
        if found == name:
            parts.append(text[start:end])
    if not parts:
        raise ToolchainError(
            "ML503",
            f"the cubin has no kernel {name}",
            fix=f"name one of: {', '.join(sorted({found for _, found in marks})) or 'none'}",
        )
    return "".join(parts)
