"""Messages: every class comes back as it was, here and in another process; hostile ones do not."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import ml_dtypes
import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from maxlab import interfaces as i
from maxlab.errors import DocumentError, InputError, InputTypeError
from maxlab.interfaces import shared
from tests.interfaces import other_process
from tests.interfaces.samples import SAMPLES, TEXT, context

encode = i.msgpack_numpy_encoder()
SHM = Path("/dev/shm")


def segments() -> set[str]:
    """The segments of shared memory that are there."""
    return {path.name for path in SHM.glob("maxlab-msg-*")}


# ---------------------------------------------------------------- round trips
@pytest.mark.parametrize("name", SAMPLES)
def test_comes_back_as_it_was(name: str) -> None:
    kind, value = SAMPLES[name]
    back = i.msgpack_numpy_decoder(kind)(encode(value))
    assert type(back) is type(value)
    assert i.msgpack_eq(back, value)


@pytest.mark.parametrize(
    "value",
    [
        i.SamplingParams(),
        i.SamplingParams(top_p=np.float32(0.5), top_k=np.int32(3), temperature=2),  # type: ignore[arg-type]
        i.SamplingParamsInput(temperature=1),
        i.SamplingParamsGenerationConfigDefaults(top_p=1),
        i.AudioGenerationMetadata(duration=1, processing_time=2),
        i.SchedulerResult.cancelled(),
    ],
)
def test_whole_numbers_stay_what_they_are(value: Any) -> None:
    assert i.msgpack_eq(i.msgpack_numpy_decoder(type(value))(encode(value)), value)


def test_every_class_of_data_has_a_sample() -> None:
    protocols = {Protocol, inspect.Parameter}
    data = {
        name
        for name in i.__all__
        if isinstance(kind := getattr(i, name), type)
        and kind not in protocols
        and (hasattr(kind, "__dataclass_fields__") or issubclass(kind, msgspec.Struct))
    }
    # Arguments of functions in one process, with tensors; and a protocol instead of a class.
    inside = {"ProcessorInputs", "BatchProcessorInputs", "EmbeddingsGenerationInputs"}
    assert data - inside == {name.partition(" ")[0].partition(".")[0] for name in SAMPLES} - {
        "PipelineTask"
    }


@pytest.fixture(scope="module")
def other() -> Any:
    """A connection to a spawned process that decodes and encodes."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=other_process.echo, args=(there,))
    process.start()
    yield here
    here.send(None)
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("through_shared_memory", [False, True])
def test_every_class_goes_through_a_spawned_process(
    other: Any, through_shared_memory: bool
) -> None:
    before = segments()
    for kind, value in SAMPLES.values():
        encoder = i.msgpack_numpy_encoder(use_shared_memory=through_shared_memory)
        decoder = i.msgpack_numpy_decoder(kind)
        other.send((decoder, encoder, encoder(value)))
        assert other.poll(60)
        assert i.msgpack_eq(decoder(other.recv_bytes()), value)
    assert segments() == before


def test_codecs_can_be_pickled() -> None:
    decode = pickle.loads(pickle.dumps(i.msgpack_numpy_decoder(i.TextGenerationOutput)))
    again = pickle.loads(pickle.dumps(encode))
    assert decode(again(TEXT)) == TEXT


# ---------------------------------------------------------------- arrays
ARRAYS: list[npt.NDArray[Any]] = [
    np.array(3, np.int8),
    np.zeros((0, 4), np.float32),
    np.arange(24, dtype=">i4").reshape(2, 3, 4),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(20)[::-3],
    np.array([True, False]),
    np.array([np.nan, -0.0, np.inf], np.float16),
    np.array([1.5, -2], ml_dtypes.bfloat16),
    np.array([448, 0.5], ml_dtypes.float8_e4m3fn),
    np.array([2**64 - 1], np.uint64),
]


@pytest.mark.parametrize("through_shared_memory", [False, True])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_arrays(array: npt.NDArray[Any], copy: bool, through_shared_memory: bool) -> None:
    encoder = i.msgpack_numpy_encoder(use_shared_memory=through_shared_memory)
    for kind in (Any, dict[str, npt.NDArray[Any]]):
        back = i.msgpack_numpy_decoder(kind, copy=copy)(encoder({"x": array}))["x"]
        assert back.shape == array.shape
        assert back.dtype == array.dtype.newbyteorder("=")
        assert back.tobytes() == array.astype(back.dtype).tobytes()
        assert back.flags.owndata or not copy or back.base.flags.owndata
        assert back.flags.writeable or not copy
    assert not {name for name in segments() if f"-{os.getpid()}-" in name}


def test_views_of_a_message_cannot_be_written_to() -> None:
    back = i.msgpack_numpy_decoder(Any, copy=False)(encode(np.arange(3)))
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1


