"""The magics ``%%maxprof`` and ``%maxprof``: options, the cell itself, and what is shown of it.

The cell runs in the notebook's namespace as any cell does, under the name and with the line numbers
of the cell it stands in: ops that it makes know their lines.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from maxlab.analysis.recording import Recording, record
from maxlab.errors import MaxlabError, NotebookError

USAGE = """\
%%maxprof [-o NAME] [-n RUNS]
%maxprof [-o NAME] [-n RUNS] EXPRESSION

Runs the cell, or the expression, and times every kernel of every model that runs in it. Nothing is
run a second time. Shows the model that took most, its kernels as heat, and a line per model; the
value of the last expression is the value of the cell.

-o, --out    a variable for the result, a Recording: .profile, .models, .timeline, .table()
-n, --runs   run it so many times (1); times are medians over all runs
"""


@dataclass(frozen=True, slots=True)
class Options:
    """The options on the line of the magic; ``code`` is the rest of it."""

    out: str | None
    runs: int
    code: str


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _option_error(message)


def _option_error(message: str) -> NotebookError:
    return NotebookError(
        "ML820",
        f"%%maxprof: {message}",
        fix="write %%maxprof -o result -n 10; %%maxprof? lists the options",
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%maxprof", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--out")
    parser.add_argument("-n", "--runs", default="1")
    return parser


def options_of(line: str, *, is_cell: bool) -> Options:
    """The options at the head of ``line``; behind ``%maxprof`` comes the expression.

    Raises:
        NotebookError: ML820, they cannot be read.
    """
    words, code = _cut(line)
    if is_cell and code:
        raise _option_error(f"what stands behind it is no option: {code!r}")
    if not is_cell and not code:
        raise _option_error("there is nothing to run: write %maxprof model(x)")
    found = _parser().parse_args(words)
    if found.out is not None and not found.out.isidentifier():
        raise _option_error(f"--out takes the name of a variable, got {found.out!r}")
    if not found.runs.isdecimal() or int(found.runs) < 1:
        raise _option_error(f"--runs takes a number of 1 or more, got {found.runs!r}")
    return Options(found.out, int(found.runs), code)


def _cut(line: str) -> tuple[list[str], str]:
    """The words of the options that ``line`` begins with, and the code behind them; a code that
    begins with a minus stands behind ``--``."""
    words: list[str] = []
    rest = line.strip()
    while rest.startswith("-"):
        option, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        if option == "--":
            break
        words.append(option)
        if option in ("-o", "-n", "--out", "--runs") and rest:
            value, _, rest = rest.partition(" ")
            words.append(value)
            rest = rest.lstrip()
    return words, rest


def run_cell(shell: Any, cell: str, runs: int = 1) -> tuple[Recording, Any]:
    """The recording of a run of ``cell``, and the value of the expression that it ends with, if it
    does.

    Args:
        shell: The IPython shell whose namespace it runs in.
        cell: Code, which may hold magics of its own.
        runs: How often to run it.

    Raises:
        NotebookError: ML823, it awaits something at its top level.
        ArgumentError: ML852, something records already.
        SyntaxError: It is no code.
        Exception: Whatever the code raises.
    """
    __tracebackhide__ = True  # an error of the cell is told from the cell on
    # The magic's own line is the first of the notebook's cell.
    code = "\n" + shell.transform_cell(cell)
    name = shell.compile.cache(code, _cell_number(shell), raw_code=code)
    tree = shell.transform_ast(shell.compile.ast_parse(code, filename=name))
    body, last = tree.body, None
    if body and isinstance(body[-1], ast.Expr):
        last = ast.Expression(body.pop().value)
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        parts = [shell.compile(tree, name, "exec")]
        if last is not None:
            parts.append(shell.compile(last, name, "eval"))
    if any(part.co_flags & inspect.CO_COROUTINE for part in parts):
        raise NotebookError(
            "ML823",
            "%%maxprof: the cell awaits, and cannot be run from inside of a magic",
            fix="await in a cell without it, in `with maxlab.record() as recorded:`",
        )
    value = None
    with record() as recorded:
        for _ in range(runs):
            for part in parts:
                value = eval(part, shell.user_ns)
    return recorded, value if last is not None else None


def _cell_number(shell: Any) -> int:
    """The number of the cell that is running. The shell's own count may be that of the next."""
    frame = inspect.currentframe()
    while frame is not None:
        known = shell.compile.format_code_name(frame.f_code.co_filename)
        if known is not None:
            return int(known[1].removeprefix("In[").rstrip("]"))
        frame = frame.f_back
    return int(shell.execution_count)


def register(shell: Any) -> None:
    """Add ``%%maxprof`` and ``%maxprof`` to an IPython shell; ``%load_ext maxlab`` calls it."""
    shell.register_magic_function(_magic_of(shell), "line_cell", "maxprof")


def _magic_of(shell: Any) -> Callable[..., Any]:
    def maxprof(line: str, cell: str | None = None) -> Any:
        __tracebackhide__ = True
        try:
            options = options_of(line, is_cell=cell is not None)
            recorded, value = run_cell(shell, cell or options.code, options.runs)
        except NotebookError as error:  # the frames are maxlab's own
            tell_shortly(error)
            raise
        if options.out:
            shell.user_ns[options.out] = recorded
        show(recorded)
        return value

    maxprof.__doc__ = USAGE
    # The line is code: IPython is not to put values in the place of {names}.
    maxprof._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]
    return maxprof


def show(recorded: Recording) -> None:
    """Print what the models took, and display the one that took most."""
    from IPython.display import display

    sys.stdout.write(recorded.table() + "\n")
    if recorded.profile is not None:
        display(recorded.profile)  # type: ignore[no-untyped-call]


def tell_shortly(error: MaxlabError) -> None:
    """Let IPython show only what ``error`` says."""
    lines = [f"{type(error).__name__}: {error}"]
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
