"""Compiles the runtime for the CPUs that wheels bring it for: ``python -m scripts.prebuild``.

It writes ``kernels/prebuilt``, which a wheel of this checkout contains and which the checkout
itself uses; what is there already and is of the same sources stays. ``--check`` writes nothing and
fails when something is missing. Only the levels of the architecture that this runs on are made.
"""

from __future__ import annotations

import argparse
import os
import platform

from maxlab.toolchain import prebuilt
from maxlab.toolchain.library import compiled_for, prebuilt_name
from maxlab.toolchain.seals import seal

LIBRARIES = tuple(dict.fromkeys(one for level in prebuilt.LEVELS for one in level.libraries))


def levels_of(library: str) -> dict[str, prebuilt.Level]:
    """The levels of this architecture that ``library`` is made for, by the names of its codes."""
    return {
        prebuilt_name(level, library): level
        for level in prebuilt.LEVELS
        if level.machine == platform.machine() and library in level.libraries
    }


def missing() -> list[tuple[prebuilt.Level, str]]:
    """The levels of this architecture, and the libraries, that have no code of these sources."""
    found = []
    for library in LIBRARIES:
        codes = prebuilt.codes_in(prebuilt.file_of(library, platform.machine()))
        names = [] if codes is None else codes.names
        found += [
            (level, library) for name, level in levels_of(library).items() if name not in names
        ]
    return found


def build() -> int:
    """Compile what is missing, remove what is of other sources, and say how much was compiled."""
    folder, count = prebuilt.folder(), 0
    folder.mkdir(exist_ok=True)
    files = {library: prebuilt.file_of(library, platform.machine()) for library in LIBRARIES}
    for library, path in files.items():
        wanted, before = levels_of(library), prebuilt.codes_in(path)
        if not wanted or (before is not None and before.names == list(wanted)):
            continue
        codes = {}
        for name, level in wanted.items():
            code = None if before is None else before.code(name)
            if code is None:
                code, count = compiled_for(level, library), count + 1
            codes[name] = code
        begun = folder / f".{os.getpid()}"
        begun.write_bytes(prebuilt.packed(codes))
        seal(begun, [path.name])
        begun.chmod(0o644)
        begun.replace(path)
    for path in folder.iterdir():
        if path.is_file() and path not in files.values():
            path.unlink()
    return count


def main() -> None:
    """Build, or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say what is missing")
    if parser.parse_args().check:
        left = [f"{library} for {level.name}" for level, library in missing()]
        raise SystemExit(f"missing: {', '.join(left)}" if left else 0)
    print(f"{build()} libraries compiled into {prebuilt.folder()}")


if __name__ == "__main__":
    main()
