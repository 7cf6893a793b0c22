"""The folder of an exported model: its files, and `export_c`, which writes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from maxlab import files, progress
from maxlab.compiler.plan import Plan
from maxlab.engine.exporting.data import Exportable, data_of
from maxlab.engine.exporting.refusals import require_exportable
from maxlab.engine.exporting.tables import Tables, needs_products
from maxlab.errors import ArgumentError, FileError
from maxlab.toolchain.flags import ACCURACY_ARGUMENTS, Accuracy
from maxlab.toolchain.library import OWN_FLAGS, PRODUCT_FILES
from maxlab.toolchain.prelude import kernels_dir, prelude_for
from maxlab.toolchain.units import ALONE

WEIGHTS = "weights.bin"
MARK = "plan.c"
"""The file by which a folder is known as one of an export."""
KERNELS_PER_FILE = 32
_NOT_NEEDED = ("guard.c",)
"""Files of the runtime that run users' kernels in another process."""


class Exported(NamedTuple):
    """The files that `export_c` has written.

    Attributes:
        folder: The folder.
        files: The names of the files in it.
        nbytes: The bytes of all of them.
    """

    folder: Path
    files: tuple[str, ...]
    nbytes: int

    def __str__(self) -> str:
        return f"{self.folder}: {len(self.files)} files, {self.nbytes / 2**20:.1f} MiB"


def export_c(model: Exportable, folder: files.AnyPath) -> Exported:
    """The folder with ``model`` as a program of C; see ``Model.export_c``."""
    plan = model.compiled.plan
    require_exportable(plan, dict(model.runner.executable.placed))
    place = files.as_path(folder)
    _make_folder(place)
    with progress.working(f"export {plan.facts.name}") as work:
        work.step("reading the weights")
        data = data_of(model)
        texts = _texts(model, Tables(plan, data).text)
        work.step("writing", 0, len(texts) + 1)
        for name, text in texts.items():
            if "/" in name:
                (place / name).parent.mkdir(exist_ok=True)
            with files.replacing(place / name, "the exported file") as out:
                out.write(text.encode("utf-8", "replace"))
            work.advance(1, name)
        names = list(texts)
        if data.nbytes:
            with files.replacing(place / WEIGHTS, "the exported weights") as out:
                data.write(out)
            names.append(WEIGHTS)
        _remove_older(place, names)
    return Exported(place, tuple(names), sum(os.path.getsize(place / name) for name in names))


