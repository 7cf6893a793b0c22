"""Arrays that people name in a form: variables of the notebook, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxlab.driver import Tensor
from maxlab.errors import MaxlabError
from maxlab.graph.weights import load_weights
from maxlab.lab.fields import FieldError
from maxlab.lab.questions.run import array_of

WRITE = "write a variable of the notebook, a.npy, or weights.safetensors:name"


def array_for(field: str, source: str) -> np.ndarray[Any, Any]:
    """The array that ``source`` names: a variable, an ``.npy`` file, or ``file.safetensors:name``.

    Raises:
        FieldError: ML808, it names none; ``field`` is where it was typed.
    """
    path, _, name = source.rpartition(":")
    try:
        if path.endswith(".safetensors"):
            known = dict(load_weights([Path(path)]).items())
            if name not in known:
                listed = ", ".join(list(known)[:8])
                raise FieldError(field, f"{path} has no {name!r}", f"it has {listed}")
            found: Any = Tensor.from_dlpack(known[name].data())
        else:
            found = array_of(source)
    except FieldError:
        raise
    except MaxlabError as error:
        raise FieldError(field, error.what, error.fix or WRITE) from error
    array = found.to_numpy() if isinstance(found, Tensor) else np.asarray(found)
    return np.array(array)


__all__ = ["array_for"]
