"""Weight files of strangers: cut off, changed, lying, or made to harm.

Whatever a file says, a reader gives its tensors or raises a ``WeightError``. It does not crash,
wait, run anything, or take memory by a number of the file.
"""

from __future__ import annotations

import contextlib
import gc
import io
import resource
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from maxlab.errors import WeightError
from maxlab.graph.weights import load_weights
from maxlab.graph.weights.gguf_file import GGUFFile
from maxlab.toolchain import runtime
from tests.graph.weight_files import (
    archive,
    array,
    gguf,
    gguf_of,
    info,
    pair,
    state,
    storage,
    tensor,
    text,
    together,
    torch_of,
    whole,
    word,
)

ENOUGH_BYTES = 8 << 20
"""More than any of the small files here can need, far less than the numbers they claim."""
TENSORS: dict[str, np.ndarray[Any, Any]] = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.arange(4, dtype=np.float16),
    "c": np.arange(5),
}
PAIRS = [
    pair("general.architecture", 8, text("llama")),
    pair("general.alignment", 4, struct.pack("<I", 32)),
    pair("tokens", 9, array(8, 3, text("x") + text("") + text("yz"))),
    pair("scores", 9, array(6, 3, bytes(12))),
    pair("nested", 9, array(9, 1, array(4, 2, bytes(8)))),
]


SAMPLES: dict[str, Callable[[], bytes]] = {
    "safetensors": lambda: save(TENSORS),
    "gguf": lambda: gguf_of(TENSORS, PAIRS),
    "pt": lambda: torch_of(TENSORS | {"t": TENSORS["a.weight"].T}),
}


def use(path: Path) -> int:
    """Everything that can be asked of a file; how many tensors it gave."""
    given = 0
    weights = load_weights([path])
    if path.suffix == ".gguf":
        metadata = GGUFFile(path).metadata
        for key in metadata:
            try:
                metadata[key]
            except WeightError:
                pass
    for _name, weight in weights.items():  # noqa: PERF102 - no dict
        try:
            data: Any = weight.data().data
            data.tobytes()
            weight.allocate()
        except WeightError:
            continue
        given += 1
    return given


class Attempts:
    """Files of one format, tried one after the other, each under a name of its own: memory that is
    mapped must not change."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix
        self._tried = 0
        self.refused = 0

    def __call__(self, content: bytes) -> None:
        self._tried += 1
        path = self._folder / f"{self._tried}.{self._suffix}"
        path.write_bytes(content)
        try:
            with enough_memory():
                use(path)
        except WeightError:  # and no other error: what takes more memory is a MemoryError
            self.refused += 1
        finally:
            path.unlink()


def taken_bytes() -> int:
    """The memory of its own that this process has, its stack included."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * resource.getpagesize()


