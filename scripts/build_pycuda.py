#!/usr/bin/env python3
"""Builds the PyCUDA wheel on any machine, with or without a GPU; prints the wheel's path.

    scripts/build_pycuda.py                             for this Python, into ~/.cache/maxlab-tests
    scripts/build_pycuda.py --python .venv/bin/python   for that one
    scripts/build_pycuda.py --sdist pycuda-2026.1.tar.gz --find-links wheels   without a network

PyCUDA is published as source only, and its own build wants what a machine without a GPU does not
have: libcuda and cuRAND. Here cuRAND is left out and the module is linked to a stub, a library
that is called ``libcuda.so.1`` and has every function that ``cuda.h`` declares. The wheel then
asks for ``libcuda.so.1`` by name when it is imported, and works on machines that have a driver.

The headers are those of CUDA_HOME, CUDA_PATH, /usr/local/cuda, the nvcc on the PATH or, where
none of them is there, the wheel nvidia-cuda-runtime.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

VERSION = "2026.1"
NEEDED = ("setuptools>=70.1", "wheel", "numpy")
HEADER_WHEELS = ("nvidia-cuda-runtime==13.0.*", "nvidia-cuda-profiler-api==13.0.*")
RECIPE = 1  # counted up when the recipe changes, so that older wheels are not taken for new ones

# The shipped Boost is 60 files that distutils would compile one after another.
PARALLEL_SETUP = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from setuptools._distutils.ccompiler import CCompiler

def compile_all(self, sources, output_dir=None, macros=None, include_dirs=None, debug=0,
                extra_preargs=None, extra_postargs=None, depends=None):
    macros, objects, extra, flags, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs)
    arguments = self._get_cc_args(flags, debug, extra_preargs)
    def one(target):
        source, extension = build[target]
        self._compile(target, source, extension, arguments, extra, flags)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        # The longest by far is PyCUDA's own wrapper.
        list(pool.map(one, sorted(build, key=lambda name: "wrap_cudadrv" not in name)))
    return objects

CCompiler.compile = compile_all
sys.argv = ["setup.py", "-q", "bdist_wheel", "-d", sys.argv[1]]
sys.path.insert(0, "")
exec(compile(open("setup.py").read(), "setup.py", "exec"), {"__name__": "__main__"})
"""


def main() -> int:
    """0, with the wheel's path on stdout; progress and errors go to stderr."""
    options = arguments()
    headers = find_headers()
    tag = output([options.python, "-c", "import sys; print(sys.implementation.cache_tag)"])
    out = options.out or default_folder()
    name = hashlib.blake2b(digest_size=6)
    name.update(f"{RECIPE} {options.version} {tag} {os.uname().machine}".encode())
    if options.sdist:
        name.update(options.sdist.read_bytes())
    if headers:
        name.update((headers / "cuda.h").read_bytes())
    folder = out / f"pycuda-{options.version}-{name.hexdigest()}"
    found = sorted(folder.glob("pycuda-*.whl"))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=out) as scratch:
            wheel = build(options, headers, Path(scratch))
            ready = folder / wheel.name
            os.replace(wheel, ready)
        found = [ready]
    print(found[0])
    return 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="the Python to build for")
    parser.add_argument("--version", default=VERSION, help=f"of PyCUDA (default {VERSION})")
    parser.add_argument("--sdist", type=Path, help="the source archive, instead of a download")
    parser.add_argument("--find-links", type=Path, help="wheels to build with, instead of PyPI")
    parser.add_argument("--out", type=Path, help="where wheels are kept")
    return parser.parse_args()


