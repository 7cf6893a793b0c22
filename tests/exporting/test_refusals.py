"""What cannot be exported, and folders that cannot be written: each is an error that names it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, FileError, MaxlabError, UnsupportedError
from maxlab.graph import DeviceRef, Graph, TensorType, ops

F32 = DType.float32
ROWS = TensorType(F32, ["n", 4])


@pytest.fixture
def simulated() -> Iterator[None]:
    driver.use_simulator(1)
    try:
        yield
    finally:
        driver.use_simulator(0)


def doubled() -> engine.Model:
    return engine.InferenceSession().load(Graph("doubled", lambda x: x * 2, [ROWS]))


def refused(model: engine.Model, code: str, words: str, folder: Path) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        model.export_c(folder)
    assert caught.value.code == code
    assert caught.value.fix
    assert not folder.exists(), "nothing is written"


def test_a_graph_of_a_gpu(simulated: None, tmp_path: Path) -> None:
    kind = TensorType(F32, ["n", 4], device=DeviceRef.GPU())
    session = engine.InferenceSession(devices=[driver.Accelerator()])
    model = session.load(Graph("far", lambda x: x * 2, [kind]))
    refused(model, "ML460", "far cannot be exported as C: it runs on .*gpu", tmp_path / "out")


def test_a_function_of_python(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        ops.print(x)
        return x * 2

    model = engine.InferenceSession().load(Graph("said", body, [ROWS]))
    refused(model, "ML461", "calls print, a function of Python", tmp_path / "out")


def test_sizes_that_are_computed(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        return ops.nonzero(x, "found") * 2

    model = engine.InferenceSession().load(Graph("staged", body, [ROWS]))
    refused(model, "ML462", "it runs in 2 stages", tmp_path / "out")


def test_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ArgumentError, match=r"letter\.txt.*ML465"):
        doubled().export_c(tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]


@pytest.mark.parametrize("place", ["a\0b", "file/below", "file", 3, None])
def test_a_folder_that_cannot_be(tmp_path: Path, place: Any) -> None:
    (tmp_path / "file").write_text("mine")
    target = str(tmp_path / place) if isinstance(place, str) else place
    with pytest.raises(MaxlabError) as caught:
        doubled().export_c(target)
    assert caught.value.code in ("ML003", "ML005")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_export_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    weight = np.ones((4, 4), "f4")
    graph = Graph("large", lambda x: ops.softmax(x @ ops.constant(weight, F32)), [ROWS])
    first = engine.InferenceSession().load(graph).export_c(tmp_path / "out")
    assert "weights.bin" in first.files
    second = doubled().export_c(tmp_path / "out")
    assert "weights.bin" not in os.listdir(tmp_path / "out")
    assert set(second.files) <= set(os.listdir(tmp_path / "out"))
    assert second.nbytes == sum((tmp_path / "out" / name).stat().st_size for name in second.files)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from maxlab.engine.exporting import data

    def full(self: Any, out: Any) -> None:
        raise OSError(28, os.strerror(28))

    made = doubled().export_c(tmp_path / "out")
    before = {name: (tmp_path / "out" / name).read_bytes() for name in made.files}
    weight = np.ones((4, 4), "f4")
    graph = Graph("large", lambda x: x @ ops.constant(weight, F32), [ROWS])
    model = engine.InferenceSession().load(graph)
    monkeypatch.setattr(data.Data, "write", full)
    with pytest.raises((FileError, OSError)):
        model.export_c(tmp_path / "out")
    left = set(os.listdir(tmp_path / "out"))
    assert not [name for name in left if name.startswith(".maxlab")]
    assert set(before) <= left
