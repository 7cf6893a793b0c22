"""Models that older versions of maxlab have saved, which this one still reads.

``files/versionN.mlmodel`` was written by the first maxlab with version N of the format, and stays
as it is. This maxlab reads its own version and the one before it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxlab import engine
from maxlab.engine.kept.contents import contents
from maxlab.engine.kept.manifest import VERSION
from tests.engine.kept.made import X

FILES = Path(__file__).parent / "files"
READ = range(max(VERSION - 1, 1), VERSION + 1)


@pytest.mark.parametrize("version", READ)
@pytest.mark.parametrize("trusted", [False, True])
def test_it_is_read(version: int, trusted: bool) -> None:
    path = FILES / f"version{version}.mlmodel"
    model = engine.InferenceSession().load(path, trusted=trusted)
    wanted = np.load(FILES / f"version{version}.npy")
    found = model(X)[0].to_numpy()
    assert np.abs(found - wanted).max() < 1e-5
    assert contents(path).manifest.name == "scores"
    assert [op.name for op in model.graph.function.ops][-1] == "mo.output"


def test_there_is_a_file_of_each_version() -> None:
    assert {path.stem for path in FILES.glob("*.mlmodel")} == {f"version{n}" for n in READ}
