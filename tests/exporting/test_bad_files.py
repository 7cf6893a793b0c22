"""Files that are wrong in every way: the program says so, ends with its own status, and reads
nothing that is not its own. It is built to notice every wrong access."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.exporting.programs import Program

INDICES = np.array([3, 0, 9])
SCALE = np.arange(12, dtype="f4").reshape(3, 4)
MUTATIONS = 150


@pytest.fixture
def here(strict: Program) -> Program:
    """The program, with good inputs beside it."""
    np.save(strict.folder / "i.npy", INDICES)
    np.save(strict.folder / "s.npy", SCALE)
    return strict


def refused(program: Program, *arguments: str, code: int = 2) -> str:
    done = program.call(*arguments)
    assert done.returncode == code, (arguments, done.returncode, done.stderr[-2000:])
    assert done.stderr.strip()
    return done.stderr


OUT = ("a.npy", "b.npy")


def test_good_files_are_taken(here: Program) -> None:
    done = here.call("i.npy", "s.npy", *OUT)
    assert done.returncode == 0, done.stderr
    table = np.arange(40, dtype="f4").reshape(10, 4)
    np.testing.assert_array_equal(np.load(here.folder / "a.npy"), table[INDICES] * SCALE)


def test_an_index_that_is_out_of_range(here: Program) -> None:
    np.save(here.folder / "i.npy", np.array([0, 1, 10]))
    assert "out of range" in refused(here, "i.npy", "s.npy", *OUT, code=1)


def npy(header: bytes, data: bytes, version: int = 1) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


GOOD = b"{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n"
HEADERS = {
    "empty": b"",
    "only the magic": b"\x93NUMPY",
    "half a magic": b"\x93NU",
    "another magic": b"PK\x03\x04" + bytes(80),
    "no data": npy(GOOD, b""),
    "too little data": npy(GOOD, bytes(23)),
    "too much data": npy(GOOD, bytes(25)),
    "a header that is longer than the file": b"\x93NUMPY\x01\x00\xff\xff" + GOOD,
    "a header of 4 GiB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + GOOD + bytes(24),
    "version 9": npy(GOOD, bytes(24), 9),
    "no shape": npy(b"{'descr': '<i8', 'fortran_order': False}", bytes(24)),
    "an open shape": npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (3", bytes(24)),
    "a shape of words": npy(GOOD.replace(b"(3,)", b"(three,)"), bytes(24)),
    "a negative size": npy(GOOD.replace(b"(3,)", b"(-3,)"), bytes(24)),
    "a size of 30 digits": npy(GOOD.replace(b"(3,)", b"(" + b"9" * 30 + b",)"), bytes(24)),
    "a size of 2**61": npy(GOOD.replace(b"(3,)", b"(2305843009213693952,)"), bytes(24)),
    "two axes": npy(GOOD.replace(b"(3,)", b"(3, 1)"), bytes(24)),
    "no axes": npy(GOOD.replace(b"(3,)", b"()"), bytes(8)),
    "a hundred axes": npy(GOOD.replace(b"(3,)", b"(" + b"1, " * 100 + b")"), bytes(8)),
    "another dtype": npy(GOOD.replace(b"<i8", b"<f8"), bytes(24)),
    "a long dtype": npy(GOOD.replace(b"<i8", b"<" + b"x" * 5000), bytes(24)),
    "big-endian": npy(GOOD.replace(b"<i8", b">i8"), bytes(24)),
    "a dtype without an end": npy(GOOD.replace(b"'<i8'", b"'<i8"), bytes(24)),
    "a record": npy(GOOD.replace(b"'<i8'", b"[('a', '<i8')]"), bytes(24)),
    "zeros in the header": npy(b"\0" * 60, bytes(24)),
    "another length": npy(GOOD.replace(b"(3,)", b"(4,)"), bytes(32)),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_wrong_npy_file(here: Program, name: str) -> None:
    (here.folder / "bad.npy").write_bytes(HEADERS[name])
    refused(here, "bad.npy", "s.npy", *OUT)


@pytest.mark.parametrize("seed", range(4))
def test_files_with_changed_bytes(here: Program, seed: int) -> None:
    """Whatever the bytes are, the program ends by itself; what it takes, it computes."""
    rng = random.Random(seed)
    good = (here.folder / "i.npy").read_bytes()
    for _ in range(MUTATIONS // 4):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        if rng.random() < 0.3:
            del bad[rng.randrange(len(bad)) :]
        (here.folder / "bad.npy").write_bytes(bad)
        done = here.call("bad.npy", "s.npy", *OUT)
        assert done.returncode in (0, 1, 2), done.stderr[-2000:]


COMMANDS = {
    "nothing": (),
    "too few": ("i.npy",),
    "too many": ("i.npy", "s.npy", *OUT, "c.npy"),
    "an unknown option": ("--what", "x", "i.npy", "s.npy", *OUT),
    "no threads": ("--threads", "0", "i.npy", "s.npy", *OUT),
    "threads in words": ("--threads", "many", "i.npy", "s.npy", *OUT),
    "a million threads": ("--threads", "1000000", "i.npy", "s.npy", *OUT),
    "a file that is not there": ("nowhere.npy", "s.npy", *OUT),
    "a folder": ("folder.npy", "s.npy", *OUT),
    "a pipe": ("pipe.npy", "s.npy", *OUT),
    "no shape": ("s.npy", "plain.bin", *OUT),
    "a shape of words": ("plain.bin:three", "s.npy", *OUT),
    "a shape that is not whole": ("plain.bin:3x", "s.npy", *OUT),
    "a shape of 2**70": ("plain.bin:1180591620717411303424", "s.npy", *OUT),
    "another shape": ("plain.bin:4", "s.npy", *OUT),
    "an output that cannot be written": ("i.npy", "s.npy", "nowhere/a.npy", "b.npy"),
    "an output that is a folder": ("i.npy", "s.npy", "folder.npy", "b.npy"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command(here: Program, name: str) -> None:
    (here.folder / "plain.bin").write_bytes(INDICES.tobytes())
    (here.folder / "folder.npy").mkdir(exist_ok=True)
    if not (here.folder / "pipe.npy").exists():
        os.mkfifo(here.folder / "pipe.npy")
    refused(here, *COMMANDS[name])


WEIGHTS = ("missing", "cut", "longer", "another", "empty", "a folder")


@pytest.mark.parametrize("how", WEIGHTS)
def test_wrong_weights(here: Program, tmp_path: Path, how: str) -> None:
    good = (here.folder / "weights.bin").read_bytes()
    bad = tmp_path / "bad.bin"
    if how == "a folder":
        bad.mkdir()
    elif how != "missing":
        changed = good[:16] + bytes([good[16] ^ 1]) + good[17:]
        made = {"cut": good[:-1], "longer": good + b"x", "another": changed, "empty": b""}
        bad.write_bytes(made[how])
    refused(here, "--weights", str(bad), "i.npy", "s.npy", *OUT, code=4)
