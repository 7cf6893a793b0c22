"""The questions of the source panel: ``text``, ``edit``, ``keep`` and ``discard``.

``edit`` tries a text, ``keep`` installs what was tried last, and ``discard`` goes back to what the
compiler made.
"""

from __future__ import annotations

import weakref

from maxlab.analysis.edit import Edit, edit_kernel, restore_kernel
from maxlab.engine import Model
from maxlab.errors import ArgumentError
from maxlab.lab.protocol.checks import (
    EditAnswer,
    EditArgs,
    KernelArgs,
    KernelMessage,
    TextAnswer,
)
from maxlab.lab.protocol.questions import DISCARD, EDIT, KEEP, TEXT
from maxlab.lab.questions.asking import Answer, Shown, model_of, question

RUNS = 20

_tried: weakref.WeakKeyDictionary[Model, dict[str, Edit]] = weakref.WeakKeyDictionary()
"""The newest edit of each kernel, until it is kept or discarded."""


@question(TEXT)
def text(shown: Shown, args: KernelArgs) -> Answer[TextAnswer]:
    """The text of a kernel, as the model runs it now."""
    model, kernel = model_of(shown), args["kernel"]
    view = model.kernels.get(kernel)
    printed = model.printed(view.step) if view is not None else None
    if view is None or printed is None:
        raise ArgumentError(
            "ML638",
            f"the kernel {kernel} has no generated text",
            fix="select another kernel: this one is a routine of the runtime library",
        )
    edited = printed.symbol in dict(model.options.replaced)
    return Answer(
        {
            "version": 1,
            "kernel": kernel,
            "source": view.source,
            "lines": list(view.lines),
            "edited": edited,
        }
    )


@question(EDIT)
def edit(shown: Shown, args: EditArgs) -> Answer[EditAnswer]:
    """The outcome of a kernel with another text."""
    model, kernel = model_of(shown), args["kernel"]
    made = edit_kernel(model, kernel, args["source"], runs=RUNS)
    _tried.setdefault(model, {})[kernel] = made
    check = made.check
    return Answer(
        {
            "version": 2,
            "kernel": kernel,
            "kernels": list(made.kernels),
            "state": made.state,
            "errors": [{"line": e.line, "column": e.column, "text": e.text} for e in made.errors],
            "log": made.log,
            "check": None
            if check is None
            else {
                "ok": check.ok,
                "max_ulp": check.max_ulp,
                "max_abs": check.max_abs,
                "tolerance": check.tolerance,
                "message": check.message,
            },
            "before_ns": made.before_ns,
            "after_ns": made.after_ns,
            "before_iqr": made.before_iqr,
            "after_iqr": made.after_iqr,
            "runs": made.runs,
            "device": made.device,
            "can_keep": made.can_keep,
        }
    )


@question(KEEP)
def keep(shown: Shown, args: KernelArgs) -> Answer[KernelMessage]:
    """Let the model run what was tried last."""
    model, kernel = model_of(shown), args["kernel"]
    made = _tried.get(model, {}).pop(kernel, None)
    if made is None:
        raise ArgumentError(
            "ML640", f"no edit of {kernel} was tried", fix="press Compile and check first"
        )
    made.keep()
    more = f" and {', '.join(made.kernels)} with it" if len(made.kernels) > 1 else ""
    return _message(kernel, f"The model runs your {kernel} now{more}.")


@question(DISCARD)
def discard(shown: Shown, args: KernelArgs) -> Answer[KernelMessage]:
    """Forget what was tried, and run the compiler's own kernel."""
    model, kernel = model_of(shown), args["kernel"]
    _tried.get(model, {}).pop(kernel, None)
    if restore_kernel(model, kernel):
        return _message(kernel, f"The model runs {kernel} as the compiler made it.")
    return _message(kernel, f"The edit of {kernel} is gone; the model never ran it.")


def _message(kernel: str, text: str) -> Answer[KernelMessage]:
    return Answer({"version": 1, "kernel": kernel, "message": text})
