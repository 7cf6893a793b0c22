"""Sound as a WAV file: samples of 16 bits, as every player reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST = 32767
"""The number that a sample of 1 becomes."""


def as_samples(samples: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.int16]:
    """Samples as whole numbers of 16 bits: 1 becomes 32767, and -1 becomes -32767.

    Louder samples become these too, and those that are no number become 0.

    Args:
        samples: Floats of any shape.

    Example:
        >>> as_samples(np.array([0.5, -2.0, np.nan], np.float32)).tolist()
        [16384, -32767, 0]
    """
    known = np.nan_to_num(samples.astype(np.float64), nan=0.0, posinf=1.0, neginf=-1.0)
    return np.rint(np.clip(known, -1.0, 1.0) * LARGEST).astype(np.int16)


def wav(samples: npt.NDArray[np.floating[Any]], sample_rate: int) -> bytes:
    """A WAV file with one channel of 16-bit samples (RIFF, PCM).

    Args:
        samples: Floats of shape [samples]; see `as_samples`.
        sample_rate: Samples in a second.

    Example:
        >>> len(wav(np.zeros(10, np.float32), 8000))
        64
    """
    import io
    import wave

    written = io.BytesIO()
    with wave.Wave_write(written) as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(as_samples(samples).astype("<i2").tobytes())
    return written.getvalue()


__all__ = ["LARGEST", "as_samples", "wav"]
