"""Kept models that are cut off, changed, foreign, or name what they may not name: a typed error,
and nothing of them is run."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maxlab import engine
from maxlab.engine import Model
from maxlab.engine.kept import opening, weights
from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.contents import contents
from maxlab.engine.kept.manifest import DIGEST, MANIFEST
from maxlab.errors import FileError, MaxlabError, ParseError, WeightError
from maxlab.graph import Graph, KernelLibrary, TensorType, ops
from maxlab.opset.custom import DECLARED
from maxlab.stored import Writing
from tests.engine.kept.made import CPU, F32, KERNEL, X, from_file, numbers, outputs, scores

ROOT = Path(__file__).resolve().parents[3]


def load(path: Path, trusted: bool | str = True, **more: Any) -> Model:
    return engine.InferenceSession().load(path, trusted=trusted, **more)


def rewritten(
    path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None], *, sign: bool = True
) -> None:
    """Write the kept model at ``path`` again after ``change`` of its manifest and members; with
    ``sign``, with digests that fit."""
    archive = Archive(path)
    manifest = json.loads(archive.memory[slice(*_span(archive, MANIFEST))])
    members = {name: archive.read(name) for name in archive.manifest.members}
    change(manifest, members)
    if sign:
        manifest["members"] = {
            name: {"nbytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in members.items()
        }
    text = json.dumps(manifest).encode()
    with path.open("wb") as file:
        made = Writing(file)
        made.add(MANIFEST, [text])
        made.add(DIGEST, [hashlib.sha256(text).hexdigest().encode()])
        for name, data in members.items():
            made.add(name, [data])
        made.close()


def _span(archive: Archive, name: str) -> tuple[int, int]:
    begin, nbytes = archive.place(name)
    return begin, begin + nbytes


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("kept") / "a.mlmodel"
    scores().save(path)
    return path.read_bytes()


@pytest.fixture
def path(content: bytes, tmp_path: Path) -> Path:
    made = tmp_path / "a.mlmodel"
    made.write_bytes(content)
    return made


# ---------------------------------------------------------------- bytes
@pytest.mark.parametrize("trusted", [False, True])
def test_it_is_cut_off_anywhere(trusted: bool, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.mlmodel"
    for percent in range(100):
        path.write_bytes(content[: len(content) * percent // 100])
        with pytest.raises(MaxlabError):
            load(path, trusted)
        with pytest.raises(MaxlabError):
            contents(path)


@pytest.mark.parametrize("trusted", [False, True])
def test_one_byte_of_each_member_is_another(trusted: bool, content: bytes, path: Path) -> None:
    wanted = outputs(load(path))
    for member in contents(path).members:
        for at in {member.offset, member.offset + member.nbytes - 1}:
            made = bytearray(content)
            made[at] ^= 1
            path.write_bytes(made)
            try:
                found = outputs(load(path, trusted))
            except MaxlabError:
                continue
            # Without trust, plan and machine code are not even looked at.
            assert not trusted, member.name
            assert found == wanted, member.name


def test_a_weight_that_changed_is_found(path: Path, content: bytes) -> None:
    begin, nbytes = Archive(path).place("weights.safetensors")
    made = bytearray(content)
    made[begin + nbytes - 3] ^= 1
    path.write_bytes(made)
    for trusted in (False, True):
        with pytest.raises(ParseError, match="ML514"):
            load(path, trusted)


def test_a_model_that_was_seen_is_read_no_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(path, ns=(10**18, 10**18))
    monkeypatch.setattr(weights, "YOUNG_NS", 0)
    weights.forget()
    read: list[str] = []
    require = Archive.require

    def noted(self: Archive, name: str) -> None:
        read.append(name)
        require(self, name)

    monkeypatch.setattr(Archive, "require", noted)
    load(path)
    assert "weights.safetensors" in read
    for forgotten in (False, True):
        read.clear()
        if forgotten:  # by another process: the note is in the cache
            weights.forget()
        load(path)
        assert read == ["graph.mlgraph"]
    data = bytearray(path.read_bytes())
    begin, _ = Archive(path).place("weights.safetensors")
    data[begin + 200] ^= 1
    path.write_bytes(data)
    with pytest.raises(ParseError, match="ML514"):
        load(path)


# ---------------------------------------------------------------- what it claims
def test_a_newer_version(path: Path) -> None:
    def newer(manifest: dict[str, Any], _: Any) -> None:
        manifest["version"] = 2
        manifest["maxlab"] = "9.0"

    rewritten(path, newer)
    with pytest.raises(ParseError, match=r"newer maxlab 9\.0.*ML513"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("name"),
        lambda m: m.update(format="another"),
        lambda m: m.update(version="1"),
        lambda m: m.update(weights=[[]]),
        lambda m: m.update(weights=[{**m["weights"][0], "dtype": "float31"}]),
        lambda m: m.update(weights=[{**m["weights"][0], "offset": 10**9}]),
        lambda m: m.update(weights=[{**m["weights"][0], "offset": -1}]),
        lambda m: m.update(weights=[{**m["weights"][0], "shape": [10**30]}]),
        lambda m: m.update(weights=[{**m["weights"][0], "shape": [32, 32]}]),
        lambda m: m.update(weights=[{**m["weights"][0], "file": 7}]),
        lambda m: m.update(weights=[]),
        lambda m: m.update(packed=[{**m["packed"][0], "offset": 1 << 40}]),
        lambda m: m.update(packed=[{**m["packed"][0], "slot": 1 << 40}]),
        lambda m: m.update(packed=[{**m["packed"][0], "slot": 0}]),
        lambda m: m.update(arrays=[{**m["arrays"][0], "nbytes": 1 << 40}]),
        lambda m: m.update(options={"fuse": "yes"}),
        lambda m: m.update(options={"no such option": 1}),
        lambda m: m.update(libraries=[]),
        lambda m: m.update(libraries=[m["libraries"][0]]),
        lambda m: m["members"].update({"../../x": {"nbytes": 1, "sha256": "0"}}),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be(change: Callable[[dict[str, Any]], Any], path: Path) -> None:
    rewritten(path, lambda manifest, _: change(manifest), sign=False)
    try:
        load(path)
    except MaxlabError:
        return
    manifest = Archive(path).manifest
    assert not manifest.libraries, "without machine code its texts are compiled"


def test_a_member_that_nobody_knows(path: Path) -> None:
    def add(manifest: dict[str, Any], members: dict[str, bytes]) -> None:
        members["../evil"] = b"x"

    rewritten(path, add, sign=False)
    with pytest.raises(ParseError, match="ML512"):
        load(path)
    assert not (path.parent.parent / "evil").exists()


def test_a_kernel_that_was_swapped(path: Path) -> None:
    """The machine code of another kernel, under the name of one that the plan runs."""

    def swap(manifest: dict[str, Any], members: dict[str, bytes]) -> None:
        members["libraries/2.so"] = members["libraries/1.so"]

    digest = contents(path).digest
    content = path.read_bytes()
    rewritten(path, swap, sign=False)
    with pytest.raises(ParseError, match="ML514"):
        load(path)
    path.write_bytes(content)
    rewritten(path, swap)  # with digests that fit: then it is another file
    with pytest.raises(ParseError, match=f"expected {digest}.*ML514"):
        load(path, digest)
    with pytest.raises(MaxlabError, match="ML503"):  # it has no such kernel
        load(path)


def test_trust_is_a_bool_or_a_digest(path: Path) -> None:
    for wrong in ("yes", 1, None, "0" * 63, "G" * 64):
        with pytest.raises(TypeError, match="ML518"):
            load(path, wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------- code that it brings
def with_kernel() -> Model:
    library = KernelLibrary()
    library.add_source(KERNEL)
    types = [TensorType(F32, ["n"], CPU)]
    with Graph("own", input_types=types, custom_extensions=library) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.custom("double_it", CPU, [x], [x.type])[0])
    return engine.InferenceSession().load(graph)


def test_kernels_of_users_need_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = with_kernel(), numbers(5)
    model.save(tmp_path / "a.mlmodel")
    assert contents(tmp_path / "a.mlmodel").manifest.custom == ("double_it",)
    monkeypatch.setattr(opening, "HEAD", "another")  # also where its graph is compiled
    for trusted in (False, True):
        DECLARED.clear()  # as in a process that has loaded no library
        if trusted:
            assert outputs(load(tmp_path / "a.mlmodel"), x) == outputs(model, x)
        else:
            with pytest.raises(ValueError, match=r"custom kernel double_it.*ML515"):
                load(tmp_path / "a.mlmodel", trusted=False)
    monkeypatch.undo()
    DECLARED.clear()
    assert outputs(load(tmp_path / "a.mlmodel"), x) == outputs(model, x)
    DECLARED.clear()
    (tmp_path / "own.c").write_text(KERNEL)
    again = load(tmp_path / "a.mlmodel", trusted=False, custom_extensions=tmp_path / "own.c")
    assert outputs(again, x) == outputs(model, x)


def test_without_trust_no_machine_code_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("machine code of the file was opened")

    for name in ("open_library", "adopt", "read"):
        monkeypatch.setattr(opening, name, refuse)
    assert outputs(load(path, trusted=False))
    with pytest.raises(AssertionError):
        load(path)


def test_replaced_texts_need_trust(path: Path) -> None:
    text = "int k_x(void) { return 1; }"
    rewritten(path, lambda m, _: m.update(options={"replaced": [["k_x", text]]}), sign=False)
    assert load(path, trusted=False).options.replaced == ()


# ---------------------------------------------------------------- files of weights
def test_a_file_outside_of_the_folder_needs_trust(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    model = from_file(tmp_path / "there")
    path = tmp_path / "here" / "a.mlmodel"
    model.save(path, weights="files")
    assert outputs(load(path)) == outputs(model)
    with pytest.raises(WeightError, match="ML516"):
        load(path, trusted=False)
    for name in ("../there/weights.safetensors", "x/../../there/weights.safetensors"):

        def rename(manifest: dict[str, Any], _: Any, name: str = name) -> None:
            manifest["files"][0]["path"] = name

        rewritten(path, rename, sign=False)
        with pytest.raises(WeightError, match="ML516"):
            load(path, trusted=False)
    link = tmp_path / "here" / "weights.safetensors"
    link.symlink_to(tmp_path / "there" / "weights.safetensors")
    rewritten(path, lambda m, _: m["files"][0].update(path="weights.safetensors"), sign=False)
    with pytest.raises(WeightError, match="ML516"):
        load(path, trusted=False)


@pytest.mark.parametrize("name", ["", "\0", "a\0b", ".", "/dev/zero", "/proc/self/mem"])
def test_a_file_that_is_none(name: str, tmp_path: Path) -> None:
    model = from_file(tmp_path)
    path = tmp_path / "a.mlmodel"
    model.save(path, weights="files")
    rewritten(path, lambda m, _: m["files"][0].update(path=name), sign=False)
    for trusted in (False, True):
        with pytest.raises(MaxlabError):
            load(path, trusted)


@pytest.mark.parametrize("trusted", [False, True])
def test_a_file_that_moved_or_changed(trusted: bool, tmp_path: Path) -> None:
    model = from_file(tmp_path)
    path, file = tmp_path / "a.mlmodel", tmp_path / "weights.safetensors"
    model.save(path, weights="files")
    content = file.read_bytes()
    file.rename(tmp_path / "moved")
    with pytest.raises(WeightError, match=r"cannot be read.*ML517"):
        load(path, trusted)
    given = engine.InferenceSession().load(
        path, trusted=trusted, weights_registry={"w": numbers(64, 32, seed=5)}
    )
    assert outputs(given) == outputs(model)
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(WeightError, match=r"other numbers.*ML517"):
        load(path, trusted)
    file.write_bytes(content[:-4])
    with pytest.raises(WeightError, match=r"has \d+ bytes, and had.*ML517"):
        load(path, trusted)
    file.write_bytes(content)
    assert outputs(load(path, trusted)) == outputs(model)


def test_a_file_that_changes_while_it_is_used(tmp_path: Path) -> None:
    scores().save(tmp_path / "a.mlmodel")
    model = load(tmp_path / "a.mlmodel")
    outputs(model)
    with (tmp_path / "a.mlmodel").open("r+b") as file:
        file.truncate(100)
    time.sleep(0.2)  # the executor looks ten times a second
    with pytest.raises(MaxlabError, match=r"ML639|ML641"):
        outputs(model)


# ---------------------------------------------------------------- saving
def test_a_full_disk_leaves_the_old_file(path: Path, content: bytes) -> None:
    """In a process that may write no file of more than 100 kB, as a full disk refuses to."""
    program = """
