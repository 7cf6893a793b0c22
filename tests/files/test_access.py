"""Files are opened and written in one place, `maxlab.files`; each exception has a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "maxlab"

METHODS = frozenset(
    {"write_text", "write_bytes", "read_text", "read_bytes", "tofile", "fromfile", "memmap"}
)
"""Functions that open a path, whatever they belong to."""
FUNCTIONS = frozenset(
    {
        *("open", "io.open", "os.open", "gzip.open", "bz2.open", "lzma.open", "codecs.open"),
        *("os.replace", "os.rename", "os.link", "os.symlink", "os.mkfifo", "os.truncate"),
        *("shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.move"),
        *("tempfile.mkstemp", "tempfile.mkdtemp", "tempfile.NamedTemporaryFile"),
        *("np.load", "np.save", "np.savez", "np.savez_compressed", "np.savetxt", "np.loadtxt"),
        *("zipfile.ZipFile", "tarfile.open", "mmap.mmap"),
    }
)

# A file, or a folder with a slash -> the functions that it calls itself, and why it may.
OWN_RULES: dict[str, tuple[frozenset[str], str]] = {
    "files.py": (frozenset({"os.open", "os.replace"}), "it is the one place"),
    "zipped.py": (frozenset({"zipfile.ZipFile"}), "an archive in memory, or in an open file"),
    "toolchain/": (
        frozenset(
            {
                *("open", "os.open", "os.replace", "os.link", "read_text", "read_bytes"),
                *("write_text", "write_bytes", "shutil.copyfile", "tempfile.mkdtemp", "mmap.mmap"),
            }
        ),
        (
            "the cache of kernels trusts nobody, and has stricter rules; the rest is in private "
            "folders, is memory without a file, or is part of the package"
        ),
    ),
    "diagnostics/": (
        frozenset({"open", "os.open", "read_text", "read_bytes", "write_text", "os.replace"}),
        (
            "folders of the recorder's own, which trust nobody; files of the kernel's; and "
            "methods of recordings that open nothing"
        ),
    ),
    "config.py": (frozenset({"read_text"}), "a file of the kernel's, /proc or cgroups"),
    "driver/device.py": (frozenset({"open"}), "a file of the kernel's, /proc/meminfo"),
    "driver/sim/arguments.py": (frozenset({"mmap.mmap"}), "memory without a file"),
    "interfaces/shared.py": (frozenset({"mmap.mmap"}), "shared memory, which has no path"),
    "analysis/runs/facts.py": (frozenset({"open"}), "a file of the kernel's, /proc/cpuinfo"),
    "analysis/machine/caches.py": (frozenset({"read_text"}), "files of the kernel's"),
    "analysis/machine/streams.py": (frozenset({"read_text"}), "a part of the package"),
    "engine/exporting/": (frozenset({"read_text"}), "parts of the package"),
    "opset/kernel_files.py": (frozenset({"read_text"}), "parts of the package"),
    "engine/device_kernel.py": (
        frozenset({"read_text", "np.savez_compressed"}),
        "parts of the package are read; arrays go to a file of maxlab.files",
    ),
    "lab/widget.py": (frozenset({"read_text"}), "a part of the package"),
    "lab/bundle.py": (frozenset({"read_bytes"}), "a part of the package"),
    "lab/dashboard/": (frozenset({"read_bytes"}), "a method of recordings that opens nothing"),
    "analysis/edit/": (
        frozenset({"read_text", "write_text", "np.load", "np.savez", "tempfile.mkdtemp"}),
        "a private folder, between a process and its child",
    ),
    "analysis/runs/archive.py": (frozenset({"zipfile.ZipFile"}), "an archive in memory"),
    "graph/kernel_library.py": (
        frozenset({"zipfile.ZipFile"}),
        "an archive in a file of maxlab.files",
    ),
}


def calls(path: Path) -> Iterator[tuple[int, str]]:
    """``(line, function)`` for each call in ``path`` that opens or moves a file by its name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if name.startswith("files."):
            continue
        if name in FUNCTIONS:
            yield node.lineno, name
        elif isinstance(node.func, ast.Attribute) and last in METHODS:
            yield node.lineno, last
        elif isinstance(node.func, ast.Attribute) and last == "open" and _has_mode(node):
            yield node.lineno, "open"


def _has_mode(call: ast.Call) -> bool:
    """Whether a method ``open`` is called as that of a path: with a mode, as text."""
    given = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
    return any(
        isinstance(one, ast.Constant)
        and isinstance(one.value, str)
        and set(one.value) <= set("rwabtx+")
        for one in given
    )


def rules_of(path: Path) -> frozenset[str]:
    """What the file at ``path`` may call itself."""
    name = path.relative_to(PACKAGE).as_posix()
    return frozenset().union(
        *(
            functions
            for own, (functions, _) in OWN_RULES.items()
            if name == own or (own.endswith("/") and name.startswith(own))
        )
    )


def sources() -> list[Path]:
    """Every Python file of maxlab, built front end aside."""
    built = {"labextension", "static", "_kernels"}
    return [
        p for p in sorted(PACKAGE.rglob("*.py")) if p.relative_to(PACKAGE).parts[0] not in built
    ]


@cache
def calls_of_package() -> dict[Path, list[tuple[int, str]]]:
    """The calls of each file."""
    return {path: list(calls(path)) for path in sources()}


def test_files_are_opened_in_one_place() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} calls {name}; use maxlab.files"
        for path in sources()
        for line, name in calls_of_package()[path]
        if name not in rules_of(path)
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_exception_is_used() -> None:
    used = {
        path.relative_to(PACKAGE).as_posix() for path, found in calls_of_package().items() if found
    }
    for own, (functions, reason) in OWN_RULES.items():
        assert functions, own
        assert reason, own
        assert any(name == own or (own[-1] == "/" and name.startswith(own)) for name in used), own


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("open(p)", ["open"]),
        ("p.open('w')", ["open"]),
        ("p.open(mode='rb')", ["open"]),
        ("backend.open(3)", []),
        ("files.write_text(p, t)", []),
        ("p.write_text(t)", ["write_text"]),
        ("Path(p).read_bytes()", ["read_bytes"]),
        ("np.savez(p)", ["np.savez"]),
        ("gzip.open(p, 'wt')", ["gzip.open"]),
        ("os.replace(a, b)", ["os.replace"]),
        ("text.replace(a, b)", []),
    ],
)
def test_the_walk_itself_finds_what_it_should(
    source: str, found: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert [name for _, name in calls(path)] == found
