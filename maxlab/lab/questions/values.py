"""The question ``value`` of the panel *Check*: what flows along one edge."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.analysis.check import values
from maxlab.analysis.check.values import HOW
from maxlab.lab.inputs import inputs_for
from maxlab.lab.protocol.checks import ValueAnswer, ValueArgs
from maxlab.lab.protocol.questions import VALUE
from maxlab.lab.questions.asking import Answer, Shown, model_of, question
from maxlab.lab.questions.check import number, sentence


@question(VALUE)
def value_of(shown: Shown, args: ValueArgs) -> Answer[ValueAnswer]:
    """The answer to ``value``.

    Raises:
        ArgumentError: ML805, the graph has no such op.
    """
    model = model_of(shown)
    found = values(model, args["node"], *inputs_for(model))
    counts, edges = found.histogram()
    image = np.ascontiguousarray(found.image())
    finite = image[np.isfinite(image)]
    corner = np.atleast_2d(found.corner())
    data: ValueAnswer = {
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
            "edges": [float(f"{edge:.6g}") for edge in edges],
        }
        if counts.sum()
        else None,
        "image": {
            "buffer": 0,
            "dtype": "f4",
            "rows": image.shape[0],
            "columns": image.shape[1],
            "low": float(f"{finite.min():.6g}"),
            "high": float(f"{finite.max():.6g}"),
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
