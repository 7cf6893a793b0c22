"""Numbers of weights that a document keeps: in its text, and in a file beside it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import files
from maxlab.dtype import DType
from maxlab.errors import FileError, GraphError, MaxlabError, ParseError, WeightError
from maxlab.graph import DeviceRef, Editor, Graph, ShardingStrategy, TensorType, Weight, ops
from maxlab.graph.kept import SMALL

F32, CPU = DType.float32, DeviceRef.CPU()
ROW = TensorType(F32, ["n", 64])
X = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)
RNG = np.random.default_rng(1)
NUMBERS: dict[str, Any] = {
    "w": RNG.standard_normal((64, 32)).astype(np.float32),
    "b": RNG.standard_normal(32).astype(np.float32),
    "v": RNG.standard_normal((32, 40)).astype(np.float32),
}


def net() -> Graph:
    with Graph("net", input_types=[ROW]) as graph:
        w, b = Weight("w", F32, [64, 32], CPU), Weight("b", F32, [32], CPU)
        v = Weight("v", F32, [32, 40], CPU)
        graph.output(ops.relu(graph.inputs[0].tensor @ w + b) @ v)
    return graph


def run(graph: Graph, **registry: Any) -> Any:
    model = maxlab.InferenceSession().load(graph, weights_registry=registry or None)
    return model(X)[0].to_numpy()


def opened(path: Path) -> Graph:
    made = maxlab.open(path)
    assert isinstance(made, Graph)
    return made


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A document that keeps its weights."""
    made = tmp_path / "net.mlgraph"
    net().save(made, weights=NUMBERS)
    return made


def test_it_is_opened_with_its_numbers(path: Path) -> None:
    graph = opened(path)
    want = np.maximum(X @ NUMBERS["w"] + NUMBERS["b"], 0) @ NUMBERS["v"]
    np.testing.assert_allclose(run(graph), want, rtol=1e-4, atol=1e-4)
    for name, array in NUMBERS.items():
        np.testing.assert_array_equal(graph.document.weights[name], array)
    data = json.loads(path.read_text("utf-8"))["weights"]
    assert "data" in data["b"]
    assert data["w"]["file"] == data["v"]["file"]
    assert files_of(path.parent) == [data["w"]["file"], "net.mlgraph"]


def test_saved_again_it_is_the_same_bytes(path: Path) -> None:
    before = {name: (path.parent / name).read_bytes() for name in files_of(path.parent)}
    opened(path).save(path)
    assert {name: (path.parent / name).read_bytes() for name in files_of(path.parent)} == before


def test_what_is_given_to_a_session_comes_first(path: Path) -> None:
    zeros = np.zeros_like(NUMBERS["v"])
    assert not run(opened(path), v=zeros).any()


def test_a_graph_without_numbers_keeps_none(tmp_path: Path) -> None:
    net().save(tmp_path / "net.mlgraph")
    assert files_of(tmp_path) == ["net.mlgraph"]
    with pytest.raises(MaxlabError, match="ML613"):
        run(opened(tmp_path / "net.mlgraph"))


def test_in_another_folder_it_has_its_own_file(path: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    opened(path).save(there / "other.mlgraph")
    assert len(files_of(there)) == 2
    for name in ("net.mlgraph", *[one for one in files_of(path.parent) if "safetensors" in one]):
        (path.parent / name).unlink()
    assert run(opened(there / "other.mlgraph")).shape == (2, 40)


def test_other_numbers_are_another_file_and_the_old_one_goes(path: Path) -> None:
    (old,) = [name for name in files_of(path.parent) if name.endswith(".safetensors")]
    graph = opened(path)
    graph.save(path, weights={"w": NUMBERS["w"] * 2})
    names = files_of(path.parent)
    assert old not in names
    assert len(names) == 2
    np.testing.assert_array_equal(opened(path).document.weights["w"], NUMBERS["w"] * 2)
    np.testing.assert_array_equal(opened(path).document.weights["v"], NUMBERS["v"])


def test_a_file_that_another_document_names_stays(path: Path) -> None:
    copy = path.with_name("copy.mlgraph")
    shutil.copy(path, copy)
    opened(path).save(path, weights={"w": NUMBERS["w"] * 2})
    np.testing.assert_array_equal(opened(copy).document.weights["w"], NUMBERS["w"])


def test_a_document_that_names_anybodys_file_does_not_remove_it(path: Path) -> None:
    precious = path.with_name("precious.safetensors")
    data = json.loads(path.read_text("utf-8"))
    shutil.copy(path.with_name(data["weights"]["w"]["file"]), precious)
    for name in ("w", "v"):
        data["weights"][name]["file"] = precious.name
    path.write_text(json.dumps(data), "utf-8")
    opened(path).save(path, weights={"w": NUMBERS["w"] * 3, "v": NUMBERS["v"]})
    assert precious.is_file()


def test_a_save_that_fails_leaves_both_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: (path.parent / name).read_bytes() for name in files_of(path.parent)}
    graph = opened(path)

    def full(*args: object) -> None:
        raise FileError("ML003", "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_text", full)
        with pytest.raises(FileError):
            graph.save(path, weights={"w": NUMBERS["w"] * 2})
    for name, content in before.items():
        assert (path.parent / name).read_bytes() == content
    np.testing.assert_array_equal(opened(path).document.weights["w"], NUMBERS["w"])
    graph.save(path)
    np.testing.assert_array_equal(opened(path).document.weights["w"], NUMBERS["w"] * 2)
    assert len(files_of(path.parent)) == 2


