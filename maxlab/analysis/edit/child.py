"""Runs an edited kernel for the first time, in the process of a `toolchain.child.Child`.

The folder has ``edited.txt``, the text, and for each place of the kernel in its model a file
``0.npz`` … that ``Alone.save`` wrote. What the kernel wrote goes to ``0.out.npz`` …: nothing but
numbers and text comes back, so whatever the kernel does to this process does nothing to the
notebook's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxlab import driver
from maxlab.analysis.check.alone import Alone
from maxlab.errors import MaxlabError


def run(place: str, simulated: bool) -> dict[str, Any]:
    """Run the kernel in the folder ``place``: what became of it."""
    folder = Path(place)
    text = (folder / "edited.txt").read_text("utf-8")
    if simulated:
        # Checked: races and strays are found, which a fast run might get away with.
        driver.use_simulator(check=True)
    for file in sorted(folder.glob("*.npz"), key=lambda f: int(f.stem)):
        kernel = Alone.load(file, text)
        try:
            made = kernel.run()
        except MaxlabError as error:
            notes = "\n".join(getattr(error, "__notes__", ()))
            return {"code": error.code, "what": error.what, "why": error.why, "log": notes}
        found = {str(n): data for n, data in enumerate(made) if data is not None}
        np.savez(folder / f"{file.stem}.out", **found)  # type: ignore[arg-type]
    return {"code": ""}