def test_an_array_of_another_kind_is_refused() -> None:
    decode = i.msgpack_numpy_decoder(i.EmbeddingsGenerationOutput)
    message = msgspec.msgpack.decode(encode(SAMPLES["EmbeddingsGenerationOutput"][1]))
    message["embeddings"] = np.arange(3)
    with pytest.raises(DocumentError, match="int64"):
        decode(encode(message))


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array(["a"]),
        np.zeros(1, "c8"),
        np.zeros(1, "M8[s]"),
        print,
        {"a": object()},
        2**64,
        -(2**63) - 1,
        i.SamplingParams(logits_processors=[print]),
        np.str_("a").dtype,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_sent_is_refused(value: Any) -> None:
    with pytest.raises(InputTypeError) as raised:
        encode(value)
    assert raised.value.code == "ML984"


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InputTypeError, match="recursion"):
        encode(value)


def test_a_tensor_says_how_it_can_be_sent() -> None:
    from maxlab.driver import Tensor

    with pytest.raises(InputTypeError, match="fix: send value.to_numpy()"):
        encode([Tensor.from_numpy(np.zeros(2, np.float32))])


def test_a_protocol_cannot_be_decoded() -> None:
    _, value = SAMPLES["TextGenerationInputs"]
    with pytest.raises(DocumentError, match="TextGenerationContext expected, which is a protocol"):
        i.msgpack_numpy_decoder(i.TextGenerationInputs)(encode(value))


def test_equality_of_messages_knows_no_order_of_sets_and_keys() -> None:
    assert i.msgpack_eq({"a": 1, "b": {8, 0}}, {"b": {0, 8}, "a": 1})
    assert not i.msgpack_eq(context("a"), context("b"))
    assert i.msgpack_eq(context("a"), context("a"))


@pytest.mark.parametrize("arguments", [(1,), (True, -1), (True, "x"), (True, True)])
def test_options_of_an_encoder(arguments: Any) -> None:
    with pytest.raises((InputError, InputTypeError)):
        i.msgpack_numpy_encoder(*arguments)


def test_a_type_that_messages_cannot_have() -> None:
    class Bad(msgspec.Struct):
        x: nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InputTypeError):
        i.msgpack_numpy_decoder(Bad)
    with pytest.raises(InputTypeError):
        i.msgpack_numpy_decoder(i.RequestID)("text")  # type: ignore[arg-type]


# ---------------------------------------------------------------- shared memory
def test_small_arrays_stay_in_the_message() -> None:
    encoder = i.msgpack_numpy_encoder(use_shared_memory=True, shared_memory_threshold=1000)
    before = segments()
    small = encoder(np.zeros(124))
    assert segments() == before
    large = encoder(np.zeros(125))
    assert len(segments() - before) == 1
    decode = i.msgpack_numpy_decoder(np.ndarray)
    assert decode(small).shape == (124,)
    assert decode(large).shape == (125,)
    assert segments() == before


def test_without_room_arrays_stay_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    before = segments()
    message = i.msgpack_numpy_encoder(use_shared_memory=True)(np.arange(5))
    assert segments() == before
    assert i.msgpack_numpy_decoder(np.ndarray)(message).tolist() == [0, 1, 2, 3, 4]


def test_a_segment_is_read_once() -> None:
    message = i.msgpack_numpy_encoder(use_shared_memory=True)(np.arange(5))
    decode = i.msgpack_numpy_decoder(np.ndarray)
    decode(message)
    with pytest.raises(DocumentError, match="gone") as raised:
        decode(message)
    assert raised.value.code == "ML985"


def test_the_documented_form_of_a_placeholder() -> None:
    there = shared.SharedMemoryArray.put(np.arange(3, dtype=np.int32))
    assert there is not None
    message = encode({"pixel_values": there})
    form = msgspec.msgpack.decode(message)["pixel_values"]
    assert form == {"__shm__": True, "name": there.name, "shape": [3], "dtype": "int32"}
    back = i.msgpack_numpy_decoder(dict[str, npt.NDArray[np.integer[Any]]])(message)
    assert back["pixel_values"].tolist() == [0, 1, 2]


def test_messages_can_name_no_other_memory(tmp_path: Path) -> None:
    decode = i.msgpack_numpy_decoder(npt.NDArray[Any])
    there = shared.SharedMemoryArray.put(np.arange(3))
    assert there is not None
    foreign = SHM / f"foreign-{os.getpid()}"
    foreign.write_bytes(bytes(24))
    try:
        for name in (foreign.name, f"../{tmp_path}/x", "", "maxlab-msg-1-x", "/etc/passwd", 3):
            form = {"__shm__": True, "name": name, "shape": [3], "dtype": "int64"}
            with pytest.raises(DocumentError):
                decode(encode(form))
        for shape in ([4], [2**62, 2**62], [-1], [0], "3", 3, [1] * 65):
            form = {"__shm__": True, "name": there.name, "shape": shape, "dtype": "int64"}
            with pytest.raises(DocumentError):
                decode(encode(form))
        assert foreign.exists()
    finally:
        foreign.unlink()
    assert there.take().tolist() == [0, 1, 2]