def _gone(file: Path) -> None:
    file.unlink()


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _changed(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(bytes(content))


def _others(file: Path) -> None:
    from maxlab.graph.weights.writing import write_safetensors

    write_safetensors(file, {"u": NUMBERS["w"]})


def _shape(file: Path) -> None:
    from maxlab.graph.weights.writing import write_safetensors

    write_safetensors(file, {"v": NUMBERS["v"].T.copy(), "w": NUMBERS["w"].T.copy()})


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (_gone, "ML884"),
        (_folder, "ML884"),
        (_cut, "ML885"),
        (_empty, "ML885"),
        (_changed, "ML885"),
        (_others, "ML885"),
        (_shape, "ML885"),
    ],
)
def test_a_damaged_file_is_told_at_the_weight_and_the_document_is_opened(
    path: Path, harm: Any, code: str
) -> None:
    (file,) = [one for one in path.parent.iterdir() if one.suffix == ".safetensors"]
    harm(file)
    graph = opened(path)
    assert graph.document.text() == path.read_text("utf-8")
    with pytest.raises(WeightError) as caught:
        run(graph)
    assert caught.value.code == code
    assert caught.value.at is not None
    assert Path(__file__).name in str(caught.value.at)
    # What is given is not read, and saving loses nothing of what the document says.
    assert run(graph, **NUMBERS).shape == (2, 40)
    Editor(graph).insert("tanh", graph.function.ops[-1].id, 0)
    graph.save(path)
    assert json.loads(path.read_text("utf-8"))["weights"].keys() == {"b", "v", "w"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("file", "../net.safetensors"),
        ("file", "/etc/passwd"),
        ("file", "a/b.safetensors"),
        ("file", ".hidden.safetensors"),
        ("file", "net.pickle"),
        ("file", 3),
        ("sha256", "short"),
        ("shape", [64, -32]),
        ("shape", "64"),
        ("shape", [1] * 40),
        ("dtype", "object"),
        ("dtype", None),
    ],
)
def test_a_hostile_entry_is_refused_with_its_place(path: Path, field: str, value: Any) -> None:
    data = json.loads(path.read_text("utf-8"))
    data["weights"]["w"][field] = value
    path.write_text(json.dumps(data, indent=1), "utf-8")
    with pytest.raises(ParseError) as caught:
        opened(path)
    assert caught.value.code == "ML864"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 172, "!" * 172, 4, "A" * 171 + "="])
def test_numbers_in_the_text_are_those_of_the_shape(path: Path, text: Any) -> None:
    data = json.loads(path.read_text("utf-8"))
    data["weights"]["b"]["data"] = text
    path.write_text(json.dumps(data), "utf-8")
    is_right = text == "A" * 171 + "="
    if is_right:
        assert opened(path).document.weights["b"].shape == (32,)
        return
    with pytest.raises(ParseError, match="ML864"):
        opened(path)


def test_numbers_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.mlgraph"
    for weights in (
        {"w": NUMBERS["w"].T},
        {"w": NUMBERS["w"].astype(np.float64)},
        {"w": "many"},
        {"w": NUMBERS["w"][0]},
    ):
        with pytest.raises(GraphError, match="ML886"):
            net().save(path, weights=weights)
    with pytest.raises(GraphError, match="ML886"):
        net().document.weights["u"] = NUMBERS["w"]
    with pytest.raises(GraphError, match="ML886"):
        net().save(tmp_path / "net.mlir", weights=NUMBERS)
    assert files_of(tmp_path) == []


