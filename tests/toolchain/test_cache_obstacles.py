"""What lies in the way of an artefact, what vanishes while it is made, and what is full."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maxlab.toolchain import artefacts, cache, compile_units, forget
from tests.mounts import mounted
from tests.toolchain.small import (
    HANG_S,
    IMPORTS,
    call,
    child,
    environment,
    kernel,
    only,
    settings,
    start,
)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """An empty place for a cache, which is in force."""
    place = tmp_path / "cache"
    with settings(cache_dir=place):
        yield place


def a_pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def an_endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def a_link_to_the_right_file(path: Path) -> None:
    with settings(cache_dir=path.parents[2] / "aside"):
        [made] = compile_units([kernel(3)])
    path.symlink_to(made.path)


def a_folder(path: Path) -> None:
    (path / "inside").mkdir(parents=True)


def a_huge_file(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 1 << 40)


def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name[:90])
        os.rename(path.name[:90], path.name)
    finally:
        os.chdir(here)


OBSTACLES = (
    a_pipe, an_endless_device, a_link_to_itself, a_link_to_the_right_file, a_folder, a_huge_file,
    a_socket,
)  # fmt: skip
# What reads the whole of an endless file is stopped by the limit on memory.
LOOK = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
for number, path in enumerate(sys.argv[1:]):
    [made] = compile_units([kernel(3, f"k_behind_{number}")])
    assert call(made) == 3
    assert made.why_miss == "corrupt entry rebuilt", (path, made.why_miss)
    assert made.path == Path(path), made.path
    forget()
    assert compile_units([kernel(3, f"k_behind_{number}")])[0].hit
assert not warnings(), warnings()
"""


@pytest.mark.parametrize("obstacle", OBSTACLES, ids=lambda way: way.__name__)
def test_what_is_no_regular_file_is_rebuilt(root: Path, obstacle: Callable[[Path], None]) -> None:
    [made] = compile_units([kernel(3, "k_behind_0")])
    made.path.unlink()
    obstacle(made.path)
    child(LOOK, str(made.path), MAXLAB_CACHE_DIR=str(root))


# ------------------------------------------------------------------ others clear the cache


COMPILE = """
end = time.monotonic() + float(sys.argv[1])
number = 0
def work(part):
    global number
    while time.monotonic() < end:
        number += 1
        value = number
        made = compile_units([kernel(value, f"k_{os.getpid()}_{part}_{value}")] , jobs=1)
        assert call(made[0]) == value
        forget()
workers = [threading.Thread(target=work, args=(part,)) for part in range(2)]
failed = []
threading.excepthook = lambda args: failed.append(repr(args.exc_value))
for worker in workers: worker.start()
if sys.argv[2] == "threads":
    while time.monotonic() < end:
        cache().clear()
        cache().usage()
for worker in workers: worker.join()
assert not failed, failed[:3]
assert not warnings(), warnings()
"""


def test_clearing_while_threads_compile(root: Path) -> None:
    child(COMPILE, "1.5", "threads", MAXLAB_CACHE_DIR=str(root))


def test_clearing_while_processes_compile(root: Path) -> None:
    workers = [start(COMPILE, "1.5", "alone", MAXLAB_CACHE_DIR=str(root)) for _ in range(2)]
    while any(worker.poll() is None for worker in workers):
        artefacts.Cache(root).clear()
    for worker in workers:
        out, err = worker.communicate(timeout=HANG_S)
        assert worker.returncode == 0, out + err


def test_a_cache_that_is_removed_while_compilers_run(root: Path, tmp_path: Path) -> None:
    script = """
import shutil
from maxlab.toolchain import compiler, units
run, times = units.run, []
def removing(*args, **kwargs):
    if not times:
        shutil.rmtree(cache().root)
    times.append(1)
    done = run(*args, **kwargs)
    if len(times) == 2 and sys.argv[1] == "after":
        shutil.rmtree(cache().root)
    return done
units.run = removing
[made] = compile_units([kernel(3)])
assert call(made) == 3
print(made.path.is_relative_to(cache().root), len(warnings()))
"""
    env = {"MAXLAB_CACHE_DIR": str(root)}
    assert child(script, "before", **env) == "True 0\n"
    child(script, "after", **env)


def test_a_cache_that_is_removed_between_two_compilations(root: Path) -> None:
    compile_units([kernel(1)])
    shutil.rmtree(root)
    forget()
    one, two = compile_units([kernel(1), kernel(2)], jobs=1)
    assert (call(one), call(two)) == (1, 2)
    assert one.path.is_relative_to(root)
    assert cache().spare is None


def test_the_simulator_outlives_its_cache(tmp_path: Path) -> None:
    """Modules are linked with its library, and lines are read out of theirs, when both are gone."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    from maxlab.toolchain import gxx

    text = "__global__ void k_first(float *x) { __shared__ float s[8]; x[0] = s[threadIdx.x]; }\n"
    library = gxx.sim_runtime().path  # in the cache of all tests, since it takes seconds
    first = gxx.compile_sim(text, name="first.cu", kernels=["k_first"])
    symbols = gxx.thread_local_symbols(first.path)
    assert symbols
    first.path.unlink()
    assert gxx.thread_local_symbols(first.path) == symbols
    away = shutil.move(library, tmp_path)
    try:
        new = f"k_{secrets.token_hex(8)}"  # a text that no earlier run has left in the cache
        second = gxx.compile_sim(text.replace("k_first", new), name="b.cu", kernels=[new])
        assert not second.hit
    finally:
        shutil.move(away, library)


# ------------------------------------------------------------------ full disks


@pytest.fixture
def tiny() -> Iterator[Path]:
    """A file system with room for a folder or two."""
    with mounted("size=24k") as folder:
        yield folder


def test_a_full_disk(tiny: Path) -> None:
    with settings(cache_dir=tiny / "cache"):
        made = [compile_units([kernel(i)])[0] for i in range(4)]
        assert [call(k) for k in made] == [0, 1, 2, 3]
        assert not made[-1].path.is_relative_to(tiny)
        for path in tiny.rglob("*.so"):
            assert artefacts.is_whole(path), path


def test_a_limit_on_the_size_of_files_is_a_typed_error(root: Path) -> None:
    script = """
import resource
from maxlab.errors import MaxlabError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    compile_units([kernel(1)])
except MaxlabError as error:
    assert error.fix
    print(error.code)
"""
    assert child(script, MAXLAB_CACHE_DIR=str(root)).startswith("ML5")
    assert not list(root.glob("kernels/*/*.so"))
    assert not list((root / "tmp").iterdir())


def test_a_process_that_is_killed_leaves_no_part_of_a_library(root: Path) -> None:
    script = IMPORTS + "print('go', flush=True)\ncompile_units([kernel(i) for i in range(40)])\n"
    env = environment(MAXLAB_CACHE_DIR=str(root))
    import sys

    process = subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=HANG_S)
    assert all(artefacts.is_whole(path) for path in root.glob("kernels/*/*.so"))
    [made] = compile_units([kernel(39)])
    assert call(made) == 39


def test_what_is_kept_is_whole(root: Path) -> None:
    compile_units([kernel(1)])
    assert artefacts.is_whole(only(root))
