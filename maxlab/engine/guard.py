"""Guard mode: kernels of users run in a process of their own, so that what they do wrong is an
error and not the end of this process.

A guarded step of a plan is a function of Python, as a host call is (ADR 007): the executor calls it
on the thread that runs the model. It copies what the kernel reads into memory that it shares with a
`toolchain.child.Child`, has the kernel run there, and copies back what it has written, when it has
ended well. The machine code, the chunks and the sizes are those of a run without a guard.

Each argument has a *room* of whole pages. Its bytes stand at the end of the room, aligned to 64::

    zone | front: marks ... | bytes of the argument | back: marks, less than 64 | zone

Nobody may touch a zone, and nobody may write into the room of an operand that is only read: the
processor stops a kernel that does. Marks that a kernel has changed are found when it has ended.
"""

from __future__ import annotations

import mmap
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Launch, Step
from maxlab.engine.handle_errors import user_kernel
from maxlab.engine.host_calls import GUARD_FAILED
from maxlab.engine.kernel_log import WORDS as LOG_WORDS
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    ExecutionError,
    MaxlabError,
)
from maxlab.toolchain import guarded
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.child import Child, ChildEndedError, signal_name

if TYPE_CHECKING:
    from maxlab.ir import Function

Array = np.ndarray[Any, Any]

ALIGNMENT = 64
ERR_AT = 2
"""Where ``err`` stands in ``mx_ctx`` (prelude.h), in words."""
UNWRITTEN = 0xFF
"""The bytes of results that the kernel has not written yet, and around operands that it only reads:
NaN as floats, so that their use is seen."""
_MARKS: Array = (np.arange(mmap.PAGESIZE) * 37 % 251 + 3).astype(np.uint8)
"""The marks of a page. They differ, so that no value that a kernel stores is taken for all."""
_NULL = 1 << 16
"""Addresses below this one come from null pointers."""


@dataclass(frozen=True, slots=True)
class Guard:
    """How kernels of users are guarded: ``InferenceSession.load(graph, guard=Guard(seconds=60))``.

    Args:
        seconds: How long one call of a kernel may take.

    Raises:
        ArgumentTypeError: ML775, ``seconds`` is no number.
        ArgumentError: ML775, ``seconds`` is not above 0, or not finite.

    Example:
        >>> from maxlab import engine
        >>> engine.Guard(seconds=2)
        Guard(seconds=2)
    """

    seconds: float = 10.0

    def __post_init__(self) -> None:
        seconds = self.seconds
        fix = "write Guard(seconds=10)"
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise ArgumentTypeError(
                "ML775", f"the seconds of a guard must be a number, got {seconds!r}", fix=fix
            )
        if not 0 < seconds <= _LONGEST_S:
            raise ArgumentError(
                "ML775",
                f"the seconds of a guard must be above 0 and at most {_LONGEST_S}, got {seconds!r}",
                fix=fix,
            )


_LONGEST_S = 10**8
"""Three years; timers of the system do not take any number."""


def guard_of(given: Any) -> Guard | None:
    """The guard that the argument ``guard`` of ``load`` asks for; None for none.

    Raises:
        ArgumentTypeError: ML775, it is no bool and no `Guard`.
    """
    if isinstance(given, Guard):
        return given
    if isinstance(given, bool):
        return Guard() if given else None
    raise ArgumentTypeError(
        "ML775",
        f"guard must be True, False or an engine.Guard, got {given!r}",
        fix="write guard=True, or guard=engine.Guard(seconds=60) for kernels that take long",
    )


def require_guardable(function: Function) -> None:
    """Raises unless all kernels of users in ``function`` can run in another process.

    Raises:
        ArgumentError: ML774, one has opaque handles.
        DeviceError: ML774, one is for a GPU.
    """
    from maxlab.opset.custom import OPS, declaration_of

    for op in function.walk():
        if op.name not in OPS:
            continue
        declared = declaration_of(op.attrs)
        if op.attrs["device"].is_gpu():
            raise DeviceError(
                "ML774",
                f"guard=True cannot guard {declared.name}: its kernel is for {op.attrs['device']}",
                at=op.loc,
                why=[declared.declared_at],
                fix="leave guard out, and call driver.use_simulator(check=True): the simulator "
                "then finds each access outside of its memory, with its line",
            )
        if declared.has_handles:
            raise ArgumentError(
                "ML774",
                f"guard=True cannot guard {declared.name}, which has opaque handles",
                at=op.loc,
                why=[
                    "a handle is an address in this process, and means nothing in another one",
                    declared.declared_at,
                ],
                fix="leave guard out for this graph, and guard a graph of the kernels without "
                "handles",
            )


