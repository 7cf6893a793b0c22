"""The cell magic ``%%generate``: a model writes behind the text of the cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxlab.errors import MaxlabError
from maxlab.lab.maxprof.magic import tell_shortly

USAGE = """\
%%generate MODEL [options]

The model writes behind the text of the cell. MODEL is a variable: an LLM, a pipeline of text, or a
scheduler. Each token appears as soon as it is there, with its probability, the most probable others
and its time under the pointer. A click on a token, or Enter, draws the graph of its step below.

--max-new-tokens N   the most tokens (100)
--temperature T, --top-k N, --top-p P, --min-p P, --seed N, --ignore-eos
                     how tokens are drawn; else as the model's generation_config.json says
--stop TEXT          ends the answer; may be given several times
--top N              so many of the most probable tokens are told (5); 0 tells no probabilities
--profile            times the kernels of each step as it is taken; without it a click on a token,
                     or generated.profile(3), runs the step again
-o, --out NAME       the variable for the answer, a Generation (generated)
"""


def register(shell: Any) -> None:
    """Add ``%%generate`` to an IPython shell; ``%load_ext maxlab`` calls it."""
    shell.register_magic_function(_magic_of(shell), "cell", "generate")


def _magic_of(shell: Any) -> Callable[[str, str], None]:
    def generate(line: str, cell: str) -> None:
        __tracebackhide__ = True
        from maxlab.lab.generating.magic import Pictures, Words, generate_cell

        show = Pictures() if _has_pictures(shell) else Words()
        try:
            generate_cell(line, cell, shell.user_ns, show)
        except MaxlabError as error:  # the frames are maxlab's own
            tell_shortly(error)
            raise

    generate.__doc__ = USAGE
    # The cell is a text: IPython is not to put values in the place of {names}.
    generate._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]
    return generate


def _has_pictures(shell: Any) -> bool:
    """Whether the shell is that of a notebook, which can change what it shows."""
    return getattr(shell, "kernel", None) is not None


__all__ = ["USAGE", "register"]
