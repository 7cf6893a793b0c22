"""The cell magic ``%%generate``: its options, and how an answer is shown as it grows."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NoReturn

from maxlab.errors import NotebookError
from maxlab.interfaces import SamplingParamsInput
from maxlab.lab.generating.asking import TOP, generating
from maxlab.lab.generating.made import Generation

DEFAULT = "generated"
PERIOD_S = 0.1
"""Seconds between two pictures of an answer that grows, for each hundred of its tokens."""
Show = Callable[[Generation, bool], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The options on the line of the magic.

    Attributes:
        model: The name of a variable.
        out: The name of the variable for the answer.
        params: How tokens are drawn.
        top: The most probable tokens that are told with each one.
        profile: Whether kernels are timed.
    """

    model: str
    out: str
    params: SamplingParamsInput
    top: int
    profile: bool


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _option_error(message)


def _option_error(message: str) -> NotebookError:
    return NotebookError(
        "ML820",
        f"%%generate: {message}",
        fix="write %%generate llm --max-new-tokens 50; %%generate? lists the options",
    )


_PARAMS: Mapping[str, type] = {
    "max_new_tokens": int,
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "seed": int,
}


def options_of(line: str) -> Options:
    """The options on ``line``.

    Args:
        line: The text behind ``%%generate``.

    Raises:
        NotebookError: ML820, they cannot be read.
        InputError: ML981 (a ValueError), a parameter is out of its range.
    """
    parser = _Parser(prog="%%generate", add_help=False, allow_abbrev=False)
    parser.add_argument("model")
    parser.add_argument("-o", "--out", default=DEFAULT)
    parser.add_argument("--top", type=int, default=TOP)
    parser.add_argument("--stop", action="append")
    parser.add_argument("--ignore-eos", action="store_true", default=None)
    parser.add_argument("--profile", action="store_true")
    for name, kind in _PARAMS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind)
    parser.set_defaults(max_new_tokens=100)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _option_error(str(error)) from error
    found = parser.parse_args(words)
    for name in (found.model, found.out):
        if not name.isidentifier():
            raise _option_error(f"the name of a variable expected ≠ {name!r} given")
    given = {name: getattr(found, name) for name in (*_PARAMS, "stop", "ignore_eos")}
    return Options(found.model, found.out, SamplingParamsInput(**given), found.top, found.profile)


def generate_cell(
    line: str, cell: str, namespace: MutableMapping[str, Any], show: Show
) -> Generation:
    """The answer of the model that ``line`` names to the text of a cell.

    Args:
        line: The text behind ``%%generate``.
        cell: The prompt, without the line break at its end.
        namespace: The variables of the notebook; the answer becomes one of them.
        show: Called with the answer as it grows, and whether it is complete.

    Raises:
        NotebookError: ML820, ``line`` cannot be read; ML821, there is no such variable.
        MaxlabError: As by `generating`.
    """
    options = options_of(line)
    if options.model not in namespace:
        raise NotebookError(
            "ML821",
            f"%%generate: there is no variable {options.model!r}",
            fix="make the model first: llm = LLM(PipelineConfig(model_path=...))",
        )
    prompt = cell.removesuffix("\n")
    answers = generating(
        namespace[options.model], prompt, options.params, top=options.top, profile=options.profile
    )
    answer, last = next(answers), 0.0
    namespace[options.out] = answer
    try:
        show(answer, False)
        for _ in answers:
            now = time.monotonic()
            if now - last >= PERIOD_S * max(len(answer.tokens) / 100, 1):
                show(answer, False)
                last = now
    finally:
        show(answer, True)
    return answer


class Pictures:
    """Shows an answer in one output of a notebook, which changes as it grows."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, answer: Generation, is_complete: bool) -> None:
        from IPython.display import clear_output, display

        from maxlab.lab.generating.drawn import drawn

        data = {"text/html": drawn(answer, is_complete)}
        if is_complete:
            # An output of its own: what compares notebooks, such as nbval, knows of no updates.
            clear_output(wait=True)  # type: ignore[no-untyped-call]
            data |= answer._repr_mimebundle_(exclude=["text/html"])
            display(data, raw=True)  # type: ignore[no-untyped-call]
        elif self._handle is None:
            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)


class Words:
    """Writes an answer to a terminal as it grows."""

    def __init__(self) -> None:
        self._count = -1

    def __call__(self, answer: Generation, is_complete: bool) -> None:
        if self._count < 0:
            self._count = 0
            sys.stdout.write(answer.prompt)
        new = "".join(token.text for token in answer.tokens[self._count :])
        self._count = len(answer.tokens)
        sys.stdout.write(new + "\n" * is_complete)
        sys.stdout.flush()


__all__ = ["Pictures", "Words", "generate_cell", "options_of"]
