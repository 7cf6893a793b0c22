"""``python -m maxlab run`` and ``info``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxlab import engine
from maxlab.__main__ import FAILED, FINE, main
from maxlab.engine.kept.contents import contents
from maxlab.graph import Graph, TensorType
from tests.engine.kept.made import F32, X, outputs, scores


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("kept")
    scores().save(made / "a.mlmodel")
    np.save(made / "x.npy", X)
    return made


@pytest.mark.parametrize("trust", [[], ["--trusted"]])
def test_outputs_are_written_or_told(
    trust: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["run", f"{folder}/a.mlmodel", "--input", f"{folder}/x.npy", "--threads", "1"]
    assert main([*given, "--output", f"{folder}/y.npy", *trust]) == FINE
    told = capsys.readouterr().out
    wanted = scores()(X)
    assert np.load(folder / "y.npy").tobytes() == wanted[0].to_numpy().tobytes()
    first = wanted[1].to_numpy()
    assert told == f"output1: float32[3, 1] {', '.join(map(str, first.ravel().tolist()))}\n"


def test_inputs_have_names(folder: Path, tmp_path: Path) -> None:
    types = [TensorType(F32, ["n"]), TensorType(F32, ["n"])]
    graph = Graph("minus", lambda a, b: a - b, types)
    engine.InferenceSession().load(graph).save(tmp_path / "b.mlmodel")
    names = [one.name for one in contents(tmp_path / "b.mlmodel").manifest.inputs]
    for name, value in zip(names, (5, 3), strict=True):
        np.save(tmp_path / f"{name}.npy", np.full(2, value, np.float32))
    given = [part for n in reversed(names) for part in ("--input", f"{n}={tmp_path}/{n}.npy")]
    more = ["--output", f"{tmp_path}/y.npy"]
    assert main(["run", f"{tmp_path}/b.mlmodel", *given, *more]) == FINE
    assert np.load(tmp_path / "y.npy").tolist() == [2, 2]


def test_what_is_wrong_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, x = f"{folder}/a.mlmodel", f"{folder}/x.npy"
    (folder / "bad.npy").write_bytes(b"\x93NUMPY" + b"\xff" * 100)
    np.save(folder / "objects.npy", np.array([object], object), allow_pickle=True)
    for given, code in (
        (["run", model], "ML60"),
        (["run", model, "--input", f"{folder}/no.npy"], "ML002"),
        (["run", model, "--input", f"{folder}/bad.npy"], "ML453"),
        (["run", model, "--input", f"{folder}/objects.npy"], "ML453"),
        (["run", model, "--input", f"nobody={x}"], "ML452"),
        (["run", model, "--input", x, *["--output", f"{folder}/o.npy"] * 3], "ML452"),
        (["run", model, "--input", x, "--trusted", "0" * 64], "ML514"),
        (["run", x, "--input", x], "ML512"),
        (["info", x], "ML512"),
        (["info", str(folder)], "ML001"),
    ):
        assert main(given) == FAILED, given
        assert f"[{code}" in capsys.readouterr().err, given


def test_what_is_in_it_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "a.mlmodel"
    assert main(["info", str(path), "--verify"]) == FINE
    told = capsys.readouterr().out
    found = contents(path)
    assert f"digest  {found.digest}\n" in told
    assert "input   input0: float32[n, 64]\n" in told
    assert f"{found.nbytes:,} bytes  together" in told
    content = bytearray(path.read_bytes())
    begin = next(one.offset for one in found.members if one.name == "packed.bin")
    content[begin + 9] ^= 1
    (folder / "changed.mlmodel").write_bytes(content)
    assert main(["info", f"{folder}/changed.mlmodel"]) == FINE
    assert main(["info", f"{folder}/changed.mlmodel", "--verify"]) == FAILED
    assert outputs(scores())
