"""Kernels of users that do harm, run with a guard: one kernel whose input says what it does wrong.

Strays of every size, null and wild pointers, signals, exits, endless loops, endless recursion. The
kernel does its misdeed before it stores its results, so a run that ends well has to be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops
from tests.hostile.harness import Case, Family, WrongResultError

DEEDS: dict[str, str] = {
    "nothing": "",
    "a store next to y": "((volatile u8 *)&y[0])[at] = what;",
    "a store behind y": "((volatile u8 *)&y[n])[at] = what;",
    "a store next to x": "((volatile u8 *)&x[0])[at] = what;",
    "a store next to the order": "((volatile i64 *)&order[0])[at] = what;",
    "a store next to its scratch memory": "((volatile u8 *)scratch)[at] = what;",
    "a load next to y": "(void)((volatile u8 *)&y[0])[at];",
    "a load next to x": "(void)((volatile u8 *)&x[0])[at];",
    "a load next to its scratch memory": "(void)((volatile u8 *)scratch)[at];",
    "a load by address": "(void)*(volatile u8 *)(u64)at;",
    "a store by address": "*(volatile u8 *)(u64)at = what;",
    "a call of an address": "((void (*)(void))(u64)at)();",
    "a long store": "for (volatile i64 k = 0; k < at; k++) ((volatile u8 *)&y[0])[k] = what;",
    "a stack that is smashed": "volatile u8 small[8]; for (volatile i64 k = 0; k < 100000; k++) "
    "small[k] = what;",
    "an endless stack": "for (volatile int go = 1; go;) "
    "((volatile u8 *)__builtin_alloca(4096))[0] = 1;",
    "a large array on the stack": "((volatile u8 *)__builtin_alloca((u64)at & 0xfffffff))[0] = 1;",
    "an endless loop": "for (volatile int go = 1; go;) {}",
    "an endless loop without alarms": "signal(14, (void (*)(int))1); "
    "for (volatile int go = 1; go;) {}",
    "an endless loop without signals": "u64 all[16]; for (int k = 0; k < 16; k++) all[k] = ~0ull; "
    "sigprocmask(0, all, 0); for (volatile int go = 1; go;) {}",
    "sleep": "for (;;) sleep(100);",
    "a division by zero": "volatile i64 zero = 0, made = at / zero; (void)made;",
    "a remainder by zero": "volatile i32 zero = 0; volatile i32 made = 7 % zero; (void)made;",
    "a quotient that is too large": "volatile i64 least = (i64)(1ull << 63), minus = -1; "
    "volatile i64 made = least / minus; (void)made;",
    "abort": "abort();",
    "exit": "exit((int)at);",
    "_exit": "_exit((int)at);",
    "a trap": "__builtin_trap();",
    "a signal": "raise((int)((u64)at % 65));",
    "a free of what is not its own": "volatile u64 place = at; free((void *)place);",
    "a double free": "void *volatile taken = malloc(64); free(taken); free(taken);",
    "a heap that is overwritten": "volatile u8 *taken = malloc(64); "
    "for (volatile i64 k = -64; k < 4096; k++) taken[k] = what; free(malloc(5000)); "
    "free((void *)taken);",
    "a null pointer of malloc": "*(volatile u8 *)malloc(1ull << 62) = what;",
    "closed files": "for (int k = 3; k < 64; k++) close(k);",
    "words into its files": 'for (int k = 3; k < 64; k++) write(k, "{]\\n", 3);',
}
"""C by what it does: ``at`` and ``what`` are numbers of the case."""

HEAD = """
extern void abort(void), exit(int), _exit(int);
extern int raise(int), close(int), sigprocmask(int, const void *, void *);
extern unsigned sleep(unsigned);
extern long write(int, const void *, unsigned long);
extern void (*signal(int, void (*)(int)))(int);
extern void *malloc(unsigned long);
extern void free(void *);
"""


def _body() -> str:
    cases = "\n".join(
        f"  case {number}: {{ {deed} break; }}" for number, deed in enumerate(DEEDS.values())
    )
    return f"""{HEAD}
if (i == 0) {{
  const i64 at = load(order, 1);
  const u8 what = (u8)load(order, 2);
  switch (load(order, 0)) {{
{cases}
  }}
}}
"""


def _kernels() -> str:
    body = _body()
    return f"""
// @op misdeed(x: float32[n], order: int64[3]) -> (y: float32[n])
// @c serial scratch=64
{body}
store(y, i, 2 * load(x, i) + 1);

