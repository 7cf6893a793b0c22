"""Which texts of graphs this user has trusted: signatures, in the store that notebooks use.

The kernels of users in a document are a program. What this user saved, or said to trust, is signed
with the secret that Jupyter keeps for notebooks, byte for byte; a text with another byte has no
signature. Where there is no such store, nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxlab import trace
from maxlab.ir import Function, Op
from maxlab.opset.custom import DECLARED, OPS, trust

ALGORITHM = "maxlab-sha256"
"""Keeps our signatures apart from those of notebooks, in the column for the algorithm."""

_PREFIX = b"maxlab.document\n"


def kernels_of(function: Function) -> list[Op]:
    """The operations of ``function`` and its subgraphs that have kernels of users."""
    found = [op for op in function.walk() if op.name in OPS]
    for subgraph in function.subgraphs.values():
        found += kernels_of(subgraph)
    return found


def is_declared(function: Function) -> bool:
    """Whether the kernels of users in ``function`` are compiled in this process; also where it has
    none."""
    return all(op.attrs["source"] in DECLARED for op in kernels_of(function))


def remember(text: str, function: Function) -> None:
    """Signs ``text``, the text of ``function``, if it has kernels of users and all are trusted."""
    if not kernels_of(function) or not is_declared(function):
        return
    with _notary() as notary:
        if notary is not None:
            notary.store.store_signature(_digest(notary, text), ALGORITHM)


def recall(text: str, function: Function) -> None:
    """Trusts the kernels of users in ``function`` if its ``text`` was signed by this user."""
    if is_declared(function):
        return
    is_signed = False
    with _notary() as notary:
        if notary is not None:
            is_signed = notary.store.check_signature(_digest(notary, text), ALGORITHM)
    if is_signed:
        trust(function)


def _digest(notary: Any, text: str) -> str:
    import hashlib
    import hmac

    return hmac.new(notary.secret, _PREFIX + text.encode(), hashlib.sha256).hexdigest()


@contextmanager
def _notary() -> Iterator[Any]:
    """Jupyter's notary of notebooks with its store open; None where there is none."""
    notary: Any = None
    try:
        from jupyter_core.paths import jupyter_data_dir
        from nbformat import sign

        folder = Path(jupyter_data_dir())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made: Any = sign.NotebookNotary
        notary = made(data_dir=str(folder))
    except Exception as error:  # trust is not remembered; everything else goes on
        trace.emit("warning", "signing", message=str(error))
    try:
        yield notary
    except Exception as error:  # a full disk, a locked store: the same
        trace.emit("warning", "signing", message=str(error))
    finally:
        if notary is not None:
            notary.store.close()


__all__ = ["is_declared", "kernels_of", "recall", "remember"]