def test_user_data_cannot_name_shared_memory() -> None:
    form = {"__shm__": True, "name": "maxlab-msg-1-0123456789abcdef", "shape": [1], "dtype": "int8"}
    request = i.TextGenerationRequest(
        i.RequestID("a"), "m", prompt="x", chat_template_options={"x": form}
    )
    back = i.msgpack_numpy_decoder(i.TextGenerationRequest)(encode(request))
    assert back.chat_template_options == {"x": form}


def test_nothing_is_left_of_a_process_that_was_killed() -> None:
    before = segments()
    done = subprocess.run(
        [sys.executable, "-m", other_process.__name__],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
        timeout=120,
    )
    assert done.returncode == -9
    message = bytes.fromhex(done.stdout)  # all of it was written, and so was the segment
    # The pipe of standard error is closed by the tracker, last of all: it has done its work.
    shared.remove_orphans()
    assert segments() <= before
    with pytest.raises(DocumentError, match="gone"):
        i.msgpack_numpy_decoder(dict[str, np.ndarray])(message)


def test_only_segments_without_a_process_are_orphans() -> None:
    there = shared.SharedMemoryArray.put(np.arange(3))
    assert there is not None
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    orphan = f"maxlab-msg-{ended.pid}-0123456789abcdef"
    (SHM / orphan).write_bytes(b"x")
    assert orphan in shared.remove_orphans()
    assert there.take().tolist() == [0, 1, 2]


# ---------------------------------------------------------------- hostile messages
BATCHES, EACH = 200, 100
KINDS = [i.msgpack_numpy_decoder(kind) for kind, _ in SAMPLES.values()]
WRITTEN = [encode(value) for _, value in SAMPLES.values()]


def spoiled(message: bytes, random_: random.Random) -> bytes:
    """``message``, cut off, with changed bytes, or with a piece of itself put elsewhere."""
    data = bytearray(message)
    way = random_.randrange(4)
    if way == 0:
        return bytes(data[: random_.randrange(len(data))])
    if way == 1:
        for _ in range(random_.randint(1, 4)):
            data[random_.randrange(len(data))] = random_.randrange(256)
    elif way == 2:
        data[random_.randrange(len(data))] = random_.choice(
            b"\x80\x90\xc0\xc1\xc4\xc7\xc9\xcb\xcf\xd3\xd9\xdb\xdc\xdd\xde\xdf\xff"
        )
    else:
        start = random_.randrange(len(data))
        piece = data[start : start + random_.randint(1, 20)]
        at = random_.randrange(len(data))
        data[at:at] = piece
    return bytes(data)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_spoiled_message_is_refused_or_fits_its_type(batch: int) -> None:
    random_ = random.Random(batch)
    refused = 0
    for _ in range(EACH):
        which = random_.randrange(len(WRITTEN))
        kind = list(SAMPLES.values())[which][0]
        try:
            found = KINDS[which](spoiled(WRITTEN[which], random_))
        except DocumentError:
            refused += 1
        else:
            # What is accepted is whole: it can be written, and read again.
            again = i.msgpack_numpy_decoder(kind)(encode(found))
            assert i.msgpack_eq(again, found)
    assert refused > EACH // 4


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x91" * 100_000,
        b"\x81\xa1a" * 100_000,
        b"\xd9\x02\xff\xfe",
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\x01")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\xff\xff\x00")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(7, b"")),
        *(
            msgspec.msgpack.encode(
                msgspec.msgpack.Ext(1, bytes([len(head), 0]) + head + bytes(size))
            )
            for head, size in (
                (msgspec.msgpack.encode(("int64", [2**62, 2**62])), 8),
                (msgspec.msgpack.encode(("int64", [-1])), 8),
                (msgspec.msgpack.encode(("int64", [2])), 8),
                (msgspec.msgpack.encode(("object", [1])), 8),
                (msgspec.msgpack.encode(("int8", [1] * 65)), 1),
            )
        ),
    ],
    ids=lambda message: message[:8].hex(),
)
def test_messages_that_promise_what_they_have_not(message: bytes) -> None:
    for decode in (*KINDS, i.msgpack_numpy_decoder(Any)):
        with pytest.raises(DocumentError) as raised:
            decode(message)
        assert raised.value.code == "ML983"