// @op misdeed_in_place(inout y: float32[n], x: float32[n], order: int64[3]) -> ()
// @c serial scratch=64
{body}
store(y, i, 2 * load(x, i) + 1);
"""


PATIENT, HASTY = 20.0, 0.1
"""Seconds that guards give a kernel."""
ENDLESS = ("an endless loop", "sleep", "a signal", "a stack that")
"""Misdeeds that may not end."""
LASTING = ("a free", "a double free", "a heap", "a stack that", "closed", "words")
"""Misdeeds that a process may survive, and not the next call in it."""
_models: dict[tuple[str, float], engine.Model] = {}


def _ready() -> None:
    cpu = DeviceRef.CPU()
    vector = TensorType(DType.float32, ["n"], cpu)
    order = TensorType(DType.int64, [3], cpu)
    text = _kernels()
    with Graph("misdeed", input_types=[vector, order], custom_extensions=text) as fresh:
        fresh.output(*ops.custom("misdeed", cpu, list(fresh.inputs), [vector]))
    kept = BufferType(DType.float32, ["n"], cpu)
    with Graph("placed", input_types=[kept, vector, order], custom_extensions=text) as placed:
        ops.inplace_custom("misdeed_in_place", cpu, list(placed.inputs), [])
        placed.output()
    for seconds in (PATIENT, HASTY):
        guard = engine.Guard(seconds=seconds)
        for name, graph in (("fresh", fresh), ("placed", placed)):
            model = engine.InferenceSession(num_threads=1).load(graph, guard=guard)
            _models[name, seconds] = model


def _case(deed: str, at: int = 0, what: int = 1, n: int = 5, place: str = "fresh") -> Case:
    number = list(DEEDS).index(deed)
    seconds = HASTY if deed.startswith(ENDLESS) else PATIENT
    again = at % 4 == 0 and not deed.startswith(LASTING)

    def run(folder: Path) -> None:
        order = np.array([number, at, what], np.int64)
        found = None
        try:
            _compute(_models[place, seconds], place, n, order)
        except MaxlabError as error:
            found = error
        if found is not None and (deed == "nothing" or not found.fix):
            raise WrongResultError(f"a healthy kernel fails, or no fix: {found}") from found
        if again:  # another process has to start for it
            try:
                _compute(_models[place, PATIENT], place, n, np.zeros(3, np.int64))
            except MaxlabError as error:
                raise WrongResultError(f"the next call fails: {error}") from error
        if found is not None:
            raise found

    return Case(f"{deed}, at {at}, what {what}, n {n}, {place}", run)


def _compute(model: engine.Model, place: str, n: int, order: Any) -> None:
    """Run it, and compare its result; what it must not change is as it was, whatever it does."""
    x = np.arange(n, dtype=np.float32)
    given = [x, order]
    kept = np.full(n, 7, np.float32)
    copies = [x.copy(), order.copy()]
    try:
        if place == "placed":
            model(kept, x, order)
            made = kept
        else:
            made = model(x, order)[0].to_numpy()
    except MaxlabError:
        if not (kept == 7).all():
            raise WrongResultError("the kernel failed, and changed the buffer") from None
        raise
    finally:
        if any(not np.array_equal(a, b) for a, b in zip(given, copies, strict=True)):
            raise WrongResultError("an operand was changed")
    if not np.array_equal(made, 2 * x + 1):
        raise WrongResultError(f"{made} instead of {2 * x + 1}")


OFFSETS: Sequence[int] = (
    0, 1, 3, 4, 19, 20, 21, 63, 64, 127, 4095, 4096, 4097, 65536, 1 << 20, (1 << 24) - 4096,
)  # fmt: skip


def _draw(random: Random) -> Case:
    turn = random.random()
    deed = random.choice(list(DEEDS)) if turn < 0.5 else random.choice([*DEEDS][:12])
    at = random.choice(OFFSETS) if random.random() < 0.5 else random.randrange(1 << 24)
    if "address" in deed and random.random() < 0.5:
        at = random.randrange(1 << 63)
    at = random.choice((1, -1)) * at
    n = random.choice((0, 1, 5, 16, 1000, 1024, 5000))
    return _case(deed, at, random.randrange(256), n, random.choice(("fresh", "placed")))


SEEDS = [
    *(_case(deed, 1, place=("fresh", "placed")[n % 2]) for n, deed in enumerate(DEEDS)),
    *(_case("a store next to y", at) for at in (-1, 19, 63, -4095, -(1 << 24), 65536)),
    _case("nothing", n=0),
    _case("a signal", 19),
    _case("a signal", 61),
]

FAMILIES = (Family("custom_kernels", SEEDS, _draw, 1000, _ready, block=10),)
