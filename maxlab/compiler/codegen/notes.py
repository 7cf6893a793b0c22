"""Prints the places where a kernel writes down a note, or gives up with one: see ``opset.notes``.

In C the log stands in front of the sizes of the step, ``d[-1]``, 0 where nobody reads it; in CUDA
behind the four words of ``fault``.
"""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.compiler.options import Options
from maxlab.opset.kernel import Target
from maxlab.opset.notes import LEVELS, VALUES

NEVER = 1 << 30
"""A level that no message has."""
FAULT_WORDS = 4
"""Words of ``fault`` before the log."""


def least_level(options: Options) -> int:
    """The least level of the messages that are compiled, as a number."""
    return LEVELS.get(options.log_level.upper(), NEVER)


def log_call(target: Target, note: int, item: str, values: Sequence[tuple[str, str]]) -> str:
    """The call that writes down ``note`` for ``item`` with (``i`` or ``f``, text) of each value."""
    bits = "(i64)mx_bits_f64((f64)({}))" if target == "c" else "__double_as_longlong((f64)({}))"
    words = [bits.format(text) if kind == "f" else f"(i64)({text})" for kind, text in values]
    words += ["0"] * (VALUES - len(words))
    log = "(i64 *)d[-1]" if target == "c" else f"fault + {FAULT_WORDS}"
    thread = "0" if target == "c" else "(i64)threadIdx.x"
    return f"mx_log({log}, {note}ll, {item}, {thread}, {', '.join(words)})"


def assert_call(target: Target, note: int, item: str) -> str:
    """The statement that ends the run because the assertion ``note`` does not hold."""
    if target == "cuda":
        return f"mx_assert(fault, {note}ll, {item})"
    return f"{{ ctx->err[0] = {note}ll; ctx->err[1] = {item}; return 2; }}"


__all__ = ["FAULT_WORDS", "NEVER", "assert_call", "least_level", "log_call"]
