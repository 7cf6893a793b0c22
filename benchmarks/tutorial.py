"""The MiniLM model of the tutorial: what is measured and tested is what the notebook shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "02_minilm.ipynb"


def minilm(device: str = "DeviceRef.CPU()") -> dict[str, Any]:
    """The names that the tutorial's cells tagged ``model`` define, among them ``minilm`` and
    ``config``; ``device`` stands for the one that they name.
    """
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names: dict[str, Any] = {"__name__": "tutorial"}
    for number, cell in enumerate(cells):
        if "model" in cell["metadata"].get("tags", ()):
            text = "".join(cell["source"]).replace("DeviceRef.CPU()", device)
            exec(compile(text, f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    return names


def minilm_graph(names: dict[str, Any]) -> Any:
    """The graph of the tutorial's model, with symbolic batch and sequence, on its device."""
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType

    tokens = TensorType(DType.int64, ["batch", "seq"], names["CPU"])
    return Graph("minilm", names["minilm"], input_types=[tokens, tokens])
