"""Every writer of a file that a user names replaces regular files, whole or not at all."""

from __future__ import annotations

import gzip
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.__main__ import main
from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.repro import write_repro
from maxlab.dtype import DType
from maxlab.errors import FileError
from maxlab.graph import DeviceRef, Graph, KernelLibrary, Module, TensorType
from tests.analysis.runs.made import layered, profiled

OLD = b"what was there before"
KERNEL = "// @op double(x: float32[n]) -> (y: float32[n])\n// @both\nstore(y, i, 2 * load(x, i));\n"


class Given:
    """What there is to write."""

    def __init__(self, folder: Path) -> None:
        row = TensorType(DType.float32, ["n"])
        self.graph = Graph("double", lambda x: x * 2, [row])
        self.module = Module()
        Graph("double", lambda x: x * 2, [row], module=self.module)
        self.profile = profiled(layered(1))
        self.saved = self.profile.save(folder / "saved.mlprof")
        self.run = maxlab.load_run(self.saved)
        self.library = KernelLibrary()
        self.library.add_source(KERNEL)
        memory = [np.zeros(64, np.uint8), np.zeros(64, np.uint8)]
        self.alone = Alone("f", "void f() {}", memory, [False, True], ["float32"] * 2, {})
        self.step = self.profile.model.compiled.plan.steps[0]
        with driver.simulated():
            on_gpu = TensorType(DType.float32, ["n"], DeviceRef.GPU())
            graph = Graph("double", lambda x: x * 2, [on_gpu])
            session = engine.InferenceSession(devices=[driver.Accelerator()])
            self.kernel = session.load(graph).kernels["k0"]
            self.input = driver.Tensor.from_numpy(np.ones(9, np.float32)).to(driver.Accelerator())
        self.to_pycuda(folder / "compiled.py")

    def repro(self, path: Path) -> Any:
        return write_repro(path, "double", self.step, "", self.alone, [])

    def to_pycuda(self, path: Path) -> Any:
        with driver.simulated():
            return self.kernel.to_pycuda(path, self.input)

    def command(self, *arguments: str | Path) -> None:
        if main([*map(str, arguments)]):
            raise FileError("ML003", "the command said so")


Writer = Callable[[Given, Path], Any]
WRITERS: dict[str, tuple[str, Writer]] = {
    "Graph.save": (".mlir", lambda given, path: given.graph.save(path)),
    "Graph.save of a document": (".mlgraph", lambda given, path: given.graph.save(path)),
    "Module.save": (".mlir", lambda given, path: given.module.save(path)),
    "Graph.to_html": (".html", lambda given, path: given.graph.to_html(path)),
    "profile.to_html": (".html", lambda given, path: given.profile.to_html(path)),
    "profile.save": (".mlprof", lambda given, path: given.profile.save(path)),
    "run.save": (".mlprof", lambda given, path: given.run.save(path)),
    "to_chrome": (".json", lambda given, path: given.profile.timeline.to_chrome(path)),
    "to_chrome, packed": (".gz", lambda given, path: given.profile.timeline.to_chrome(path)),
    "library.package": (".mxpkg", lambda given, path: given.library.package(path)),
    "repro": (".py", Given.repro),
    "the memory of repro": (".npz", lambda g, path: g.repro(path.with_suffix(".py"))),
    "the text of repro": (".c", lambda given, path: given.repro(path.with_suffix(".py"))),
    "Alone.save": (".npz", lambda given, path: given.alone.save(path)),
    "to_pycuda": (".py", Given.to_pycuda),
    "the memory of to_pycuda": (".npz", lambda g, path: g.to_pycuda(path.with_suffix(".py"))),
    "diff --json": (
        ".json",
        lambda given, path: given.command("diff", given.saved, given.saved, "--json", path),
    ),
    "diff --html": (
        ".html",
        lambda given, path: given.command("diff", given.saved, given.saved, "--html", path),
    ),
    "show -o": (".html", lambda given, path: given.command("show", given.saved, "-o", path)),
    "trace -o": (".json", lambda given, path: given.command("trace", given.saved, "-o", path)),
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    return Given(tmp_path_factory.mktemp("given"))


def _node(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes device nodes")
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))


def _hangs(*_: object) -> None:
    pytest.fail("it waits for somebody to read")


PLACES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": _node,
    "link to a device": lambda path: path.symlink_to("/dev/null"),
    "folder": Path.mkdir,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_regular_file_stays_what_it_is(
    writer: str, place: str, given: Given, tmp_path: Path
) -> None:
    suffix, write = WRITERS[writer]
    target = tmp_path / f"target{suffix}"
    PLACES[place](target)
    before = target.lstat()
    before_alarm = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(60)  # only what hangs takes as long
    try:
        with pytest.raises(FileError):
            write(given, target)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before_alarm)
    after = target.lstat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.usefixtures("capsys")  # what commands print goes to no file
def test_a_full_disk_leaves_what_was_there(writer: str, given: Given, tmp_path: Path) -> None:
    suffix, write = WRITERS[writer]
    target = tmp_path / f"target{suffix}"
    target.write_bytes(OLD)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        with pytest.raises(FileError, match="ML003"):
            write(given, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert target.read_bytes() == OLD
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_stays_a_link(writer: str, given: Given, tmp_path: Path) -> None:
    suffix, write = WRITERS[writer]
    target, link = tmp_path / f"real{suffix}", tmp_path / f"link{suffix}"
    target.write_bytes(OLD)
    target.chmod(0o640)
    link.symlink_to(target.name)
    write(given, link)
    assert link.is_symlink()
    assert target.read_bytes() != OLD
    assert target.stat().st_mode & 0o777 == 0o640
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("writer", WRITERS)
def test_no_folder_is_told(writer: str, given: Given, tmp_path: Path) -> None:
    suffix, write = WRITERS[writer]
    with pytest.raises(FileError, match="ML003"):
        write(given, tmp_path / "none" / f"target{suffix}")


def test_a_link_under_the_name_of_an_unfinished_trace(given: Given, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(OLD)
    for name in (".t.json.part", ".t.json.gz.part"):
        (tmp_path / name).symlink_to(victim)
    given.profile.timeline.to_chrome(tmp_path / "t.json")
    packed = given.profile.timeline.to_chrome(tmp_path / "t.json.gz")
    assert victim.read_bytes() == OLD
    assert gzip.decompress(packed.read_bytes()).startswith(b"{")


def test_the_umask_of_the_process_is_left_alone(
    given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of all threads: a file that another one makes meanwhile would get it."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("it was set"))
    given.run.save(tmp_path / "run.mlprof")


@pytest.mark.parametrize("path", ["target.npz", "target.c"])
def test_files_beside_a_script_are_not_the_script(path: str, given: Given, tmp_path: Path) -> None:
    """The script, the text and the memory: three files, whatever the script is called."""
    made = given.repro(tmp_path / path)
    assert made == tmp_path / path
    assert made.read_text("utf-8").startswith('"""')
    assert len(list(tmp_path.iterdir())) == 3
    script = given.to_pycuda(tmp_path / "cuda.npz")
    assert script.read_text("utf-8").startswith('"""')


@pytest.mark.parametrize("path", ["", ".", "..", "/"])
def test_scripts_need_a_name(path: str, given: Given) -> None:
    for write in (given.repro, given.to_pycuda):
        with pytest.raises(FileError, match="ML00[13]"):
            write(Path(path))
