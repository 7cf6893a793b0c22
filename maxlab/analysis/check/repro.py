"""A short script that runs one kernel alone: ``Comparison.repro`` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.analysis.check.alone import Alone
from maxlab.compiler.plan import Step

if TYPE_CHECKING:
    from maxlab.analysis.check.result import NodeCheck

Array = np.ndarray[Any, Any]

_SCRIPT = '''\
"""{what}"""
from pathlib import Path
import numpy as np
from maxlab.analysis.check import Alone
{open}here = Path(__file__)
kernel = Alone.load(here.with_suffix(".npz"), here.with_suffix("{suffix}").read_text())
wanted = np.load(here.with_suffix(".npz"))
for number, got in enumerate(kernel.run()):  # edit the text beside this file, and run it again
    if f"want{{number}}" in wanted:
        far = kernel.distance(number, got, wanted[f"want{{number}}"])
        print(f"pointer {{number}}: the largest difference is {{far:.6g}}")
'''


def write_repro(
    path: Path,
    graph: str,
    step: Step,
    first: NodeCheck | None,
    alone: Alone,
    wanted: Sequence[tuple[int, Array]],
) -> Path:
    """The path of the script for ``alone``; the kernel's text and memory lie beside it.

    Args:
        path: Where the script goes.
        graph: The name of the graph.
        step: The kernel's step.
        first: What is wrong with it.
        alone: The kernel.
        wanted: For pointers that it writes, what the references say.
    """
    suffix = ".c" if alone.headers is None else ".cu"
    what = f"{step.id} ({step.name}) of the graph {graph}, alone on the memory that it had."
    if first is not None:
        what += f"\n\n{first.id} ({first.op}): {first.message}\n"
    arrays = {f"want{n}": np.ascontiguousarray(a).reshape(-1).view(np.uint8) for n, a in wanted}
    alone.save(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]  # want0, want1 …
    path.with_suffix(suffix).write_text(alone.text, "utf-8")
    simulated = (
        "from maxlab import driver\ndriver.use_simulator()\n"
        if alone.device is not None and alone.device.context.properties.simulated
        else ""
    )
    text = _SCRIPT.format(what=what.replace("\\", "/"), suffix=suffix, open=simulated)
    path.write_text(text, "utf-8")
    return path


__all__ = ["write_repro"]