@contextlib.contextmanager
def enough_memory(more: int = ENOUGH_BYTES) -> Iterator[None]:
    """A block in which this process can take ``more`` bytes and not one page beyond.

    The system counts whatever is asked for, as ``tracemalloc`` does, and takes a quarter of its
    time: there are thousands of attempts.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (taken_bytes() + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@pytest.fixture(scope="module", autouse=True)
def no_free_memory() -> Iterator[None]:
    """What the process has freed and not given back is taken: whatever comes is seen.

    The runtime library is there, which opening the first file would compile.
    """
    runtime()
    gc.collect()  # not later, while a test counts
    held = []
    # Refused memory of one arena, the C library looks into those that other threads have left.
    for size in (ENOUGH_BYTES, ENOUGH_BYTES // 8):
        with contextlib.suppress(MemoryError), enough_memory(size // 2):
            while True:
                held.append(bytearray(size))
    yield
    held.clear()


def test_more_than_enough_memory_is_an_error() -> None:
    for take in (lambda n: np.empty(n, np.uint8), bytearray, lambda n: b"a" * n):
        with pytest.raises(MemoryError), enough_memory():
            take(2 * ENOUGH_BYTES)
        with enough_memory():
            take(ENOUGH_BYTES // 2)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.fixture(params=list(SAMPLES))
def sample(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_samples_are_whole(sample: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{sample}"
    path.write_bytes(SAMPLES[sample]())
    assert use(path) == len(TENSORS) + (sample == "pt")


def test_every_truncation_is_refused(sample: str, tmp_path: Path) -> None:
    content = SAMPLES[sample]()
    attempt = Attempts(tmp_path, sample)
    sizes = range(len(content)) if len(content) < 800 else range(0, len(content), 3)
    for size in sizes:
        attempt(content[:size])
    assert attempt.refused == len(sizes)


def test_changed_bytes(sample: str, tmp_path: Path) -> None:
    content = SAMPLES[sample]()
    attempt = Attempts(tmp_path, sample)
    for at in range(len(content)):
        for value in {0xFF * (at % 2), content[at] ^ 1 << at % 8} - {content[at]}:
            attempt(content[:at] + bytes([value]) + content[at + 1 :])
    assert attempt.refused > 300


def test_huge_numbers_in_every_place(sample: str, tmp_path: Path) -> None:
    content = SAMPLES[sample]()
    attempt = Attempts(tmp_path, sample)
    for number in (2**31 - 1, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1):
        raw = number.to_bytes(4 if number < 2**32 else 8, "little")
        for at in range(number % 3, len(content) - 8, 1 if sample == "gguf" else 3):
            attempt(content[:at] + raw + content[at + len(raw) :])
    assert attempt.refused > 300


def test_pieces_in_other_places(sample: str, tmp_path: Path) -> None:
    content = SAMPLES[sample]()
    attempt = Attempts(tmp_path, sample)
    noise = np.random.default_rng(0)
    for _ in range(600):
        a, b, n = (int(x) for x in noise.integers(0, len(content), 3))
        piece = content[a : a + n % 64]
        changed = (
            content[:b] + piece + content[b + len(piece) :],
            content[:b] + piece + content[b:],
            content[:b] + content[b + len(piece) :],
        )
        attempt(changed[n % 3])
    assert attempt.refused > 300


# ---------------------------------------------------------------- GGUF
LONG = 2**40
BAD_GGUF = {
    "empty": b"",
    "another magic": gguf(magic=b"GGML"),
    "more tensors than bytes": gguf(counts=(LONG, 0)),
    "more metadata than bytes": gguf(counts=(0, LONG)),
    "both": gguf(counts=(2**64 - 1, 2**64 - 1)),
    "an endless key": gguf([struct.pack("<Q", LONG) + bytes(16)]),
    "an endless text": gguf([pair("a", 8, struct.pack("<Q", 2**64 - 1))]),
    "an endless array": gguf([pair("a", 9, array(6, LONG, b""))]),
    "endless texts": gguf([pair("a", 9, array(8, LONG, b""))]),
    "a text of an array beyond the end": gguf(
        [pair("a", 9, array(8, 2, text("x") + struct.pack("<Q", LONG)))]
    ),
    "arrays in arrays": gguf([pair("a", 9, array(9, 1, b"") * 5000 + array(4, 0, b""))]),
    "an unknown type": gguf([pair("a", 13, bytes(8))]),
    "an array of an unknown type": gguf([pair("a", 9, array(77, 1, bytes(8)))]),
    "a key twice": gguf([pair("a", 4, bytes(4))] * 2),
    "a key that is no text": gguf([text(b"\xff") + bytes(8)]),
    "no alignment": gguf([pair("general.alignment", 4, bytes(4))]),
    "alignment 3": gguf([pair("general.alignment", 4, struct.pack("<I", 3))]),
    "alignment in words": gguf([pair("general.alignment", 8, text("32"))]),
    "a tensor twice": gguf(infos=[info("a", [2], 0, 0), info("a", [2], 0, 32)], data=bytes(64)),
    "overlap": gguf(infos=[info("a", [16], 0, 0), info("b", [2], 0, 32)], data=bytes(64)),
    "beyond the end": gguf(infos=[info("a", [9], 0, 0)], data=bytes(35)),
    "far beyond the end": gguf(infos=[info("a", [2], 0, 2**63)], data=bytes(64)),
    "at no multiple": gguf(infos=[info("a", [2], 0, 4)], data=bytes(64)),
    "a huge shape": gguf(infos=[info("a", [2**62, 2**62], 0, 0)], data=bytes(64)),
    "a huge shape of nothing": gguf(infos=[info("a", [2**62, 2**62, 0], 0, 0)], data=bytes(64)),
    "an unknown type of a huge shape": gguf(infos=[info("a", [2**62, 4], 99, 0)]),
    "many dims": gguf(infos=[info("a", [1] * 9, 0, 0)], data=bytes(64)),
    "a rank beyond the end": gguf(infos=[text("a") + struct.pack("<IQQ", 2**32 - 1, 0, 0)]),
    "half a block": gguf(infos=[info("a", [48], 2, 0)], data=bytes(64)),
    "a block without dims": gguf(infos=[info("a", [], 2, 0)], data=bytes(64)),
}


@pytest.mark.parametrize("content", BAD_GGUF.values(), ids=list(BAD_GGUF))
def test_bad_gguf(content: bytes, tmp_path: Path, traced: None) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightError, match="not a whole GGUF file") as caught:
        load_weights([path])
    assert caught.value.code == "ML633"
    assert caught.value.at is not None
    assert tracemalloc.get_traced_memory()[1] < ENOUGH_BYTES


# ---------------------------------------------------------------- PyTorch
FLOATS = storage("FloatStorage", "0", 2)
GOOD = tensor(FLOATS, 0, [2], [1])
DICT = b"ccollections\nOrderedDict\n"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
SYSTEM = word("touch pwned")


def in_pickle(program: bytes) -> bytes:
    """An archive with a pickle that is a program of its own."""
    return archive(b"\x80\x02" + program + b".", {"0": bytes(8)})


def with_value(value: bytes) -> bytes:
    """An archive with a dict of one value."""
    return archive(state({"w": value}), {"0": bytes(8)})


def call(name: bytes, *arguments: bytes) -> bytes:
    return b"c" + name + b"\n" + together(*arguments) + b"R"


def view(offset: int, size: Sequence[int], stride: Sequence[int], of: bytes = FLOATS) -> bytes:
    return with_value(tensor(of, offset, size, stride))


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in members:
            file.writestr(name, data)
    return out.getvalue()


def patched(content: bytes, old: bytes, new: bytes) -> bytes:
    """``content`` with the last ``old`` replaced."""
    assert len(old) == len(new)
    before, found, after = content.rpartition(old)
    assert found
    return before + new + after


ASKS_FOR_CODE = {
    "a command": with_value(call(b"os\nsystem", SYSTEM)),
    "eval": with_value(call(b"builtins\neval", word("1"))),
    "a name alone": with_value(b"cposix\nsystem\n"),
    "by text": in_pickle(b"}" + word("w") + b"\x8c\x02os\x8c\x06system\x93s"),
    "a name that is near": with_value(b"ctorch._utils\n_import_dotted_name\n"),
    "a name inside of a name": with_value(b"ctorch\nSize.__class__\n"),
    "a module of ours": with_value(b"cmaxlab.config\nconfig\n"),
    "INST": with_value(b"(" + SYSTEM + b"ios\nsystem\n"),
    "OBJ": with_value(b"(" + DICT + b"o"),
    "NEWOBJ": with_value(b"ctorch\nSize\n)\x81"),
    "NEWOBJ_EX": with_value(DICT + b")}\x92"),
    "a code of the registry": with_value(b"\x82\x01"),
    "a call of what is no name": with_value(word("os.system") + b")R"),
    "a text as a place": with_value(b"Pabc\n"),
}


@pytest.mark.parametrize("content", ASKS_FOR_CODE.values(), ids=list(ASKS_FOR_CODE))
def test_a_pickle_that_asks_for_code(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.pt"
    path.write_bytes(content)
    with pytest.raises(WeightError, match="is refused: its pickle asks for") as caught:
        load_weights([path])
    assert caught.value.code == "ML747"
    assert list(tmp_path.iterdir()) == [path]


def doubled(times: int) -> bytes:
    """A dict in a dict, twice, ``times`` over: few bytes, and 2**times places."""
    program = b"}q\0" + word("w") + GOOD + b"s"
    for _ in range(times):
        program += b"0}" + word("a") + b"h\0s" + word("b") + b"h\0sq\0"
    return program


def long_names() -> bytes:
    """A name of 100 thousand characters in front of many others."""
    program = b"}q\0" + word("w") + GOOD + b"s"
    for _ in range(3):
        program += b"0}" + b"".join(word(str(i)) + b"h\0s" for i in range(64)) + b"q\0"
    return program + b"0}" + word("x" * 100_000) + b"h\0s"


def resized(packed: int, nbytes: int) -> bytes:
    """An archive whose directory has other sizes for the 8 bytes of ``m/data/0``."""
    old, new = (struct.pack("<2LH", *sizes, 8) for sizes in ((8, 8), (packed, nbytes)))
    return patched(zipped(*MEMBERS), old, new)


WHOLE = torch_of(TENSORS)
MEMBERS = ("m/data/0", bytes(8)), ("m/data.pkl", state({"w": GOOD}))
BAD_TORCH: dict[str, tuple[bytes, str]] = {
    "no archive": (b"PK\x03\x04" + bytes(99), "directory at its end is missing"),
    "text": (b"hello, this is no checkpoint", "no ZIP archive"),
    "no pickle": (zipped(("model/data/0", bytes(8))), "0 members data.pkl"),
    "two pickles": (
        zipped(("a/data.pkl", b"\x80\x02}."), ("b/data.pkl", b"\x80\x02}.")),
        "2 members data.pkl",
    ),
    "bytes behind it": (WHOLE + b"x", "goes on after its end"),
    "a directory beyond the end": (
        WHOLE[:-10] + struct.pack("<2LH", 9, 2**31, 0),
        "not where it should be",
    ),
    "more members than bytes": (WHOLE[:-14] + b"\xff" * 4 + WHOLE[-10:], "claims 65535 members"),
    "a member twice": (
        patched(zipped(*MEMBERS, ("m/data/1", bytes(8))), b"m/data/1", b"m/data/0"),
        "twice",
    ),
    "overlapping members": (
        resized(60, 60),
        "overlap",
    ),
    "a member of two sizes": (
        resized(8, 9),
        "two sizes",
    ),
    "a member beyond the end": (
        resized(2**31, 2**31),
        "beyond its place",
    ),
    "a wide member without a size": (
        resized(2**32 - 1, 2**32 - 1),
        "lacks the size",
    ),
    "no such storage": (archive(state({"w": GOOD}), {"7": bytes(8)}), "'0' is missing"),
    "a longer storage": (archive(state({"w": GOOD}), {"0": bytes(12)}), "12 bytes for 2 of"),
    "a storage of another type": (
        view(0, [2], [1], storage("DoubleStorage", "0", 2)),
        "8 bytes for 2 of float64",
    ),
    "a negative count": (view(0, [2], [1], storage("FloatStorage", "0", -2)), "no storage"),
    "a huge count": (view(0, [2], [1], storage("FloatStorage", "0", 2**62)), "8 bytes for 46"),
    "beyond the storage": (view(0, [3], [1]), "beyond its storage"),
    "an offset beyond": (view(2, [1], [1]), "beyond its storage"),
    "a huge offset": (view(2**62, [1], [1]), "beyond its storage"),
    "a stride beyond": (view(0, [2], [2]), "beyond its storage"),
    "a huge stride": (view(0, [2], [2**62]), "beyond its storage"),
    "backwards": (view(1, [2], [-1]), "impossible shape"),
    "a negative size": (view(0, [-1], [1]), "impossible shape"),
    "a huge shape": (view(0, [2**62, 2**62], [0, 0]), "no memory can hold"),
    "a huge shape of nothing": (view(0, [2**62, 2**62, 0], [0, 0, 0]), "no memory can hold"),
    "many dims": (view(0, [1] * 33, [1] * 33), "impossible shape"),
    "fewer strides": (view(0, [1, 1], [1]), "impossible shape"),
    "a size that is no number": (
        with_value(
            REBUILD + together(FLOATS, b"K\0", b"\x88\x85", b"K\1\x85", b"\x89", b"N") + b"R"
        ),
        "impossible shape",
    ),
    "fewer arguments": (with_value(REBUILD + together(FLOATS) + b"R"), "does not take"),
    "many arguments": (in_pickle(REBUILD + b"(" + b"N" * 50 + b"tR"), "with 50 arguments"),
    "a tensor of a tensor": (
        with_value(REBUILD + together(GOOD, b"K\0", b")", b")", b"\x89", b"N") + b"R"),
        "does not take",
    ),
    "another reference": (with_value(together(word("module"), b"N") + b"Q"), "no storage"),
    "a reference of texts": (
        with_value(together(*map(word, ("storage", "x", "0", "cpu")), b"K\2") + b"Q"),
        "no storage",
    ),
    "state of a number": (with_value(b"K\1}b"), "state of what has none"),
    "no protocol": (archive(b"}.", {}), "protocol"),
    "protocol 0": (archive(b"\x80\x00}.", {}), "protocol"),
    "protocol 9": (archive(b"\x80\x09}.", {}), "protocol"),
    "an empty pickle": (archive(b"", {}), "cut off"),
    "nothing at the end": (in_pickle(b""), "where there is none"),
    "takes too much": (in_pickle(b"s"), "where there is none"),
    "a tuple of nothing": (in_pickle(b"\x87"), "where there is none"),
    "an end without a begin": (in_pickle(b"t"), "did not begin"),
    "recalls nothing": (in_pickle(b"h\x07"), "did not remember"),
    "remembers nothing": (in_pickle(b"q\x07"), "where there is none"),
    "an odd dict": (in_pickle(b"(" + word("a") + b"d"), "no dict"),
    "items of a list": (in_pickle(b"]K\1K\1s"), "no dict"),
    "appends to a dict": (in_pickle(b"}K\1a"), "no list"),
    "a key twice": (in_pickle(b"}" + (word("a") + b"Ns") * 2), "the key 'a' twice"),
    "a number like a key": (in_pickle(b"}" + word("1") + b"NsK\1Ns"), "the key '1' twice"),
    "a name twice": (
        archive(state({"a": b"}" + word("b") + GOOD + b"s", "a.b": GOOD}), {"0": bytes(8)}),
        "two tensors named 'a.b'",
    ),
    "an endless text": (in_pickle(b"\x8d" + struct.pack("<Q", 2**63)), "cut off"),
    "endless bytes": (in_pickle(b"\x8e" + struct.pack("<Q", 2**63)), "cut off"),
    "an endless number": (in_pickle(b"\x8b" + struct.pack("<I", 2**31)), "cut off"),
    "a line without an end": (in_pickle(b"ctorch"), "cut off"),
    "text that is none": (in_pickle(b"X\1\0\0\0\xff"), "not UTF-8"),
    "a text of digits": (in_pickle(b"I1\n"), "the instruction b'I'"),
    "names by numbers": (in_pickle(b"K\1K\2\x93"), "what is no text"),
    "a dict in itself": (in_pickle(b"}q\0" + word("a") + b"h\0s"), "without end"),
    "a list in itself": (in_pickle(b"}" + word("a") + b"]q\0h\0as"), "without end"),
    "dicts in dicts": (
        in_pickle((b"}" + word("a")) * 5000 + GOOD + b"s" * 5000),
        "without end",
    ),
    "a huge place to remember": (in_pickle(b"}r\xff\xff\xff\xff0"), "where there is none"),
    "long names": (in_pickle(long_names()), "no end"),
}


@pytest.mark.parametrize(("content", "why"), BAD_TORCH.values(), ids=list(BAD_TORCH))
def test_bad_pytorch(content: bytes, why: str, tmp_path: Path, traced: None) -> None:
    path = tmp_path / "bad.pt"
    path.write_bytes(content)
    with pytest.raises(WeightError, match="not a whole PyTorch file") as caught:
        load_weights([path])
    assert caught.value.code == "ML633"
    assert why in caught.value.what.rpartition(" file: ")[2]
    assert caught.value.at is not None
    assert tracemalloc.get_traced_memory()[1] < 100 * ENOUGH_BYTES


def test_variants_of_archives(tmp_path: Path) -> None:
    pickle = state({"w": GOOD})
    deflated = zipfile.ZIP_DEFLATED
    locked = patched(zipped(*MEMBERS), b"PK\1\2\x14\x03\x14\0\0", b"PK\1\2\x14\x03\x14\0\1")
    for number, (content, why) in enumerate(
        (
            (
                zipped(("m/data.pkl", pickle), ("m/data/0", bytes(50 << 20)), method=deflated),
                "comp",
            ),
            (locked, "encrypted"),
            (archive(pickle, {"0": bytes(8)}, **{"constants.pkl": b""}), "TorchScript"),
            (archive(pickle, {"0": bytes(8)}, byteorder=b"big"), "big-endian"),
        )
    ):
        path = tmp_path / f"{number}.pt"
        path.write_bytes(content)
        with pytest.raises(WeightError, match=why) as caught:
            load_weights([path])
        assert caught.value.code == "ML637"


REMEMBERED = b"(" + b"N" * 200_000 + b"tq\0"
WORK = {
    "one item very often": b"]q\0" + b"h\0a" * 200_000,
    "marks": b"(" * 300_000,
    "dicts": b"}" * 500_000,
    "remembers": b"N" + b"\x94" * 500_000,
    "tuples in tuples": b"N" + b"\x85" * 500_000,
    "tuples of twins": b"N" + b"2\x86" * 300_000,
    "many arguments very often": REMEMBERED + (REBUILD + b"h\0R") * 2_000,
    "an unknown call of many": REMEMBERED + (b"ctorch\ndevice\nh\0R0") * 20_000,
    "a long number as a key": b"\x8b\0\0\1\0" + b"\1" * 65536 + b"q\0}" + b"h\0Ns" * 100_000,
    "a tuple as a key": b"N" + b"2\x86" * 60 + b"q\0}h\0Ns",
    "a long text again": word("x" * 200_000) + b"q\0" + b"c_codecs\nencode\nh\0\x85R0" * 20_000,
    "a long key of a storage": word("x" * 200_000)
    + b"q\0"
    + b"".join(
        b"(" + word("storage") + b"ctorch\nByteStorage\nh\0" + word("cpu") + b"K\0tQ0"
        for _ in range(9)
    ),
    "places without end": doubled(60),
}


@pytest.mark.parametrize("program", WORK.values(), ids=list(WORK))
def test_work_is_bounded_by_the_length(program: bytes, tmp_path: Path) -> None:
    """Short programs that would cost time or memory by the square, or without an end."""
    path = tmp_path / "bad.pt"
    path.write_bytes(in_pickle(program))
    begun = time.perf_counter()
    with pytest.raises(WeightError):
        load_weights([path])
    assert time.perf_counter() - begun < 20


def test_whole_numbers_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / "good.pt"
    path.write_bytes(archive(state({"n": whole(2**200), "w": GOOD}), {"0": bytes(8)}))
    assert use(path) == 1
