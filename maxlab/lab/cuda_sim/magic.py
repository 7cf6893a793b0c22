"""The cell magic ``%%cuda_sim``: options, values from the notebook, and errors told shortly."""

from __future__ import annotations

import argparse
import ast
import operator
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from maxlab.errors import MaxlabError, NotebookError, ToolchainError
from maxlab.lab.cuda_sim.result import SimRun
from maxlab.lab.cuda_sim.run import NAME, run

USAGE = """\
%%cuda_sim --grid G --block B [--args A ...] [--shared BYTES] [--kernel NAME]
           [--no-check] [--timeout SECONDS] [--view-block B] [--out NAME]

Runs the CUDA kernel in the cell on the CPU, finds its mistakes, and shows what its threads did.

--grid, --block   sizes: 4, or 4,2 for more axes, or a variable
--args            the kernel's arguments in order: variables of the notebook (arrays are changed in
                  place) or literals; None is a null pointer
--shared          bytes of dynamic shared memory
--kernel          which kernel, when the cell has several
--no-check        run fast, without checking and recording accesses
--timeout         give up after so many seconds (60)
--view-block      the block to show: 1, or 1,0; else the first with a mistake
--out             a variable for the result, a SimRun; it is also the value of the cell
"""
_LINE = re.compile(r", line (\d+): (.*)$", re.DOTALL)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _option_error(message)


def _option_error(message: str) -> NotebookError:
    return NotebookError(
        "ML820",
        f"%%cuda_sim: {message}",
        fix="write %%cuda_sim --grid 2 --block 32 --args x y n; %%cuda_sim? lists the options",
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%cuda_sim", add_help=False, allow_abbrev=False)
    parser.add_argument("--grid", required=True)
    parser.add_argument("--block", required=True)
    parser.add_argument("--args", nargs="*", default=[], metavar="ARGUMENT")
    parser.add_argument("--shared", default="0")
    parser.add_argument("--kernel")
    parser.add_argument("--check", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--timeout", default="60")
    parser.add_argument("--view-block")
    parser.add_argument("--out")
    return parser


def run_cell(line: str, cell: str, namespace: Mapping[str, Any]) -> SimRun:
    """The result that ``%%cuda_sim`` shows for a cell.

    Args:
        line: the options, which stand behind ``%%cuda_sim``.
        cell: the CUDA text under it.
        namespace: the variables that ``--args`` and the sizes may name.

    Raises:
        NotebookError: ML820, options that cannot be read; ML821, a value that is neither a
            variable nor a literal; ML822, no kernel, or several.
        MaxlabError: what `run` raises.

    Example:
        >>> import numpy as np
        >>> x = np.ones(2, np.float32)
        >>> text = 'extern "C" __global__ void halve(float *x) { x[threadIdx.x] *= 0.5f; }'
        >>> run_cell("--grid 1 --block 2 --args x", text, {"x": x}).ok
        True
    """
    options = _options(line)
    timeout = _value("--timeout", options.timeout, namespace)
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or timeout <= 0:
        raise _option_error(f"--timeout takes seconds, got {options.timeout!r}")
    return run(
        cell,
        _sizes("--grid", options.grid, namespace),
        _sizes("--block", options.block, namespace),
        [_value("--args", text, namespace) for text in options.args],
        _integer("--shared", options.shared, namespace),
        kernel=options.kernel,
        check=options.check,
        timeout_s=timeout,
        view_block=options.view_block and _sizes("--view-block", options.view_block, namespace),
    )


def _options(line: str) -> argparse.Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _option_error(f"the options cannot be read: {error}") from None
    options = _parser().parse_args(words)
    if options.out is not None and not options.out.isidentifier():
        raise _option_error(f"--out takes the name of a variable, got {options.out!r}")
    return options


def _value(option: str, text: str, namespace: Mapping[str, Any]) -> Any:
    """The variable or the literal that ``text`` is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    if text in namespace:
        return namespace[text]
    if text.isidentifier():
        what, fix = (
            f"there is no variable {text!r}",
            "run the cell that makes it, or check its name",
        )
    else:
        what = f"{text!r} is neither a variable nor a literal"
        fix = "give the value a name in a cell before, and pass the name"
    raise NotebookError("ML821", f"%%cuda_sim {option}: {what}", fix=fix)


def _sizes(option: str, text: str, namespace: Mapping[str, Any]) -> tuple[int, ...]:
    """One to three integers: ``4``, ``4,2``, ``(4, n)``, or a variable that holds them."""
    parts = text.strip("() ").rstrip(", ").split(",")
    given = [_value(option, part.strip(), namespace) for part in parts]
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = list(given[0])
    try:
        sizes = tuple(operator.index(size) for size in given)
    except TypeError:
        sizes = ()
    if not 1 <= len(sizes) <= 3:
        raise _option_error(f"{option} takes one to three integers, got {text!r}")
    return sizes


def _integer(option: str, text: str, namespace: Mapping[str, Any]) -> int:
    sizes = _sizes(option, text, namespace)
    if len(sizes) != 1:
        raise _option_error(f"{option} takes one integer, got {text!r}")
    return sizes[0]


def register(shell: Any) -> None:
    """Add ``%%cuda_sim`` to an IPython shell; ``%load_ext maxlab`` calls it."""
    shell.register_magic_function(_magic_of(shell), "cell", "cuda_sim")


def _magic_of(shell: Any) -> Callable[[str, str], SimRun]:
    def cuda_sim(line: str, cell: str) -> SimRun:
        try:
            result = run_cell(line, cell, shell.user_ns)
        except MaxlabError as error:
            _tell_shortly(error, shown=_show_on_source(error, cell))
            raise
        out = _options(line).out
        if out:
            shell.user_ns[out] = result
        return result

    cuda_sim.__doc__ = USAGE
    return cuda_sim


def _show_on_source(error: MaxlabError, cell: str) -> bool:
    """Show what the compiler refused at its line; whether ``error`` is that."""
    found = _LINE.search(error.what) if isinstance(error, ToolchainError) else None
    if error.code != "ML502" or found is None or NAME not in error.what:
        return False
    from IPython.display import display

    from maxlab.lab.cuda_sim.view import refused

    bundle = {
        "text/plain": f"line {found[1]}: {found[2]}",
        "text/html": refused(cell, int(found[1]), found[2]),
    }
    display(bundle, raw=True)  # type: ignore[no-untyped-call]
    return True


def _tell_shortly(error: MaxlabError, shown: bool) -> None:
    """Let IPython show only what ``error`` says: the frames are maxlab's own.

    Where its place was ``shown`` already, the lines around it are left out.
    """
    said = f"{error.what} [{error.code}]" if shown else str(error)
    lines = [f"{type(error).__name__}: {said}"]
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
