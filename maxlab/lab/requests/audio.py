"""Audio that a pipeline made: a player, and the waveform."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.engine.times import plural
from maxlab.interfaces import AudioGenerationOutput
from maxlab.interfaces.audio import MOST_RATE
from maxlab.interfaces.waves import wav
from maxlab.markup import escape

MOST_SAMPLES = 2_000_000
"""Samples that a player holds: 4 MB, or 83 s at 24 kHz."""
COLUMNS = 600
"""The most columns of a waveform."""
_HEIGHT, _HALF = 96, 44


def label(output: AudioGenerationOutput) -> str:
    """The heading of the view of an output: its length, and its state.

    Args:
        output: The output.

    Example:
        >>> from maxlab.interfaces import AudioGenerationMetadata, GenerationStatus
        >>> label(AudioGenerationOutput(
        ...     GenerationStatus.END_OF_SEQUENCE, 4, np.zeros(1200, np.float32),
        ...     metadata=AudioGenerationMetadata(sample_rate=8000)))
        'AudioGenerationOutput: 0.15 s at 8000 Hz, end of sequence'
    """
    of = output.metadata.request_id
    name = type(output).__name__ + ("" if of is None else f" {of.value!r}")
    rate, count = output.metadata.sample_rate, output.audio_data.size
    state = output.final_status.value.replace("_", " ")
    length = plural(count, "sample") if rate is None else f"{count / rate:.3g} s at {rate} Hz"
    return f"{name}: {length}, {state}"


def body(output: AudioGenerationOutput) -> str:
    """The player and the waveform of an output as a section; empty where it has no sample.

    Args:
        output: The output.
    """
    samples = output.audio_data.ravel()
    if not samples.size:
        return ""
    rate = output.metadata.sample_rate
    told = label(output)
    if rate is None:
        player = _faint("Its metadata has no sample_rate, so it cannot be played.")
    elif output.audio_data.ndim != 1 or rate >= MOST_RATE:
        player = _faint("It has several axes, or too large a sample_rate, and cannot be played.")
    else:
        player = _player(samples, rate, told)
    notes = "".join(map(_faint, _notes(samples)))
    return f"<section>{player}{_waveform(samples, rate, told)}{notes}</section>"


def _player(samples: npt.NDArray[np.float32], rate: int, told: str) -> str:
    held = base64.b64encode(wav(samples[:MOST_SAMPLES], rate)).decode()
    name = escape(told, quote=True)
    more = ""
    if len(samples) > MOST_SAMPLES:
        more = _faint(
            f"The player has the first {MOST_SAMPLES / rate:.3g} s; to_wav() of the output has all."
        )
    return (
        f'<audio controls preload="metadata" aria-label="{name}" '
        f'src="data:audio/wav;base64,{held}"></audio>{more}'
    )


def _waveform(samples: npt.NDArray[np.float32], rate: int | None, told: str) -> str:
    """The least and the largest sample of each column, with the ends of time below."""
    low, high = envelope(samples)
    peak = max(float(-low.min()), float(high.max()), 0.0)
    scale, middle = (_HALF / peak if peak else 0.0), _HEIGHT / 2
    count = len(low)
    top = [f"{n} {middle - scale * value:.1f}" for n, value in enumerate(high)]
    bottom = [f"{n + 1} {middle - scale * value:.1f}" for n, value in enumerate(low)]
    # The outline runs along the upper edges, and back along the lower ones.
    path = "M" + "L".join([*top, *reversed(bottom)]) + "Z"
    name = escape(f"waveform of {told}, peak {peak:.3g}", quote=True)
    end = f"{len(samples)}" if rate is None else f"{len(samples) / rate:.3g} s"
    return (
        f'<svg class="mx-rq-wave" viewBox="0 0 {count} {_HEIGHT}" width="100%" height="{_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{name}">'
        f'<line x1="0" y1="{middle:g}" x2="{count}" y2="{middle:g}" stroke="currentColor" '
        'stroke-opacity="0.35" vector-effect="non-scaling-stroke"></line>'
        f'<path d="{path}" fill="#4c8dd6" stroke="#4c8dd6" stroke-width="1" '
        'vector-effect="non-scaling-stroke"></path></svg>'
        f'<div class="mx-rq-time"><span>0</span><span>peak {peak:.3g}</span>'
        f"<span>{end}</span></div>"
    )


def envelope(
    samples: npt.NDArray[np.floating[Any]], columns: int = COLUMNS
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The least and the largest sample of each of at most ``columns`` columns, [columns] each.

    Samples that are no number count as 0.

    Args:
        samples: Samples of shape [samples], one or more.
        columns: The most columns.

    Example:
        >>> low, high = envelope(np.array([0.0, 1.0, -1.0, 0.5]), 2)
        >>> low.tolist(), high.tolist()
        ([0.0, -1.0], [1.0, 0.5])
    """
    count = min(columns, len(samples))
    starts = np.arange(count) * len(samples) // count
    known = np.nan_to_num(samples.astype(np.float64), nan=0.0, posinf=1.0, neginf=-1.0)
    return np.minimum.reduceat(known, starts), np.maximum.reduceat(known, starts)


def _notes(samples: npt.NDArray[np.float32]) -> list[str]:
    """Sentences about samples that are not finite, or that a player cuts off."""
    unknown = int(np.count_nonzero(~np.isfinite(samples)))
    loud = int(np.count_nonzero(np.abs(samples[np.isfinite(samples)]) > 1))
    found = []
    if unknown:
        found.append(f"{plural(unknown, 'sample')} not finite: NaN plays as silence.")
    if loud:
        found.append(f"{plural(loud, 'sample')} beyond -1 and 1, which the player cuts off there.")
    return found


def _faint(text: str) -> str:
    return f'<p class="mx-rq-faint">{escape(text)}</p>'


__all__ = ["body", "envelope", "label"]
