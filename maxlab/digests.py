"""`blake2b`, the digest by which maxlab names what it keeps.

It is that of ``hashlib``, which brings in OpenSSL, 2 ms of each start, for digests of other kinds.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python that is built without it
    from hashlib import blake2b

__all__ = ["blake2b"]
