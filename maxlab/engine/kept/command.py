"""The commands ``python -m maxlab run`` and ``info`` for kept models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab import files
from maxlab.config import config
from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.contents import contents_of
from maxlab.engine.kept.trusting import require_digest, require_trust
from maxlab.errors import ArgumentError, InputError

if TYPE_CHECKING:
    from maxlab.driver import Tensor
    from maxlab.engine.kept.contents import Contents
    from maxlab.engine.kept.manifest import Argument
    from maxlab.engine.model import Model

MOST_HEAD = 1 << 16
"""Bytes of the head of an ``.npy`` file."""
_SHOWN = 8


def run(
    path: Path,
    inputs: Sequence[str],
    outputs: Sequence[Path] = (),
    trusted: bool | str = False,
    threads: int | None = None,
) -> list[str]:
    """Lines that tell the outputs of one run of the model at ``path``, but of those that are
    written.

    Args:
        path: The kept model.
        inputs: ``.npy`` files, in the order of its inputs or as ``name=file``.
        outputs: The files to write outputs to, in their order; others are told.
        trusted: As ``InferenceSession.load`` takes it.
        threads: Of the host; all usable cores by default.

    Raises:
        ArgumentError: ML452, more outputs than the model has, or an input of no such name.
        InputError: ML453, a file with an input is no ``.npy`` file.
        MaxlabError: As ``InferenceSession.load``, and as the model when it runs.
    """
    model = loaded(path, trusted, threads)
    named, placed = {}, []
    names = [spec.name for spec in model.input_metadata]
    for text in inputs:
        name, equals, file = text.partition("=")
        if equals and name in names:
            named[name] = _array(file)
        elif equals and not Path(text).exists():
            raise ArgumentError(
                "ML452",
                f"the model {model.name!r} has no input {name!r}",
                fix=f"its inputs are {', '.join(names) or 'none'}",
            )
        else:
            placed.append(_array(text))
    made = model(*placed, **named)
    if len(outputs) > len(made):
        raise ArgumentError(
            "ML452",
            f"the model {model.name!r} has {len(made)} outputs, and {len(outputs)} files are given",
            fix="give a file for each output at most",
        )
    lines = []
    for number, tensor in enumerate(made):
        if number < len(outputs):
            _write(outputs[number], tensor)
        else:
            lines.append(_told(f"output{number}", tensor))
    return lines


def loaded(path: files.AnyPath, trusted: bool | str, threads: int | None) -> Model:
    """The model at ``path``. One that is trusted and fits is loaded without a session, which
    imports what builds graphs."""
    from maxlab.engine.kept.loading import is_loadable, load_kept
    from maxlab.engine.kept.opening import misfit, options_of

    require_trust(trusted)
    archive = Archive(path)
    require_digest(archive, trusted)
    if trusted and not misfit(archive) and is_loadable(archive, {}) and _is_of_host(archive):
        from maxlab.driver.device import CPU

        count = config().num_threads if threads is None else max(threads, 1)
        options = options_of(archive, is_trusted=True)
        return load_kept(archive, options, {}, devices=[CPU()], threads=count)
    from maxlab.driver.accelerator import load_devices, scan_available_devices
    from maxlab.engine.session import InferenceSession

    devices = [] if _is_of_host(archive) else load_devices(scan_available_devices())
    return InferenceSession(devices, threads).load(Path(path), trusted=trusted)


def _is_of_host(archive: Archive) -> bool:
    return all(kernel.language == "c" for kernel in archive.manifest.kernels)


def _array(path: str) -> np.ndarray[Any, Any]:
    with files.open_regular(path, "the input") as file:
        try:
            made: np.ndarray[Any, Any] = np.lib.format.read_array(
                file, allow_pickle=False, max_header_size=MOST_HEAD
            )
            return np.ascontiguousarray(made)
        except (ValueError, EOFError, SyntaxError, TypeError, MemoryError, OverflowError) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                "ML453",
                f"the input {path} is no .npy file: {why[:120]}",
                fix="write it with numpy.save(path, array)",
            ) from error


def _write(path: Path, tensor: Tensor) -> None:
    with files.replacing(path, "the output") as file:
        np.lib.format.write_array(file, tensor.to_numpy(), allow_pickle=False)


def _told(name: str, tensor: Tensor) -> str:
    array = tensor.to_numpy()
    first = ", ".join(str(one) for one in array.reshape(-1)[:_SHOWN].tolist())
    more = ", …" if array.size > _SHOWN else ""
    return f"{name}: {tensor.dtype.name}{list(array.shape)} {first}{more}"


# ---------------------------------------------------------------- contents
def info(path: files.AnyPath, *, verify: bool = False) -> str:
    """The contents of the kept model at ``path``, as lines of text. None of it is run.

    Args:
        path: The kept model.
        verify: Whether all of it is read and held against its digest.

    Raises:
        FileError: ML001 or ML002, it cannot be read.
        ParseError: ML512 or ML514, it is damaged or was changed; ML513, a newer maxlab wrote it.
    """
    archive = Archive(path)
    if verify:
        archive.require_whole()
    return told(contents_of(archive))


def told(found: Contents) -> str:
    """``found`` as lines of text."""
    manifest = found.manifest
    operations, kernels = manifest.operations, len(manifest.kernels)
    lines = [
        f"{manifest.name}: {operations} operations, {kernels} kernels, by maxlab {manifest.maxlab}",
        f"digest  {found.digest}",
    ]
    for kind, arguments in (("input", manifest.inputs), ("output", manifest.outputs)):
        lines += [f"{kind:7} {_spelled(one)}" for one in arguments]
    if manifest.custom:
        lines.append(f"kernels of users, which need trust: {', '.join(manifest.custom)}")
    if manifest.machine is not None and manifest.libraries:
        machine = manifest.machine
        lines.append(f"machine code for {machine.machine}, by {machine.compiler}")
    for file in manifest.files:
        lines.append(f"weights in {file.path}, {file.nbytes:,} bytes, sha256 {file.sha256}")
    width = max(len(f"{nbytes:,}") for nbytes in (*found.sizes.values(), found.nbytes))
    lines += [f"{nbytes:{width},} bytes  {part}" for part, nbytes in found.sizes.items()]
    lines.append(f"{found.nbytes:{width},} bytes  together")
    return "\n".join(lines)


def _spelled(one: Argument) -> str:
    place = "" if one.device == "cpu:0" else f" on {one.device}"
    return f"{one.name}: {one.dtype}[{', '.join(one.shape)}]{place}"


__all__ = ["info", "loaded", "run", "told"]
