"""PyTorch checkpoints: written by hand, and by PyTorch itself where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import MissingWeightError, WeightError
from maxlab.graph.weights import PytorchWeights, Weights, load_weights
from tests.graph.weight_files import archive, state, storage, tensor, together, torch_of, word

F32 = DType.float32
NOISE = np.random.default_rng(0)
TENSORS: dict[str, np.ndarray[Any, Any]] = {
    "layers.1.weight": NOISE.standard_normal((3, 4)).astype(np.float32),
    "layers.10.weight": NOISE.standard_normal((2, 5)).astype(np.float32).T,
    "half": NOISE.standard_normal(3).astype(np.float16),
    "bf16": NOISE.standard_normal((2, 2)).astype(ml_dtypes.bfloat16),
    "ids": np.arange(5),
    "mask": np.array([True, False]),
    "scalar": np.array(2.5, np.float64),
    "nothing": np.zeros((0, 3), np.float32),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.pt"
    file.write_bytes(torch_of(TENSORS))
    return file


def saved(
    tmp_path: Path, pickle: bytes, storages: Mapping[str, bytes], name: str = "model.pt"
) -> Path:
    file = tmp_path / name
    file.unlink(missing_ok=True)
    file.write_bytes(archive(pickle, storages))
    return file


def test_tensors_come_back(path: Path) -> None:
    weights = load_weights([path])
    assert isinstance(weights, PytorchWeights)
    assert isinstance(weights, Weights)
    assert [name for name, _ in weights.items()] == list(TENSORS)
    assert [name for name, _ in weights.layers[1].items()] == ["weight"]
    for name, expected in TENSORS.items():
        weight = weights[name]
        assert (weight.dtype, weight.shape) == (
            DType.from_numpy(expected.dtype),
            list(expected.shape),
        )
        assert weight.quantization_encoding is None
        assert not weight._read.keys() & {name}
        data: Any = weight.data().data
        assert data.tobytes() == expected.tobytes()
        assert data.flags.c_contiguous
        assert data.flags.aligned
        assert not data.flags.writeable
    with pytest.raises(MissingWeightError):
        weights.layers.data()
    with pytest.raises(WeightError, match="expected"):
        weights.half.allocate(F32)
    weights.layers[10].weight.allocate(F32, [5, 2])
    assert list(weights.half.allocated_weights) == ["layers.10.weight"]


def test_views_of_one_storage(tmp_path: Path) -> None:
    of = storage("FloatStorage", "0", 6)
    views = {
        "all": tensor(of, 0, [6], [1]),
        "row": tensor(of, 3, [3], [1]),
        "transposed": tensor(of, 0, [3, 2], [1, 3]),
        "diagonal": tensor(of, 0, [2], [4]),
        "repeated": tensor(of, 2, [3, 2], [0, 1]),
        "one": tensor(of, 5, [1, 1], [77, 99]),
        "empty": tensor(of, 6, [0, 2**40], [5, 5]),
    }
    values = np.arange(6, dtype=np.float32)
    weights = PytorchWeights(saved(tmp_path, state(views), {"0": values.tobytes()}))
    found: dict[str, Any] = {name: w.data().data for name, w in weights.items()}
    assert {name: x.tolist() for name, x in found.items()} == {
        "all": [0, 1, 2, 3, 4, 5],
        "row": [3, 4, 5],
        "transposed": [[0, 3], [1, 4], [2, 5]],
        "diagonal": [0, 4],
        "repeated": [[2, 3]] * 3,
        "one": [[5]],
        "empty": [],
    }
    assert all(x.flags.c_contiguous for x in found.values())


def test_nested_dicts_and_lists_become_names(tmp_path: Path) -> None:
    leaf = tensor(storage("ByteStorage", "0", 2), 0, [2], [1])
    inner = b"}(" + word("w") + leaf + word("step") + b"K\x07" + b"u"
    odd = b"(" + b"K\x01" + leaf + b"N" + leaf + b"\x88" + leaf + b"d"
    items = {
        "model": inner,
        "list": b"](" + leaf + inner + b"e",
        "odd": odd,
        "epoch": b"K\x03",
        "none": b"N",
    }
    weights = PytorchWeights(saved(tmp_path, state(items), {"0": b"\1\2"}))
    assert [name for name, _ in weights.items()] == ["model.w", "list.0", "list.1.w", "odd.1"]
    assert [name for name, _ in weights.list.items()] == ["0", "1.w"]


def test_what_pickles_besides_tensors_is_passed_over(tmp_path: Path) -> None:
    leaf = tensor(storage("ByteStorage", "0", 2), 0, [2], [1])
    items = {
        "size": b"ctorch\nSize\n" + together(together(b"K\1", b"K\2")) + b"R",
        "device": b"ctorch\ndevice\n" + together(word("cpu")) + b"R",
        "dtype": b"ctorch\nfloat32\n",
        "bytes": b"c_codecs\nencode\n" + together(word("x"), word("latin1")) + b"R",
        "set": b"c__builtin__\nset\n" + together(b"]") + b"R",
        "counter": b"ccollections\nCounter\n" + together(b"}") + b"R" + b"}b",
        "float": b"G" + bytes(8),
        "long": b"\x8a\x14" + bytes(19) + b"\1",
        "raw": b"C\x03abc",
        "w": leaf,
    }
    weights = PytorchWeights(saved(tmp_path, state(items), {"0": b"\1\2"}))
    assert [name for name, _ in weights.items()] == ["w"]


def test_several_files_and_an_index(tmp_path: Path) -> None:
    for name in "ab":
        of = tensor(storage("ByteStorage", "0", 2), 0, [2], [1])
        saved(tmp_path, state({f"{name}.w": of}), {"0": b"\1\2"}, f"{name}.bin")
    weights = load_weights([tmp_path / "a.bin", tmp_path / "b.bin"])
    assert [name for name, _ in weights.items()] == ["a.w", "b.w"]
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text('{"weight_map": {"b.w": "b.bin"}}')
    assert [name for name, _ in load_weights([index]).items()] == ["b.w"]
    (tmp_path / "c.bin").write_bytes((tmp_path / "a.bin").read_bytes())
    with pytest.raises(WeightError, match="stands in"):
        load_weights([tmp_path / "a.bin", tmp_path / "c.bin"])


def test_archives_with_wide_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As archives of more than 4 GiB have them: every size and place is written in 64 bits."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 3)
    content = torch_of(TENSORS)
    assert b"PK\x06\x06" in content
    assert content.count(b"\xff\xff\xff\xff") > len(TENSORS)
    path = tmp_path / "wide.pt"
    path.write_bytes(content)
    weights = PytorchWeights(path)
    for name, expected in TENSORS.items():
        np.testing.assert_array_equal(weights[name].data().data, expected)
    at = content.rindex(b"PK\x06\x06")
    for wrong in (
        content[:at] + content[at + 1 :],
        content[: at + 48] + b"\xff" * 8 + content[at + 56 :],
    ):
        bad = tmp_path / f"{len(wrong)}.pt"
        bad.write_bytes(wrong)
        with pytest.raises(WeightError, match="not where it should be"):
            PytorchWeights(bad)


def test_tensors_that_cannot_be_read_do_not_spoil_the_others(tmp_path: Path) -> None:
    of = tensor(storage("ByteStorage", "0", 2), 0, [2], [1])
    complex_ = tensor(storage("ComplexFloatStorage", "1", 1), 0, [1], [1])
    sparse = b"ctorch._utils\n_rebuild_sparse_tensor\n" + together(b"N") + b"R"
    pickle = state({"w": of, "c": complex_, "s": sparse})
    weights = PytorchWeights(saved(tmp_path, pickle, {"0": b"\1\2", "1": bytes(8)}))
    assert weights.w.data().shape == [2]
    for name, why in (("c", "complex64"), ("s", "is sparse")):
        for ask in (weights[name].data, weights[name].allocate):
            with pytest.raises(WeightError, match=why) as caught:
                ask()
            assert caught.value.code == "ML634"


def test_the_file_is_read_without_pytorch(path: Path) -> None:
    program = f"""
