"""A short script that runs one kernel alone: ``Comparison.repro`` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxlab import files
from maxlab.analysis.check.alone import Alone
from maxlab.compiler.plan import Step
from maxlab.engine.device_kernel import quoted

Array = np.ndarray[Any, Any]

_SCRIPT = '''\
"""{what}"""
from pathlib import Path
import numpy as np
from maxlab.analysis.check import Alone
{open}here = Path(__file__)
memory, text = here.with_name({memory}), here.with_name({text})
kernel = Alone.load(memory, text.read_text("utf-8"))
wanted = np.load(memory)
for number, got in enumerate(kernel.run()):  # edit the text beside this file, and run it again
    if f"want{{number}}" in wanted:
        far = kernel.distance(number, got, wanted[f"want{{number}}"])
        print(f"pointer {{number}}: the largest difference is {{far:.6g}}")
'''


def write_repro(
    path: files.AnyPath,
    graph: str,
    step: Step,
    wrong: str,
    alone: Alone,
    wanted: Sequence[tuple[int, Array]],
) -> Path:
    """The path of the script for ``alone``; the kernel's text and memory lie beside it.

    Args:
        path: Where the script goes.
        graph: The name of the graph.
        step: The kernel's step.
        wrong: What is wrong with it; empty when no op of it is known to be.
        alone: The kernel.
        wanted: For pointers that it writes, what the references say.

    Raises:
        FileError: ML001, one of the files is there and is no regular file; ML003, one of them
            cannot be written.
    """
    suffix = ".c" if alone.headers is None else ".cu"
    what = f"{step.id} ({step.name}) of the graph {graph}, alone on the memory that it had."
    if wrong:
        what += f"\n\n{wrong}\n"
    arrays = {f"want{n}": np.ascontiguousarray(a).reshape(-1).view(np.uint8) for n, a in wanted}
    memory, text = (files.beside(path, end, "the script") for end in (".npz", suffix))
    alone.save(memory, **arrays)  # type: ignore[arg-type]  # want0, want1 …
    files.write_text(text, alone.text, "the text of the kernel")
    simulated = "from maxlab import driver\ndriver.use_simulator()\n" if alone.simulated else ""
    script = _SCRIPT.format(
        what=quoted(what), memory=ascii(memory.name), text=ascii(text.name), open=simulated
    )
    return files.write_text(path, script, "the script")


__all__ = ["write_repro"]
