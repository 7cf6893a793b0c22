"""What the panel *Check* asks about one value: ``value``, with ``{"node": id}``::

    {version: 1, node, op, kernel: id or null, how: "memory" | "kernel" | "reference", text,
     dtype, shape, size, nan, inf, zero, min, max, mean, std,     null where there is no number
     histogram: {counts: [int], edges: [number]} or null,
     image: {buffer: 0, dtype: "f4", rows, columns, low, high} or null,
     corner: [[text]]}

The picture's rows lie behind each other in the buffer; ``low`` and ``high`` are its finite
extremes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxlab.analysis.check import values
from maxlab.analysis.check.values import HOW
from maxlab.errors import ArgumentError
from maxlab.lab.inputs import inputs_for
from maxlab.lab.questions import Answer, Shown, model_of, question
from maxlab.lab.questions.check import number, sentence


@question("value")
def value_of(shown: Shown, args: Mapping[str, Any]) -> Answer:
    """The answer to ``value``.

    Raises:
        ArgumentError: ML805, the graph has no such op.
    """
    node = args.get("node")
    if not isinstance(node, str):
        raise ArgumentError("ML805", f"there is no op {node!r}", fix="select one in the graph")
    model = model_of(shown)
    found = values(model, node, *inputs_for(model))
    counts, edges = found.histogram()
    image = np.ascontiguousarray(found.image())
    finite = image[np.isfinite(image)]
    corner = np.atleast_2d(found.corner())
    data: dict[str, Any] = {
        "version": 1,
        "node": found.node,
        "op": found.op,
        "kernel": found.kernel or None,
        "how": found.how,
        "text": sentence(HOW[found.how]),
        "dtype": found.dtype,
        "shape": list(found.shape),
        "size": int(found.array.size),
        "nan": found.nan,
        "inf": found.inf,
        "zero": found.zero,
        "min": number(found.min),
        "max": number(found.max),
        "mean": number(found.mean),
        "std": number(found.std),
        "histogram": {
            "counts": counts.tolist(),
            "edges": [number(float(edge)) for edge in edges],
        }
        if counts.sum()
        else None,
        "image": {
            "buffer": 0,
            "dtype": "f4",
            "rows": image.shape[0],
            "columns": image.shape[1],
            "low": number(float(finite.min())),
            "high": number(float(finite.max())),
        }
        if finite.size
        else None,
        "corner": [[_text(x) for x in row] for row in corner],
    }
    return Answer(data, [image.astype("<f4").tobytes()] if finite.size else [])


def _text(x: Any) -> str:
    plain = x.item() if hasattr(x, "item") else x
    if isinstance(plain, (bool, int)):
        return str(plain)
    return f"{float(plain):.5g}"