class Room(NamedTuple):
    """The pages of one argument, in the file of the shared memory.

    Attributes:
        name: What the user calls the argument.
        reads: Whether the kernel reads what was there before.
        writes: Whether it may write there.
        itemsize: Bytes of an element; 0 for memory that has none.
        nbytes: Bytes of the argument.
        offset: Where the pages begin.
        size: Bytes of the pages.
        start: Where the argument begins.
    """

    name: str
    reads: bool
    writes: bool
    itemsize: int
    nbytes: int
    offset: int
    size: int
    start: int

    @property
    def holds(self) -> str:
        """How large it is, in words."""
        if not self.itemsize:
            return f"{self.nbytes} bytes"
        count = self.nbytes // self.itemsize
        return f"{count} element{'' if count == 1 else 's'} ({self.nbytes} bytes)"

    def place(self, byte: int) -> str:
        """The byte that stands so far behind the begin of the argument, in words."""
        if not self.itemsize:
            return f"byte {byte} of {self.name}"
        return f"element {byte // self.itemsize} of {self.name} (byte {byte})"


class _Rooms:
    """The rooms of one step for one tuple of sizes."""

    def __init__(self, step: Step, env: Mapping[str, int], scratch: int, has_log: bool) -> None:
        self.all: list[Room] = []
        self.nbytes = 0
        words = guarded.WORDS + len(step.arguments) + 3  # all rooms there are, itself among them
        self._add("the notes", False, True, 0, 8 * words)
        for of in step.arguments:
            nbytes = max(of.count.evaluate(env), 0) * of.itemsize
            self._add(of.name, of.reads, of.writes, of.itemsize, nbytes)
        self.arguments = self.all[1:]
        self.scratch = self._add("its scratch memory", False, True, 0, scratch)
        self.log = self._add("its messages", True, True, 0, 8 * LOG_WORDS) if has_log else None

    def _add(self, name: str, reads: bool, writes: bool, itemsize: int, nbytes: int) -> Room:
        taken = -(-nbytes // ALIGNMENT) * ALIGNMENT
        size = max(-(-taken // mmap.PAGESIZE), 1) * mmap.PAGESIZE
        start = self.nbytes + size - taken
        made = Room(name, reads, writes, itemsize, nbytes, self.nbytes, size, start)
        self.nbytes += size
        self.all.append(made)
        return made


_LOCAL = threading.local()


class Guarding:
    """The guarded steps of one compiled graph.

    Args:
        guard: How they are guarded.
        child: Where they run.
        compiled: The graph.

    Attributes:
        guard: As given.
    """

    def __init__(self, guard: Guard, child: Child, compiled: Compiled) -> None:
        self.guard = guard
        self._child = child
        self._compiled = compiled

    def entry(self, step: Step, env: Mapping[str, int], launch: Launch, threads: int) -> Any:
        """The C function that stands for the kernel of ``step`` where dims have the sizes ``env``:
        an ``mx_fn`` for the thread that runs the model, which lives as long as it is referenced.
        """
        has_log = step.printed is not None and step.printed.logs
        rooms = _Rooms(step, env, launch.scratch, has_log)
        count = len(step.sizes) + len(launch.extra)

        def enter(b: Any, d: Any, lo: int, hi: int, ctx: Any) -> int:
            addresses = ffi.unpack(ffi.cast("uintptr_t *", b), len(rooms.arguments))
            job = self._job(step, rooms, launch, threads)
            job["dims"] = ffi.unpack(d, count)
            with self._child.lock:
                made = self._run(step, rooms, job, addresses)
                self._child.spare()
            ffi.cast("i64 *", ctx)[ERR_AT : ERR_AT + 4] = made["err"]
            return int(made["code"])

        def keep(kind: Any, error: BaseException, trace: Any) -> None:
            _LOCAL.raised = error  # C cannot pass it on

        return ffi.callback("mx_fn", enter, error=GUARD_FAILED, onerror=keep)

    def failure(self) -> BaseException:
        """The exception of the guarded step that has just failed on this thread."""
        found: BaseException = _LOCAL.raised
        _LOCAL.raised = None
        return found

    # ------------------------------------------------------------ one call
    def _job(self, step: Step, rooms: _Rooms, launch: Launch, threads: int) -> guarded.Job:
        """The job that the other process is told to run."""
        numbers = {id(room): n for n, room in enumerate(rooms.all)}

        def at(room: Room) -> tuple[int, int]:
            return numbers[id(room)], room.start - room.offset

        return {
            "process": None,
            "file": 0,
            "rooms": [(room.offset, room.size, int(room.writes)) for room in rooms.all],
            "kernel": 0,
            "pointers": [at(room) for room in rooms.arguments],
            "scratch": at(rooms.scratch),
            "log": at(rooms.log) if rooms.log is not None else None,
            "dims": [],
            "extent": launch.extent,
            "grain": launch.grain,
            "threads": threads,
        }

    def _run(self, step: Step, rooms: _Rooms, job: guarded.Job, addresses: list[int]) -> Any:
        """The value that the kernel returned, its results at ``addresses`` if it ended well."""
        assert step.printed is not None
        accuracy = self._compiled.options.accuracy
        text = step.printed.symbol, step.printed.text, accuracy
        job["kernel"] = self._child.once("maxlab.toolchain.guarded:load", *text)
        try:
            job["file"], memory = self._child.memory(rooms.nbytes)
            job["process"] = self._child.pid
        except MemoryError:
            raise ExecutionError(
                "ML654",
                f"there is no memory for the {rooms.nbytes / 2**20:.1f} MiB that a guarded kernel "
                "takes a second time",
                at=user_kernel(self._compiled.plan, step)[0],
                fix="use smaller batches, or free some memory",
            ) from None
        view = np.frombuffer(memory, np.uint8)
        log = self._compiled.log.address(step.number) if rooms.log is not None else 0
        for room in rooms.all:
            _mark(view, room)
        for room, address in zip(rooms.arguments, addresses, strict=True):
            if room.reads:
                _copy(_at(view, room), address, room.nbytes)
        if rooms.log is not None:
            _copy(_at(view, rooms.log), log, rooms.log.nbytes)
        try:
            seconds = float(self.guard.seconds)
            made = self._child.call("maxlab.toolchain.guarded:run", job, seconds=seconds)
        except ChildEndedError as ended:
            raise self._ended(step, rooms, view, ended) from None
        finally:
            if rooms.log is not None:  # what it said before it went wrong is of use
                _copy(log, _at(view, rooms.log), rooms.log.nbytes)
        strayed = _strayed(view, rooms)
        if strayed is not None:
            room, byte = strayed
            raise self._error(
                step,
                "ML772",
                f"its kernel wrote outside of {room.name}: {room.place(byte)} was changed, and "
                f"{room.name} has {room.holds}",
                "look at the indices of its stores; nothing that it wrote was taken over",
            )
        if not made["code"]:
            for room, address in zip(rooms.arguments, addresses, strict=True):
                if room.writes:
                    _copy(address, _at(view, room), room.nbytes)
        return made

    # ------------------------------------------------------------ errors
    def _error(self, step: Step, code: str, what: str, fix: str, *why: str) -> MaxlabError:
        at, kernel = user_kernel(self._compiled.plan, step)
        return ExecutionError(
            code,
            f"{kernel.name}: {what}",
            at=at,
            why=[*why, kernel.declared],
            fix=fix,
        )

    def _ended(self, step: Step, rooms: _Rooms, view: Array, ended: ChildEndedError) -> MaxlabError:
        """The error for a kernel with which its process ended."""
        why = []
        strayed = _strayed(view, rooms)
        if strayed is not None:
            room, byte = strayed
            why.append(f"before that it changed {room.place(byte)}, which has {room.holds}")
        if ended.late:
            return self._error(
                step,
                "ML773",
                f"its kernel did not end within {self.guard.seconds:g} s, and was stopped",
                "look at the loops of its body; if it needs longer, load the model with "
                "guard=engine.Guard(seconds=…)",
                *why,
            )
        if ended.signal is None:
            return self._error(
                step,
                "ML771",
                f"its kernel called exit({ended.status}), which ends the process that it is in",
                "leave an item with continue; MX_ASSERT ends a run with an error",
                *why,
            )
        words = view[: rooms.all[0].nbytes].view(np.int64).tolist()  # at the begin of its page
        notes = guarded.Notes.read(words, len(rooms.all))
        did, fix = _cause(ended.signal, notes, rooms)
        what = f"its kernel was ended by {signal_name(ended.signal)}" + (f": {did}" if did else "")
        return self._error(step, "ML771", what, fix, *why)


# ---------------------------------------------------------------- what a signal means
_INDICES = "look at the indices of its loads and stores, and at sizes of 0"
_CAUSES: dict[int, tuple[str, str]] = {
    signal.SIGFPE: (
        "an integer was divided by zero, or the quotient does not fit",
        "test the divisor first",
    ),
    signal.SIGABRT: (
        "it called abort, or the C library found its memory broken",
        "look at what it frees, and how often; MX_ASSERT ends a run with an error",
    ),
    signal.SIGILL: (
        "it came to what no processor runs: compilers write it where a text has no meaning",
        "look for a null pointer, a division by zero or a missing return value in its body",
    ),
    signal.SIGKILL: (
        "somebody stopped it; the system does when its memory is used up",
        "use smaller sizes, and look at what its body allocates",
    ),
}


def _cause(number: int, notes: guarded.Notes, rooms: _Rooms) -> tuple[str, str]:
    """The cause of the signal that ended the kernel, in words, and what may help."""
    if number not in (signal.SIGSEGV, signal.SIGBUS):
        return _CAUSES.get(number, ("", "look at what its body calls"))
    verb = {1: "read", 2: "wrote"}.get(notes.access, "read or wrote")
    if not notes.known:
        return "it touched an address that no memory has", _INDICES
    if notes.stack:
        return (
            "its stack has no more room",
            "end its recursion, and keep large arrays in scratch memory: // @c scratch=bytes",
        )
    address = notes.address & (2**64 - 1)
    if address < _NULL:
        return (
            f"it {verb} at the address {address:#x}, which a null pointer leads to",
            "test what a function gives before it is used",
        )
    found = _near(address, notes, rooms)
    if found is None:
        return f"it {verb} at the address {address:#x}, where it has no memory", _INDICES
    room, byte = found
    if 0 <= byte < room.nbytes:
        return (
            f"it {verb} {room.place(byte)}, an operand that it may only read",
            f"declare `inout {room.name}`, and call it with ops.inplace_custom",
        )
    return f"it {verb} {room.place(byte)}, and {room.name} has {room.holds}", _INDICES


def _near(address: int, notes: guarded.Notes, rooms: _Rooms) -> tuple[Room, int] | None:
    """The argument next to ``address``, and the byte of it that this would be; None where none is
    within a zone."""
    found: list[tuple[int, Room, int]] = []
    for room, first in list(zip(rooms.all, notes.rooms, strict=True))[1:]:
        start = first + room.start - room.offset
        away = max(start - address, address - (start + room.nbytes), 0)
        if away <= notes.zone + mmap.PAGESIZE:
            found.append((away, room, address - start))
    if not found:
        return None
    _, room, byte = min(found, key=lambda row: row[0])
    return room, byte


# ---------------------------------------------------------------- memory
def _at(view: Array, room: Room) -> int:
    """The address in this process of what ``room`` holds."""
    return int(view.ctypes.data) + room.start


def _copy(to: int, source: int, nbytes: int) -> None:
    ffi.memmove(ffi.cast("char *", to), ffi.cast("char *", source), nbytes)


def _parts(view: Array, room: Room) -> tuple[Array, Array, Array]:
    """The part in front of the argument, the argument, and the part behind it."""
    end = room.start + room.nbytes
    whole = room.offset + room.size
    return view[room.offset : room.start], view[room.start : end], view[end:whole]


def _mark(view: Array, room: Room) -> None:
    """Write marks around ``room``, and let it hold what nobody has written."""
    front, inside, back = _parts(view, room)
    if not room.writes:
        front[:], back[:] = UNWRITTEN, UNWRITTEN
        return
    front[:], back[:] = _MARKS[: front.size], _MARKS[: back.size]
    if not room.reads:
        inside[:] = UNWRITTEN


def _strayed(view: Array, rooms: _Rooms) -> tuple[Room, int] | None:
    """The argument next to which a mark is changed, and at which of its bytes; None where none
    is."""
    for room in rooms.all[1:]:
        if not room.writes:
            continue
        front, _, back = _parts(view, room)
        behind = np.flatnonzero(back != _MARKS[: back.size])
        if behind.size:
            return room, room.nbytes + int(behind[0])
        before = np.flatnonzero(front != _MARKS[: front.size]) - front.size
        if before.size:
            unit = max(room.itemsize, 1)  # the first byte of the element that is nearest
            return room, int(before[before >= before[-1] // unit * unit][0])
    return None


__all__ = ["Guard", "Guarding", "guard_of", "require_guardable"]
