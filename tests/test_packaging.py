"""The wheel: it holds Python code, kernel sources and the built front end, and works installed."""

from __future__ import annotations

import configparser
import email
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from maxlab.toolchain import prebuilt
from maxlab.toolchain.library import PRODUCTS, RUNTIME, prebuilt_name
from maxlab.toolchain.seals import unsealed
from tests.packages import (
    IS_BUILT,
    NOT_BUILT,
    ROOT,
    built,
    files_of,
    make_sdist,
    make_wheel,
    run,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LABEXTENSION = "share/jupyter/labextensions/maxlab-extension"

# Far above what it is: a bundle that grew a library, or sources that came along, fail here.
MAX_WHEEL_BYTES = 4_500_000

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not IS_BUILT, reason=NOT_BUILT)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, made from the front end that is already built."""
    return make_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this checkout."""
    return make_sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with nothing but the wheel in it."""
    prefix = tmp_path_factory.mktemp("prefix")
    # Without --ignore-installed pip would uninstall the checkout that the tests run from.
    options = ("--no-deps", "--ignore-installed", "--no-compile", "-q")
    command = ("-m", "pip", "install", *options, "--prefix")
    run(sys.executable, *command, str(prefix), str(wheel), cwd=prefix)
    return prefix


def site_packages(prefix: Path) -> Path:
    """The folder below ``prefix`` that holds the package."""
    (package,) = prefix.rglob("maxlab/__init__.py")
    return package.parents[1]


def test_holds_every_python_file(wheel: Path) -> None:
    skipped = {"labextension", "static", "_kernels", "__pycache__"}
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "maxlab").rglob("*.py")
        if not skipped & set(path.relative_to(ROOT).parts)
    }
    assert sources <= files_of(wheel)


def test_holds_every_kernel_source(wheel: Path) -> None:
    sources = {
        f"maxlab/_kernels/{path.relative_to(ROOT / 'kernels')}"
        for path in (ROOT / "kernels").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert {Path(name).suffix for name in sources} >= {".c", ".h", ".cuh", ".cpp"}
    assert sources <= files_of(wheel)


def test_holds_the_front_end(wheel: Path) -> None:
    data = f"maxlab-{PROJECT['version']}.data/data/{LABEXTENSION}"
    names = files_of(wheel)
    assert {f"{data}/package.json", f"{data}/install.json", f"{data}/static/style.js"} <= names
    server = f"{data.removesuffix(LABEXTENSION)}etc/jupyter/jupyter_server_config.d/maxlab.json"
    assert server in names, "Jupyter would not find the server's part"
    assert any(re.search(r"/static/remoteEntry\.[0-9a-f]+\.js$", name) for name in names)
    assert any(name.endswith("/schemas/maxlab-extension/settings.json") for name in names)
    static = {name for name in built() if name.startswith("maxlab/static/")}
    assert {"maxlab/static/widget.js", "maxlab/static/LICENSE-uplot.txt"} <= static
    assert static <= names
    assert f"{data}/static/third-party-licenses.json" in names


def test_holds_what_is_no_code_of_ours(wheel: Path) -> None:
    """Marks of types, the loader of widgets, and the templates and lessons of the gallery."""
    templates = {
        str(path.relative_to(ROOT)) for path in (ROOT / "maxlab/lab/templates").glob("*.mlgraph")
    }
    assert len(templates) > 10
    assert templates | {"maxlab/py.typed", "maxlab/lab/loader.js"} <= files_of(wheel)


def test_a_source_distribution_needs_no_node(sdist: Path) -> None:
    """It carries the front end that is built, and its sources; installing it builds nothing."""
    names = files_of(sdist)
    assert built() <= names
    assert {"LICENSE", "pyproject.toml", "install.json", "jupyter-config/maxlab.json"} <= names
    assert {"extension/src/lab/index.ts", "extension/yarn.lock", "kernels/c/executor.c"} <= names
    assert not [name for name in names if re.search(r"(^|/)(node_modules|__pycache__)/", name)]


def test_holds_nothing_else(wheel: Path) -> None:
    unwanted = [
        name
        for name in files_of(wheel)
        if re.search(
            r"(^|/)(tests|node_modules|labextension|__pycache__)/|\.(map|ts|tsx|o|so)$", name
        )
    ]
    assert not unwanted
    assert wheel.stat().st_size < MAX_WHEEL_BYTES


def test_torch_finds_the_backend_by_its_entry_point(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = f"maxlab-{PROJECT['version']}.dist-info/entry_points.txt"
        points = configparser.ConfigParser()
        points.read_string(archive.read(name).decode())
    assert dict(points["torch_dynamo_backends"]) == {"maxlab": "maxlab.torch.compiling:backend"}


def test_metadata(wheel: Path) -> None:
    info = f"maxlab-{PROJECT['version']}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        licence = archive.read(f"{info}/licenses/LICENSE").decode()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "amd", "cuda", "dask", "llm", "nvcc", "nvrtc", "oracle", "serve", "test", "zig",
    }  # fmt: skip
    assert "Apache License" in licence
    # Anyone may install it: nothing is pulled in for a GPU or for tests unless asked for.
    plain = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = {re.split(r"[^A-Za-z0-9_-]", line, maxsplit=1)[0] for line in plain}
    assert not names & {"pycuda", "torch", "transformers", "pytest"}


def test_versions_agree() -> None:
    package = json.loads((ROOT / "extension" / "package.json").read_text("utf-8"))
    assert package["version"] == PROJECT["version"]
    # The widget's loader compares this one with the Python side's.
    tokens = (ROOT / "extension" / "src" / "lab" / "tokens.ts").read_text("utf-8")
    assert f"VERSION = '{PROJECT['version']}'" in tokens
    words = run(sys.executable, "-c", "import maxlab; print(maxlab.__version__)", cwd=ROOT)
    assert words.strip() == PROJECT["version"]


def test_jupyterlab_finds_the_extension(installed: Path, tmp_path: Path) -> None:
    command = "from jupyterlab.labextensions import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "list"],
        cwd=tmp_path,
        env={**os.environ, "JUPYTER_PATH": str(installed / "share" / "jupyter")},
        capture_output=True,
        text=True,
        check=True,
    )
    listed = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    (line,) = (line for line in listed.splitlines() if "maxlab-extension" in line)
    assert re.search(r"enabled\s+OK", line), line


def test_installed_package_imports(installed: Path, tmp_path: Path) -> None:
    where = run(
        sys.executable,
        "-c",
        "import maxlab; print(maxlab.__file__)",
        cwd=tmp_path,
        PYTHONPATH=str(site_packages(installed)),
    )
    assert Path(where.strip()).is_relative_to(installed)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of another architecture")
def test_brings_the_runtime_as_machine_code(wheel: Path) -> None:
    brought = {name for name in files_of(wheel) if name.startswith("maxlab/_kernels/prebuilt/")}
    files = {f"x86_64.{library}.xz": library for library in (RUNTIME, PRODUCTS)}
    assert brought == {f"maxlab/_kernels/prebuilt/{name}" for name in files}
    with zipfile.ZipFile(wheel) as archive:
        for name, library in files.items():
            content = unsealed(archive.read(f"maxlab/_kernels/prebuilt/{name}"))
            assert content is not None
            levels = [level for level in prebuilt.LEVELS if library in level.libraries]
            wanted = [prebuilt_name(level, library) for level in levels]
            codes = prebuilt.Codes(content.data)
            assert codes.names == wanted
            assert [(codes.code(one) or b"")[:4] for one in wanted] == [b"\x7fELF"] * len(wanted)