import resource, signal, sys
from tests.engine.kept.made import scores
model = scores()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    model.save(sys.argv[1])
except OSError as error:
    print(error.code, error.errno)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["ML003", str(errno.EFBIG)], done.stderr
    assert path.read_bytes() == content
    assert [one.name for one in path.parent.iterdir()] == ["a.mlmodel"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100_000


def test_two_save_at_once(tmp_path: Path) -> None:
    """Two processes and two threads save to one path: what is there is always a whole model."""
    path = tmp_path / "a.mlmodel"
    model = scores()
    model.save(path)
    program = """
import sys
from tests.engine.kept.made import scores
model = scores()
for _ in range(20):
    model.save(sys.argv[1])
"""
    others = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT) for _ in range(2)
    ]
    threads = [
        threading.Thread(target=lambda: [model.save(path) for _ in range(5)]) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    wanted = outputs(model)
    while any(other.poll() is None for other in others):
        assert outputs(load(path)) == wanted
    for thread in threads:
        thread.join()
    assert [other.returncode for other in others] == [0, 0]
    assert [one.name for one in tmp_path.iterdir()] == ["a.mlmodel"]


def test_a_folder_or_a_device_is_no_file(tmp_path: Path) -> None:
    for place in (tmp_path, Path("/dev/null"), tmp_path / "no" / "a.mlmodel"):
        with pytest.raises(FileError):
            scores().save(place)
    assert X.shape == (3, 64)
