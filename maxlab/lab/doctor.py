"""``maxlab.doctor()``: what this machine has of what maxlab can use, and how to get the rest."""

from __future__ import annotations

import html
import importlib.metadata
import json
import shutil
import subprocess
import sys
from typing import Any

from maxlab import __version__, files
from maxlab.driver import Accelerator, accelerator_count
from maxlab.driver.accelerator import missing_for_accelerators
from maxlab.errors import FileError, MaxlabError, nearest
from maxlab.habits import fitting
from maxlab.lab import bundle
from maxlab.toolchain import doctor_rows
from maxlab.toolchain.doctor import DoctorRow

JUPYTER = ("jupyterlab", "ipywidgets", "anywidget", "ipykernel")
"""Packages of the notebook side, and what is told of each."""

_MOST_JSON = 1 << 20


def rows() -> list[DoctorRow]:
    """A row for each requirement: first those of the compiler, then those of the notebook.

    Never raises for something that is missing: the row says so.
    """
    found = [DoctorRow("maxlab", True, f"{__version__} on Python {sys.version.split()[0]}", "")]
    found += doctor_rows()
    found.append(_gpu_row())
    found.append(_dot_row())
    found.append(_bundle_row())
    found.append(_extension_row())
    found += [_package_row(name) for name in JUPYTER]
    return found


@fitting("ML975", "maxlab.doctor()")
def doctor() -> Report:
    """A report of what maxlab found on this machine; as the last expression of a cell it is shown.

    Example:
        >>> import maxlab
        >>> report = maxlab.doctor()
        >>> [row.name for row in report.rows][:2]
        ['maxlab', 'C compiler']
    """
    return Report(rows())


_GOOD = "var(--jp-success-color1, #2e7d32)"
_BAD = "var(--jp-error-color1, #c62828)"
"""Colours of the theme in JupyterLab, and of a light page elsewhere."""


class Report:
    """Rows of what was found; ``str`` and ``repr`` are the table.

    Attributes:
        rows: The rows.
        ok: True when nothing is missing.
    """

    def __init__(self, rows: list[DoctorRow]) -> None:
        self.rows = rows

    @property
    def ok(self) -> bool:
        """Whether every requirement is met."""
        return all(row.found for row in self.rows)

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = []
        for row in self.rows:
            lines.append(f"{'✓' if row.found else '✗'} {row.name.ljust(width)}  {row.detail}")
            if row.fix:
                lines.append(f"  {' ' * width}  fix: {row.fix}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The rows as a card, for the last value of a cell."""
        lines = []
        for row in self.rows:
            mark, colour = ("✓", _GOOD) if row.found else ("✗", _BAD)
            fix = f"<br><b>Fix:</b> {html.escape(row.fix)}" if row.fix else ""
            lines.append(
                f'<tr><td style="font-weight:bold;color:{colour}">{mark}</td>'
                f'<td style="text-align:left;white-space:nowrap"><b>{html.escape(row.name)}</b>'
                f'</td><td style="text-align:left;overflow-wrap:anywhere">{html.escape(row.detail)}'
                f"{fix}</td></tr>"
            )
        missing = sum(not row.found for row in self.rows)
        head = f"{missing} of {len(self.rows)} missing" if missing else "Nothing is missing"
        return (
            '<table class="maxlab-doctor" style="margin:0"><caption style="text-align:left">'
            f"{head}</caption>{''.join(lines)}</table>"
        )


def _gpu_row() -> DoctorRow:
    """The accelerators; none is no fault, and why there is none may be one."""
    try:
        count = accelerator_count()
    except MaxlabError as error:  # a setting that cannot be
        return DoctorRow("GPU", False, error.what, error.fix or "")
    if not count:
        why = "; ".join(missing_for_accelerators())
        detail = f"none ({why}); driver.use_simulator() runs CUDA on the CPU"
        return DoctorRow("GPU", True, detail, "")
    names = []
    for number in range(count):
        found = Accelerator(number).context.properties
        names.append(f"{found.name} ({found.architecture})")
    return DoctorRow("GPU", True, ", ".join(names), "")


def _dot_row() -> DoctorRow:
    name = "graphviz"
    program = shutil.which("dot")
    fix = "apt-get install graphviz (or brew, or conda); only static pictures need it"
    if program is None:
        return DoctorRow(name, False, "the program `dot` is not on PATH", fix)
    try:
        done = subprocess.run(
            [program, "-V"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return DoctorRow(name, False, f"{program} does not run: {error}", fix)
    return DoctorRow(name, True, f"{(done.stderr or done.stdout).strip()} ({program})", "")


def _bundle_row() -> DoctorRow:
    name, sizes = "front end", []
    for file in ("widget.js", "export.js"):
        path = bundle.STATIC / file
        if not path.is_file():
            fix = "install maxlab from a wheel, or build it: cd extension && jlpm && jlpm build"
            return DoctorRow(name, False, f"{path} is not there", fix)
        sizes.append(f"{file} {path.stat().st_size / 1000:.0f} kB")
    return DoctorRow(name, True, ", ".join(sizes), "")


def _extension_row() -> DoctorRow:
    """Whether JupyterLab would find the extension, and whether it is of this version."""
    name = "JupyterLab extension"
    fix = "pip install . in a checkout of maxlab; views work without it"
    try:
        from jupyter_core.paths import jupyter_path
    except ImportError:
        return DoctorRow(name, False, "Jupyter is not installed", "pip install jupyterlab")
    for folder in jupyter_path("labextensions", "maxlab-extension"):
        package = _json(f"{folder}/package.json")
        if package is not None:
            version = str(package.get("version"))
            if version != __version__:
                detail = f"version {version} in {folder}, but maxlab is {__version__}"
                return DoctorRow(name, False, detail, "install both from one wheel")
            return DoctorRow(name, True, f"{version} in {folder}", "")
    return DoctorRow(name, False, "not installed in this environment", fix)


def _json(path: str) -> Any:
    try:
        return json.loads(files.read_text(path, most=_MOST_JSON))
    except (FileError, ValueError, RecursionError):
        return None


def _package_row(name: str) -> DoctorRow:
    try:
        return DoctorRow(name, True, importlib.metadata.version(name), "")
    except importlib.metadata.PackageNotFoundError:
        return DoctorRow(name, False, "not installed", f"pip install {name}")


nearest(Report, "report")
