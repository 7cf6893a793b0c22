"""The table of the how-to page about habits that says what can be saved, row by row."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, Shape, TensorType

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/coming-from-numpy-pytorch-jax.md"


def table() -> list[tuple[str, str, str]]:
    """The rows: an object, whether it can be pickled, and how it gets into a file."""
    _, _, text = PAGE.read_text("utf-8").partition("## What can be saved")
    found = []
    for line in text.partition("\n## ")[0].splitlines():
        if line.startswith("| `"):
            names, pickled, file = (cell.strip() for cell in line.strip("|").split("|"))
            found += [(name, pickled, file) for name in re.findall(r"`(\w+)`", names)]
    return found


def names(folder: Path) -> dict[str, Any]:
    """What the calls of the table name."""
    graph = Graph("doubled", lambda x: x * 2, [TensorType(DType.float32, [2, 4])])
    session = engine.InferenceSession()
    model = session.load(graph)
    array = np.ones((2, 4), np.float32)
    profile = model.profile(array, runs=1, warmup=0)
    return {
        "graph": graph, "session": session, "model": model, "profile": profile, "np": np,
        "tensor": Tensor.from_numpy(array), "maxlab": maxlab, "path": str(folder / "file"),
        "objects": {
            "Graph": graph, "Tensor": Tensor.from_numpy(array), "DType": DType.float32,
            "TensorType": TensorType(DType.float32, ["n", 4]), "Shape": Shape(["n", 4]),
            "DeviceRef": DeviceRef.GPU(1), "Model": model, "InferenceSession": session,
            "Profile": profile,
        },
    }  # fmt: skip


def test_the_table_is_there() -> None:
    assert len(table()) >= 9


@pytest.mark.parametrize(("name", "pickled", "file"), table(), ids=lambda text: text[:16])
def test_what_the_table_says_is_so(name: str, pickled: str, file: str, tmp_path: Path) -> None:
    where = names(tmp_path)
    thing = where["objects"][name]
    if pickled == "yes":
        for made in (pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing)):
            assert type(made) is type(thing)
            assert str(made) == str(thing)
    else:
        assert pickled.startswith("no")
        for way in (pickle.dumps, copy.deepcopy):
            with pytest.raises(MaxlabError):
                way(thing)
    calls = re.findall(r"`([^`]+)`", file)
    assert calls or file == "with the graph"
    for call in calls:
        if call.startswith("maxlab.load_run"):
            where["path"] += ".mlprof" if not Path(where["path"]).exists() else ""
        eval(call, where)
        assert any(tmp_path.iterdir())
