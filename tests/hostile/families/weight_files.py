"""Weight files of three formats, changed byte by byte."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.graph.test_weights_hostile import SAMPLES, use
from tests.hostile.harness import Case, Family, mutated

_made: dict[str, bytes] = {}


def _family(suffix: str, count: int) -> Family:
    def ready() -> None:
        _made[suffix] = SAMPLES[suffix]()

    def read(content: bytes, words: str) -> Case:
        def run(folder: Path) -> None:
            file = folder / f"weights.{suffix}"
            file.write_bytes(content)
            use(file)

        return Case(f"a .{suffix} file {words}", run)

    def draw(random: Random) -> Case:
        whole = _made[suffix]
        if random.random() < 0.1:
            cut = random.randrange(len(whole))
            return read(whole[:cut], f"cut after {cut} bytes")
        content = mutated(whole, random)
        return read(content, f"of {len(content)} bytes, changed")

    seeds = [
        read(content, f"that is {content[:30]!r}")
        for content in (b"", b"\0", b"PK", b"GGUF", b"{}", b"\xff" * 64, b"[" * 100_000)
    ]
    seeds += [
        read(b"\x08" + bytes(7) + b'{"a":1}}', "with a header of numbers"),
        read((1 << 62).to_bytes(8, "little") + b"{}", "with a header of 2**62 bytes"),
        read((100_000).to_bytes(8, "little") + b"[" * 100_000, "with a header that is deep"),
    ]
    return Family(f"weights_{suffix}", seeds, draw, count, ready, memory=128 << 20)


FAMILIES = (_family("safetensors", 4000), _family("gguf", 4000), _family("pt", 4000))