import sys
from maxlab.graph.weights import PytorchWeights
PytorchWeights({str(path)!r}).half.data()
assert not {{"torch", "safetensors", "gguf"}} & set(sys.modules)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", program], check=True, env=env)


# ---------------------------------------------------------------- beside PyTorch
@pytest.fixture
def torch() -> Any:
    return pytest.importorskip(
        "torch", reason="torch not installed; scripts/test --oracle installs it"
    )


def as_numpy(torch: Any, value: Any) -> np.ndarray[Any, Any]:
    value = value.detach().contiguous()
    raw = value.reshape(-1).view(torch.uint8).numpy().view(DType.from_torch(value.dtype).ml_numpy)
    return np.asarray(raw.reshape(tuple(value.shape)))


@pytest.mark.oracle
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_state_dicts_of_pytorch(torch: Any, tmp_path: Path, protocol: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4),
        torch.nn.BatchNorm1d(4),
        torch.nn.LSTM(4, 2),
        torch.nn.Embedding(5, 2),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    model[0](torch.ones(2, 3)).sum().backward()
    optimizer.step()
    path = tmp_path / "model.pth"
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
    torch.save(state, path, pickle_protocol=protocol)
    weights = PytorchWeights(path)
    wanted = {f"model.{n}": t for n, t in model.state_dict().items()}
    for number, entry in optimizer.state_dict()["state"].items():
        wanted |= {f"optimizer.state.{number}.{n}": t for n, t in entry.items()}
    assert {name for name, _ in weights.items()} == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(weights[name].data().data, as_numpy(torch, value))
    mapped: Any = weights.model["0.weight"].data().data
    assert not mapped.flags.owndata