def _make_folder(place: Path) -> None:
    """Make the folder, unless it is there: empty, or with an earlier export.

    Raises:
        FileError: ML003, it cannot be made.
        ArgumentError: ML465, it has files that are no export.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
        found = os.listdir(place)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(
            "ML003",
            f"the folder {str(place)!r} cannot be made: {why}",
            fix="name a folder in one that exists and that you may write",
        ) from error
    if found and MARK not in found:
        raise ArgumentError(
            "ML465",
            f"{place} has {len(found)} files that are no exported model, such as {min(found)!r}",
            fix="name a folder that is empty, or that is not there yet",
        )


def _remove_older(place: Path, names: Sequence[str]) -> None:
    """Remove kernels and weights that an earlier export had, and this one does not need."""
    for old in (*place.glob("kernels_*.c"), place / WEIGHTS):
        if old.name not in names:
            old.unlink(missing_ok=True)


# ---------------------------------------------------------------- the texts
def _texts(model: Exportable, tables: str) -> dict[str, str]:
    """All files of text, by their names."""
    plan = model.compiled.plan
    found = {MARK: tables}
    runtime: list[str] = []
    for name, path in _runtime_files(needs_products(plan)):
        found[name] = path.read_text(encoding="utf-8")
        if name.endswith(".c"):
            runtime.append(name)
    kernels = {}
    for number, text in enumerate(_kernel_files(plan)):
        kernels[f"kernels_{number}.c"] = text
    found |= kernels
    found["Makefile"] = _makefile(
        [MARK, *kernels, *runtime],
        found,
        accuracy=model.compiled.options.accuracy,
        kernels=[*kernels],
    )
    found["README.txt"] = _readme(model)
    return found


def _runtime_files(products: bool) -> Iterator[tuple[str, Path]]:
    folder = kernels_dir() / "c"
    for path in sorted([*folder.glob("*.c"), *folder.glob("*.h")]):
        if path.name in _NOT_NEEDED or (path.name in PRODUCT_FILES and not products):
            continue
        yield path.name, path
    for path in sorted((folder / "export").iterdir()):
        if path.suffix in (".c", ".h"):
            yield path.name, path


def _kernel_files(plan: Plan) -> Iterator[str]:
    """The generated kernels: several a file, those that declare what others may declare alone."""
    texts: dict[str, str] = {}
    for step in plan.steps:
        for printed in (step.printed, step.in_strips() if step.long is not None else None):
            if printed is not None:
                texts[printed.symbol] = printed.text
    together = [text for text in texts.values() if not text.startswith(ALONE)]
    groups = [[text] for text in texts.values() if text.startswith(ALONE)]
    groups += [
        together[n : n + KERNELS_PER_FILE] for n in range(0, len(together), KERNELS_PER_FILE)
    ]
    for group in groups:
        yield "\n".join([prelude_for(*group), *group]) + "\n"


def _makefile(
    sources: Sequence[str], texts: dict[str, str], *, accuracy: Accuracy, kernels: Sequence[str]
) -> str:
    objects = [name.removesuffix(".c") + ".o" for name in sources]
    headers = [name for name in texts if name.endswith(".h")]
    lines = [
        "# make && ./model INPUT... OUTPUT...",
        "#",
        "# CC may be gcc, clang or `zig cc`. The code is for the processor of this machine; ARCH=",
        "# makes it for all, and ARCH=-march=x86-64-v3 (of zig: x86_64_v3) for those of the last",
        "# ten years.",
        "CC = gcc",
        "ARCH = -march=native -mprefer-vector-width=512",
        "CFLAGS = -std=gnu11 -fopenmp-simd -fno-math-errno -fno-trapping-math \\",
        "  -ffp-contract=fast -fno-sanitize=undefined -pthread -w",
        "OPT = -O1",
        f"OBJECTS = {' '.join(objects)}",
        "",
        "model: $(OBJECTS)",
        "\t$(CC) -pthread $(OBJECTS) -o $@ -lm",
        "",
        f"%.o: %.c {' '.join(headers)}",
        "\t$(CC) $(OPT) $(CFLAGS) $(ARCH) -c $< -o $@",
        "",
    ]
    for name in sources:
        own = OWN_FLAGS.match(texts[name])
        if own:
            lines.append(f"{name.removesuffix('.c')}.o: OPT = {own['flags']}")
    own_flags = " ".join(ACCURACY_ARGUMENTS[accuracy])
    if own_flags:
        lines += [f"{name.removesuffix('.c')}.o: OPT = -O1 {own_flags}" for name in kernels]
    lines += ["", "clean:", "\trm -f model $(OBJECTS)", "", ".PHONY: clean", ""]
    return "\n".join(lines)


def _readme(model: Exportable) -> str:
    facts = model.compiled.plan.facts
    inputs = [f"  input {n}, {x.name}: {x.type}" for n, x in enumerate(facts.inputs)]
    outputs = [
        f"  output {n}: {y.dtype.name}[{', '.join(map(str, y.declared))}]"
        for n, y in enumerate(facts.outputs)
    ]
    files_of = (
        " ".join([*(f"in{n}.npy" for n in range(len(inputs)))]),
        " ".join(f"out{n}.npy" for n in range(len(outputs))),
    )
    return f"""The graph {facts.name}, compiled by maxlab: a program of C that needs no Python.

    make
    ./model {files_of[0]} {files_of[1]}

{chr(10).join([*inputs, *outputs])}

Inputs are .npy files in C order, or files of plain little-endian numbers with a shape behind a
colon, such as x.bin:8x96. Outputs whose names end in .npy are such files, others plain numbers.
NumPy has no bfloat16 and no float8: in .npy files they are bytes (|V2, |V1), as ml_dtypes saves
them. --threads N sets the number of threads, --weights FILE names another place of {WEIGHTS},
which lies beside the program otherwise.

The program ends with 0, or says on the standard error what was wrong and ends with
  1  a kernel found something wrong, such as an index out of range
  2  an input that the model does not take, or a wrong command line
  3  not enough memory
  4  the weights are missing, cut, or those of another model

model.h is the interface for programs of your own: model_create, model_run, model_destroy. Link all
objects but main.o. One program can have one such model.

plan.c has the tables of the graph, kernels_*.c its kernels, model.c binds both to the sizes of the
inputs, executor.c runs them with a team of threads. The results are those of the model in Python
with the same compiler and processor.
"""


__all__ = ["Exported", "export_c"]