def test_an_undone_weight_is_in_the_text_no_more_and_comes_back(tmp_path: Path) -> None:
    graph = net()
    editor = Editor(graph)
    before = graph.document.text()
    with editor.step(), graph:
        extra = graph.add_weight(Weight("extra", F32, [4], CPU))
        graph.document.weights["extra"] = np.arange(4, dtype=np.float32)
    assert extra.shape == [4]
    after = graph.document.text()
    assert '"extra": {"data"' in after
    editor.undo()
    assert graph.document.text() == before
    editor.redo()
    assert graph.document.text() == after


def test_other_numbers_are_a_step(path: Path) -> None:
    """Also where they were saved in between, and the file of before is gone."""
    graph = opened(path)
    before = graph.document.text()
    editor = Editor(graph)
    with editor.step():
        graph.document.weights["w"] = NUMBERS["w"] * 2
        graph.document.weights["b"] = NUMBERS["b"] * 2
    graph.save(path)
    after = graph.document.text()
    assert after != before
    editor.undo()
    graph.save(path)
    assert path.read_text("utf-8") == before
    np.testing.assert_array_equal(opened(path).document.weights["w"], NUMBERS["w"])
    editor.redo()
    graph.save(path)
    assert path.read_text("utf-8") == after
    np.testing.assert_array_equal(opened(path).document.weights["w"], NUMBERS["w"] * 2)
    assert len(files_of(path.parent)) == 2


def test_an_array_that_changes_later_is_kept_as_it_was_given(tmp_path: Path) -> None:
    graph, mine = net(), {name: array.copy() for name, array in NUMBERS.items()}
    for name, array in mine.items():
        graph.document.weights[name] = array
        array[...] = 0
    graph.save(tmp_path / "net.mlgraph")
    for name, array in NUMBERS.items():
        found = opened(tmp_path / "net.mlgraph").document.weights[name]
        np.testing.assert_array_equal(found, array)


def test_a_whole_weight_is_kept_for_its_shards(tmp_path: Path) -> None:
    whole = Weight("w", F32, [64, 32], CPU)
    whole.sharding_strategy = ShardingStrategy.columnwise(2)
    parts = whole.shard([CPU, CPU])
    with Graph("cut", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        graph.output(*(x @ part for part in parts))
    path = tmp_path / "cut.mlgraph"
    graph.save(path, weights={"w": NUMBERS["w"]})
    model = maxlab.load(opened(path))
    found = np.concatenate([one.to_numpy() for one in model(X)], axis=1)
    np.testing.assert_allclose(found, X @ NUMBERS["w"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [DType.bfloat16, DType.int64, DType.bool, DType.float8_e4m3fn])
def test_every_dtype_of_files(tmp_path: Path, dtype: DType) -> None:
    shape = [SMALL, 2]
    with Graph("g", input_types=[]) as graph:
        graph.output(Weight("big", dtype, shape, CPU), Weight("small", dtype, [3], CPU))
    numbers = {
        "big": np.ones(shape, np.float32).astype(dtype.ml_numpy),
        "small": np.zeros(3, np.float32).astype(dtype.ml_numpy),
    }
    graph.save(tmp_path / "g.mlgraph", weights=numbers)
    again = opened(tmp_path / "g.mlgraph").document.weights
    for name, array in numbers.items():
        assert again[name].dtype == array.dtype
        assert again[name].tobytes() == array.tobytes()


def test_a_link_leads_to_the_folder_of_its_document(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "net.mlgraph"
    os.symlink(path, link)
    opened(path).save(link, weights={"w": NUMBERS["w"] * 2})
    assert files_of(folder) == ["net.mlgraph"]
    np.testing.assert_array_equal(opened(path).document.weights["w"], NUMBERS["w"] * 2)


def test_each_weight_is_merged_by_itself(path: Path) -> None:
    base, ours, theirs = opened(path), opened(path), opened(path)
    ours.save(path, weights={"w": NUMBERS["w"] * 2})
    theirs.save(path.with_name("theirs.mlgraph"), weights={"b": NUMBERS["b"] * 3})
    made = maxlab.merge(base, ours, theirs)
    assert made.is_clean
    kept = made.graph.document.weights
    np.testing.assert_array_equal(kept["w"], NUMBERS["w"] * 2)
    np.testing.assert_array_equal(kept["b"], NUMBERS["b"] * 3)
    theirs.document.weights["b"] = NUMBERS["b"]
    theirs.save(path.with_name("theirs.mlgraph"), weights={"w": NUMBERS["w"] * 4})
    made = maxlab.merge(base, ours, theirs)
    assert [one.says for one in made.conflicts] == ["weight w: all"]
    np.testing.assert_array_equal(made.graph.document.weights["w"], NUMBERS["w"] * 2)
    Editor(made.graph).resolve("m0", "theirs")
    np.testing.assert_array_equal(made.graph.document.weights["w"], NUMBERS["w"] * 4)
