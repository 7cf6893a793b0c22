"""Threads and processes that open one cache while others build in it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from maxlab.toolchain.artefacts import Cache


def test_opening_while_builds_end(tmp_path: Path) -> None:
    """A build folder that vanishes while a cache is opened does not make the cache unusable."""
    root = tmp_path / "cache"
    Cache(root).build_dir()
    ended = threading.Event()

    def build() -> None:
        mine = root / "tmp"
        number = 0
        while not ended.is_set():
            number += 1
            folders = [mine / f"{threading.get_ident():x}.{number}.{n}" for n in range(20)]
            for folder in folders:
                folder.mkdir()
            for folder in folders:
                shutil.rmtree(folder)

    workers = [threading.Thread(target=build) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(300):
            cache = Cache(root)
            assert cache.build_dir().is_relative_to(root)
            assert cache.spare is None
    finally:
        ended.set()
        for worker in workers:
            worker.join()
