"""The inputs and the weights of a row as files, for first numbers: peers read them, as they would
the weights of a model, and none of them waits until random numbers are drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.performance.bodies import BODIES

Array = np.ndarray[Any, Any]


def keep(name: str, folder: Path) -> None:
    """Write the inputs and the weights of a row into ``folder``."""
    if name in BODIES:
        body = BODIES[name]
        arrays = {f"x{n}": x for n, x in enumerate(body.inputs())}
        arrays |= {f"c{n}": c for n, c in enumerate(body.constants())}
    elif name.startswith("minilm"):
        return  # few inputs, and its weights are a file
    else:
        from benchmarks.performance.with_torch import made

        module, inputs = made(name)
        arrays = {f"x{n}": x.numpy() for n, x in enumerate(inputs)}
        arrays |= {key: x.numpy() for key, x in module.state_dict().items()}
    for key, array in arrays.items():
        np.save(folder / f"{name}.{key}.npy", array)


def array(name: str, key: str, folder: Path) -> Array:
    """An input, ``"x0"``, or a weight of a row, mapped into memory."""
    found: Array = np.load(folder / f"{name}.{key}.npy", mmap_mode="c")
    return found.view(np.ndarray)


def several(name: str, letter: str, folder: Path) -> tuple[Array, ...]:
    """All inputs, ``"x"``, or constants, ``"c"``, of a row."""
    count = 0
    while (folder / f"{name}.{letter}{count}.npy").exists():
        count += 1
    return tuple(array(name, f"{letter}{n}", folder) for n in range(count))


def read_from(name: str, folder: Path) -> None:
    """Let a row of a few ops take its inputs and constants from ``folder``."""
    if name in BODIES:
        BODIES[name] = replace(
            BODIES[name],
            inputs=lambda: several(name, "x", folder),
            constants=lambda: several(name, "c", folder),
        )
