"""Compilers that begin while the plan is still being made: `Early`.

Making the loops and the texts of thousands of kernels takes Python seconds, in which the other
cores are idle. So the first thousands are given to compilers while the rest is made.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence

from maxlab import progress
from maxlab.compiler.loops import Kernel
from maxlab.compiler.options import Options
from maxlab.compiler.plan import Step
from maxlab.errors import MaxlabError
from maxlab.toolchain import KernelSource, LoadedKernel, compile_units, improving
from maxlab.toolchain.assembled import Find, Recipe
from maxlab.toolchain.flags import Flags
from maxlab.toolchain.processes import Batch, together

MANY_KERNELS = 1000
"""From so many different kernels on, those of one loop are compiled briefly: the compiler takes
seconds then, and each of them some nanoseconds longer, once in a run. Kernels with loops in loops
would take them for each row."""
BATCH = 512
"""Kernels that are compiled together: units of 64 for several cores."""

_WAIT_S = 0.1  # between two looks whether a wait was cancelled


class Early:
    """Compiles kernels of a plan in a thread while the others are made.

    Args:
        options: What the plan is compiled with.
        source: Gives what is compiled for a symbol and a text.

    Attributes:
        made: The kernels that it has compiled or found.
    """

    def __init__(self, options: Options, source: Callable[[str, str], KernelSource]) -> None:
        self.made: dict[KernelSource, LoadedKernel] = {}
        self._flags = Flags(accuracy=options.accuracy)
        self._is_off = bool(options.replaced)  # texts are others in the end
        self._is_exact = options.accuracy != "fast"
        self._source = source
        self._seen = 0
        self._texts: dict[str, str] = {}  # the symbol of each, of those that wait
        self._loops: dict[str, Kernel] = {}  # what they are printed from, by their symbols
        self._count = 0
        self._thread: threading.Thread | None = None
        self._batches: list[list[KernelSource]] = []
        self._running: Batch | None = None
        self._is_held = False

    def look(self, steps: Sequence[Step]) -> None:
        """See which ``steps`` are new."""
        if len(steps) - self._seen < BATCH or self._is_off:
            return
        for step in steps[self._seen :]:
            if step.printed is not None and step.gpu is None:
                self._texts.setdefault(step.printed.text, step.printed.symbol)
                if step.loops is not None:
                    self._loops.setdefault(step.printed.symbol, step.loops.kernel)
        self._seen = len(steps)
        if self._count + len(self._texts) < MANY_KERNELS:
            return
        self._count += len(self._texts)
        if not self._is_held:
            improving.hold()
            self._is_held = True
        self._batches.append([self._source(name, text) for text, name in self._texts.items()])
        self._texts.clear()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="maxlab-early", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Return when what has begun is compiled."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_WAIT_S)
            progress.check()

    def __enter__(self) -> Early:
        return self

    def __exit__(self, *error: object) -> None:
        """End what is still being compiled, and let the background go on."""
        self._batches.clear()
        if self._running is not None:
            self._running.stop()
        if self._is_held:
            self._is_held = False
            improving.release()

    def _work(self) -> None:
        with together() as self._running, contextlib.suppress(MaxlabError):
            while self._batches:  # who needs the kernels says what is wrong with them
                better = _nothing if self._is_exact else None
                batch = self._batches.pop(0)
                recipe = recipes_in(self._loops)
                made = compile_units(batch, flags=self._flags, better=better, recipe=recipe)
                self.made.update(zip(batch, made, strict=True))


def recipes_in(loops: Mapping[str, Kernel]) -> Find:
    """A function that gives the recipe of a kernel by its symbol, if it is printed from one of
    ``loops``."""

    def find(symbol: str) -> Recipe | None:
        from maxlab.compiler.recipes import recipe_of  # models that are loaded print nothing

        kernel = loops.get(symbol)
        return recipe_of(kernel) if kernel is not None else None

    return find


def _nothing(unit: KernelSource, kernel: object) -> None:
    """Ignore better code: models ask for it themselves when they have their kernels."""
