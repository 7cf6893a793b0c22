"""Compilers that hang, lie or are not there, and Ctrl-C while they run."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxlab.errors import ToolchainError
from maxlab.toolchain import compile_units, compiler, doctor_rows, find_compiler, processes
from tests.toolchain.small import child, kernel, settings, start

HANG_S = 60
# Writes its own process id and that of a child, which both sleep, into the folder $PIDS.
SLEEP = 'sleep 1000 & echo $! > "$PIDS/$!"; echo $$ > "$PIDS/$$"; wait'


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """An empty place for a cache, which is in force."""
    place = tmp_path / "cache"
    with settings(cache_dir=place):
        yield place


def script_at(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake(folder: Path, body: str) -> Path:
    """A compiler that says its version; for everything else it runs ``body``."""
    return script_at(folder / "fakecc", f'[ "$1" = --version ] && echo cc 1.0 && exit 0\n{body}')


def alive(pids: Path) -> list[int]:
    """Which processes that left their ids in ``pids`` are still running."""
    found = []
    for entry in pids.iterdir():
        try:
            stat = Path(f"/proc/{entry.name}/stat").read_text()
        except OSError:
            continue
        if stat.rpartition(")")[2].split()[0] != "Z":
            found.append(int(entry.name))
    return found


def wait_for(pids: Path, count: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + HANG_S
    while len(list(pids.iterdir())) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the compilers did not start"
        time.sleep(0.02)


def left(pids: Path, of: set[int] | None = None) -> set[int]:
    """Those, among ``of``, that are alive after a moment: a killed process takes one to end."""
    end = time.monotonic() + 5
    while True:
        found = set(alive(pids))
        found &= found if of is None else of
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.02)


THREADS = """
threads = [threading.Thread(target=compile_units, args=([kernel(i)],)) for i in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
EXECUTOR = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    for i in range(20):
        pool.submit(compile_units, [kernel(i)])
"""
CALLS = {
    "one kernel": ("compile_units([kernel(1)])", 2),
    "several at once": ("compile_units([kernel(i) for i in range(20)], jobs=4)", 8),
    "the runtime library": ("runtime()", 4),
    "a session": (
        "from maxlab import engine\nengine.InferenceSession()\ncompile_units([kernel(1)])", 4
    ),
    "a thread": (
        "t = threading.Thread(target=runtime, daemon=True); t.start(); t.join()", 4
    ),
    "threads that the interpreter waits for": (THREADS, 6),
    "threads of an executor": (EXECUTOR, 4),
    # Not one long sleep: an interrupt right before it would not end it, whoever's code it is.
    "an executor that waits": (EXECUTOR + "    while True: time.sleep(0.05)", 4),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_one_interrupt_ends_it_and_leaves_nothing(root: Path, tmp_path: Path, what: str) -> None:
    text, count = CALLS[what]
    pids = tmp_path / "pids"
    pids.mkdir()
    env = {"MAXLAB_CC": str(fake(tmp_path, SLEEP)), "MAXLAB_CACHE_DIR": str(root)}
    process = start(text, PIDS=str(pids), **env)
    try:
        wait_for(pids, count, process)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            raise AssertionError("one interrupt does not end it") from None
        # Other threads may say behind it that their compilers were stopped.
        assert "\nKeyboardInterrupt" in err, err
        assert not left(pids)
        assert not list((root / "tmp").iterdir()), "the folders of builds are removed"
    finally:
        process.kill()
        process.communicate()
        for pid in alive(pids):
            os.kill(pid, signal.SIGKILL)


def test_an_interrupt_while_a_compiler_says_its_version(root: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    hanging = script_at(tmp_path / "fakecc", SLEEP)
    env = {"MAXLAB_CC": str(hanging), "MAXLAB_CACHE_DIR": str(root)}
    process = start("compile_units([kernel(1)])", PIDS=str(pids), **env)
    try:
        wait_for(pids, 2, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert "KeyboardInterrupt" in err.splitlines()[-1], err
        assert not left(pids)
    finally:
        process.kill()
        process.communicate()
        for pid in alive(pids):
            os.kill(pid, signal.SIGKILL)


def test_a_notebook_goes_on_after_an_interrupt(root: Path, tmp_path: Path) -> None:
    """What was interrupted can be asked for again in the same process."""
    pids = tmp_path / "pids"
    pids.mkdir()
    real = find_compiler().path
    body = f'[ -e "{tmp_path}/mended" ] && exec {real} "$@"\n{SLEEP}'
    script = """
for what in (lambda: compile_units([kernel(i) for i in range(4)], jobs=2), runtime):
    try:
        what()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
Path(sys.argv[1]).touch()
assert len(compile_units([kernel(i) for i in range(4)], jobs=2)) == 4
print(runtime().hit, warnings())
"""
    env = {"MAXLAB_CC": str(fake(tmp_path, body)), "MAXLAB_CACHE_DIR": str(root)}
    process = start(script, str(tmp_path / "mended"), PIDS=str(pids), **env)
    try:
        for count in (4, 8):
            wait_for(pids, count, process)
            running = set(alive(pids))
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 20)[0], "one interrupt ends nothing"
            assert process.stdout.readline() == "interrupted\n"
            assert not left(pids, running), "the next ones may have begun"
        out, err = process.communicate(timeout=HANG_S)
        assert (process.returncode, out) == (0, "False []\n"), err
    finally:
        process.kill()
        process.communicate()
        for pid in alive(pids):
            os.kill(pid, signal.SIGKILL)


def test_a_compiler_that_never_says_its_version(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiler.VERSION_TIMEOUT_S <= 15
    monkeypatch.setattr(compiler, "VERSION_TIMEOUT_S", 0.3)
    pids = tmp_path / "pids"
    pids.mkdir()
    monkeypatch.setenv("PIDS", str(pids))
    with settings(cc=str(script_at(tmp_path / "fakecc", SLEEP))):
        with pytest.raises(ToolchainError, match=r"fakecc[\s\S]*--version[\s\S]*MAXLAB_CC"):
            compile_units([kernel(1)])
        row = doctor_rows()[0]
        assert (row.name, row.found) == ("C compiler", False)
        assert "MAXLAB_CC" in row.fix
    assert len(list(pids.iterdir())) >= 2
    assert not left(pids)


def test_a_compilation_without_an_end(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiler.TIMEOUT_S >= 120
    monkeypatch.setattr(compiler, "TIMEOUT_S", 0.3)
    pids = tmp_path / "pids"
    pids.mkdir()
    monkeypatch.setenv("PIDS", str(pids))
    refused = pytest.raises(ToolchainError, match=r"fakecc did not end within.*ML505[\s\S]*fix: ")
    with settings(cc=str(fake(tmp_path, SLEEP))), refused:
        compile_units([kernel(i) for i in range(4)], jobs=2)
    assert not left(pids)
    assert not list((root / "tmp").iterdir())


def test_output_of_a_child_that_stays_is_not_waited_for(tmp_path: Path) -> None:
    """A compiler may start a server, which inherits where its output goes."""
    pids = tmp_path / "pids"
    pids.mkdir()
    cc = script_at(tmp_path / "fakecc", f'sleep 1000 & echo $! > "{pids}/$!"; echo cc 1.0')
    start_s = time.monotonic()
    try:
        done = compiler.run([str(cc)], timeout_s=HANG_S)
        assert (done.code, done.output) == (0, "cc 1.0\n")
        assert time.monotonic() - start_s < HANG_S / 2
    finally:
        for pid in alive(pids):
            os.kill(pid, signal.SIGKILL)


def test_endless_output_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_MOST_OUTPUT", 1000)
    done = compiler.run(["sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"])
    assert (done.code, done.output) == (0, "x" * 1000)


# ------------------------------------------------------------------ compilers that lie


LIES = {
    "nothing": "exit 0",
    "an empty file": ": > unit.so",
    "text": "echo hello > unit.so",
    "half a library": '{real} "$@" && head -c 900 unit.so > half && mv half unit.so',
    "a pipe": "mkfifo unit.so",
    "a folder": "mkdir unit.so",
    "a link": "ln -s /dev/zero unit.so",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_compiler_that_writes_no_library(root: Path, tmp_path: Path, lie: str) -> None:
    script = """
from maxlab.errors import ToolchainError
try:
    compile_units([kernel(1)])
except ToolchainError as error:
    assert "MAXLAB_CC" in error.fix, error
    print(error.code, len(warnings()))
"""
    cc = fake(tmp_path, LIES[lie].format(real=find_compiler().path))
    out = child(script, MAXLAB_CC=str(cc), MAXLAB_CACHE_DIR=str(root))
    assert out == "ML507 0\n"
    assert not list(root.glob("kernels/*/*")), "it is not kept"


def test_what_cannot_be_loaded_is_not_kept(root: Path) -> None:
    text = "int nobody(void);\n" + kernel(1, "k_lost").text.replace("return 0", "return nobody()")
    from maxlab.toolchain import KernelSource

    with pytest.raises(ToolchainError, match=r"undefined symbol: nobody.*ML503"):
        compile_units([KernelSource("k_lost", text)])
    assert not list(root.glob("kernels/*/*"))


@pytest.mark.parametrize(
    ("cc", "words"),
    [
        ("gcc '", "quot"),
        ("{folder}/missing", "not found"),
        ("{folder}", "folder"),
        ("{text}", "not found|cannot be run"),
        ("   ", "not found"),
        ("{noise}", "could not be started|Exec format"),
        ("gcc\0", "NUL|null|not found"),
    ],
    ids=["quote", "missing", "folder", "text", "blank", "noise", "nul"],
)
def test_a_setting_that_is_no_compiler(root: Path, tmp_path: Path, cc: str, words: str) -> None:
    text, noise = tmp_path / "text", tmp_path / "noise"
    text.write_text("hello")
    noise.write_bytes(bytes(range(256)))
    noise.chmod(0o755)
    chosen = cc.format(folder=tmp_path, text=text, noise=noise)
    with settings(cc=chosen), pytest.raises(ToolchainError, match=words) as caught:
        compile_units([kernel(1)])
    assert caught.value.code in ("ML501", "ML505")
    assert "MAXLAB_CC" in str(caught.value)


def test_a_compiler_that_becomes_another_is_asked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "cc"
    for version in ("cc 1.0", "cc 2.0"):
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)
        with settings(cc=str(program)):
            assert find_compiler().version == version
