"""Spans of the user's own code, beside those of models and the compiler on every timeline.

Spans are recorded only while profiling is on: from the start with ``MAXLAB_ENABLE_PROFILING=1``, or
between ``enable()`` and ``enable(False)``. While it is off, a span costs a look at one variable.
They land in the event stream (``maxlab.trace``), from which ``profile.timeline`` and
``maxlab.analysis.timeline`` draw them.

Example:
    >>> from maxlab import profiler, trace
    >>> before = profiler.enable()
    >>> with profiler.Tracer("request") as tracer:
    ...     tracer.push("tokenize")
    ...     tracer.next("run")
    >>> [event.name for event in trace.recorder().events("python")[-3:]]
    ['tokenize', 'run', 'request']
    >>> profiler.enable(before)
    True
"""

from __future__ import annotations

from maxlab.profiler.tracing import Tracer, enable, is_enabled, traced

__all__ = ["Tracer", "enable", "is_enabled", "traced"]