def default_folder() -> Path:
    """The folder that wheels are kept in when none is named."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "maxlab-tests"


def find_headers() -> Path | None:
    """The folder of ``cuda.h``, or None if this machine has no CUDA toolkit."""
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    roots.append("/usr/local/cuda")
    nvcc = shutil.which("nvcc")
    if nvcc:
        roots.append(str(Path(nvcc).resolve().parent.parent))
    for root in roots:
        if root and (Path(root) / "include" / "cuda.h").is_file():
            return Path(root) / "include"
    return None


def build(options: argparse.Namespace, headers: Path | None, scratch: Path) -> Path:
    """The wheel, built in ``scratch``."""
    say(f"building PyCUDA {options.version}, which takes a minute or two")
    python = builder(options, scratch)
    if headers is None:
        say("no CUDA headers on this machine: taking those of the wheel nvidia-cuda-runtime")
        target = scratch / "headers"
        pip(python, options, "install", "--no-deps", "--target", str(target), *HEADER_WHEELS)
        headers = next(target.rglob("cuda.h")).parent
    sdist = options.sdist or download(python, options, scratch)
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(scratch / "source")
    source = next((scratch / "source").iterdir())
    stub = make_stub(headers, scratch / "stub")
    settings = {
        "CUDA_ROOT": str(headers.parent),
        "CUDA_INC_DIR": [str(headers)],
        "CUDA_ENABLE_CURAND": False,
        "CUDADRV_LIB_DIR": [str(stub.parent)],
        # Its time goes into the driver's functions, and its warnings are not ours to mend.
        "CXXFLAGS": ["-O1", "-w"],
    }
    lines = [f"{name} = {value!r}" for name, value in settings.items()]
    (source / "siteconf.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    wheels = scratch / "wheels"
    call([str(python), "-c", PARALLEL_SETUP, str(wheels)], cwd=source)
    return next(wheels.glob("*.whl"))


def builder(options: argparse.Namespace, scratch: Path) -> Path:
    """A Python of the right version that has what the build imports."""
    probe = "import numpy, setuptools, wheel; from setuptools.command import bdist_wheel"
    done = subprocess.run([options.python, "-c", probe], capture_output=True, check=False)
    if done.returncode == 0:
        return Path(options.python)
    folder = scratch / "venv"
    if Path(options.python).resolve() == Path(sys.executable).resolve():
        venv.create(folder, with_pip=True)
    else:
        call([options.python, "-m", "venv", str(folder)])
    python = folder / "bin" / "python"
    pip(python, options, "install", *NEEDED)
    return python


def download(python: Path, options: argparse.Namespace, scratch: Path) -> Path:
    """The source archive from the package index."""
    folder = scratch / "download"
    wanted = f"pycuda=={options.version}"
    # pip runs setup.py for the metadata, which waits ten seconds for a user without this file.
    (scratch / ".aksetup-defaults.py").write_text("", encoding="utf-8")
    cache = output([str(python), "-m", "pip", "cache", "dir"])
    pip(
        python, options, "download", "--no-deps", "--no-binary", "pycuda", "--no-build-isolation",
        "-d", str(folder), wanted, extra={"HOME": str(scratch), "PIP_CACHE_DIR": cache},
    )  # fmt: skip
    return next(folder.glob("pycuda-*.tar.gz"))


def make_stub(headers: Path, folder: Path) -> Path:
    """A library to link with: every function that ``cuda.h`` names, all of them failing."""
    text = (headers / "cuda.h").read_text(encoding="utf-8", errors="replace")
    names = sorted(set(re.findall(r"\bcu[A-Z]\w*", text)))
    folder.mkdir()
    source, library = folder / "stub.c", folder / "libcuda.so"
    source.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in names))
    compiler = os.environ.get("CC", "cc")
    call([compiler, "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", str(source),
          "-o", str(library)])  # fmt: skip
    return library


def pip(
    python: Path,
    options: argparse.Namespace,
    command: str,
    *rest: str,
    extra: Mapping[str, str] | None = None,
) -> None:
    """Run pip, from the carried wheels alone when there are some."""
    source: list[str] = []
    if options.find_links:
        source = ["--no-index", "--find-links", str(options.find_links.resolve())]
    call([str(python), "-m", "pip", command, "-q", *source, *rest], extra=extra)


def call(
    command: Sequence[str], *, cwd: Path | None = None, extra: Mapping[str, str] | None = None
) -> None:
    """Run a command, all it prints on stderr; ends this program if it fails."""
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(extra or {})}
    done = subprocess.run(command, cwd=cwd, env=env, stdout=sys.stderr, check=False)
    if done.returncode:
        shown = " ".join(part for part in command if "\n" not in part)
        raise SystemExit(f"failed with status {done.returncode}: {shown}")


def output(command: Sequence[str]) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
