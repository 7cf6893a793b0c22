"""NVIDIA GPUs: the backend of `driver.backend` that stands on PyCUDA.

``backend`` is the one object that others need. Importing it imports neither PyCUDA nor NVIDIA's
libraries; the first question to it (`CudaBackend.count`) does.
"""

from __future__ import annotations

from maxlab.driver.cuda.backend import CudaBackend, backend

__all__ = ["CudaBackend", "backend"]