@pytest.mark.oracle
def test_dtypes_and_views_of_pytorch(torch: Any, tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    values = {
        dtype.name: base.to(dtype.to_torch())
        for dtype in DType
        if dtype not in (DType.float4_e2m1fn, DType.float8_e8m0fnu)
    }
    marked = torch.nn.Parameter(torch.ones(2))
    marked.tag = "x"
    values |= {
        "e8m0": torch.ones(3).to(torch.float8_e8m0fnu),
        "base": base,
        "transposed": base.T,
        "sliced": base[1:3, ::2],
        "expanded": base[:1].expand(7, 6),
        "permuted": base.reshape(2, 2, 6).permute(2, 0, 1),
        "channels last": base.reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(base),
        "marked": marked,
        "scalar": torch.tensor(3),
        "empty": torch.empty(0, 3),
    }
    path = tmp_path / "model.pt"
    torch.save(values, path)
    weights = PytorchWeights(path)
    assert [name for name, _ in weights.items()] == list(values)
    for name, value in values.items():
        found: Any = weights[name].data().data
        assert found.flags.c_contiguous
        assert weights[name].shape == list(value.shape)
        assert found.tobytes() == as_numpy(torch, value).tobytes(), name
    parts: Any = [weights[n].data().data for n in ("base", "parameter", "float32")]
    assert np.shares_memory(parts[0], parts[1])


@pytest.mark.oracle
def test_what_pytorch_saves_that_is_not_read(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    ones = torch.ones(3)
    for value, code in (
        (ones, "ML750"),
        ([ones], "ML750"),
        ({"epoch": 1}, "ML750"),
        (torch.nn.Linear(2, 2), "ML747"),
        ({"w": ones, "args": Path("x")}, "ML747"),
    ):
        path.unlink(missing_ok=True)
        torch.save(value, path)
        with pytest.raises(WeightError) as caught:
            PytorchWeights(path)
        assert caught.value.code == code
    path.unlink()
    torch.save({"w": ones}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(WeightError, match="before 1.6") as caught:
        load_weights([path])
    assert caught.value.code == "ML637"

    path.unlink()
    odd = {
        "c": torch.ones(2, dtype=torch.complex64),
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.empty(3, device="meta"),
        "imag": torch.ones(2, dtype=torch.complex64).conj().imag,
    }
    torch.save({**odd, "w": ones, "huge": torch.ones(1).expand(2**40)}, path)
    weights = PytorchWeights(path)
    assert weights.w.data().shape == [3]
    for name in odd:
        with pytest.raises(WeightError) as caught:
            weights[name].data()
        assert caught.value.code == "ML634"
    assert weights.huge.shape == [2**40]
    with pytest.raises(WeightError, match="repeats its elements") as caught:
        weights.huge.data()
    assert caught.value.code == "ML751"


@pytest.mark.oracle
def test_an_archive_that_was_packed_again(torch: Any, tmp_path: Path) -> None:
    """Stored members are read wherever they lie; compressed ones are refused."""
    path = tmp_path / "model.pt"
    torch.save({"w": torch.arange(100.0)}, path)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        again = tmp_path / f"{method}.pt"
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(again, "w", method) as new:
            new.comment = b"packed again"
            for member in old.namelist():
                new.writestr(member, old.read(member))
        if method == zipfile.ZIP_STORED:
            assert PytorchWeights(again).w.data().data.tolist() == list(range(100))  # type: ignore[attr-defined]
        else:
            with pytest.raises(WeightError, match="compressed") as caught:
                PytorchWeights(again)
            assert caught.value.code == "ML637"
