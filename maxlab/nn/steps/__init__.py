"""Steps of a model that runs, by layer: attention by head, the load of experts, pages and adapters;
recorded as it happens, kept in a file, and shown.

``recorder``   ``StepRecorder``, the hook that puts the recording into a graph
``recording``  ``StepRecording``, the steps of a process or of a file
``attention``  ``SeenAttention``: heads by keys, and the mask
``experts``    ``SeenExperts``: tokens by expert, a row for each layer
``pages``      ``SeenPages``: the pages of sequences
``adapters``   ``SeenAdapters``: rows by adapter
``packing``    arrays as values of JSON
``drawing``    what their pictures share
"""

from __future__ import annotations

from maxlab.nn.steps.adapters import SeenAdapters
from maxlab.nn.steps.attention import SeenAttention
from maxlab.nn.steps.experts import SeenExperts, SentTokens
from maxlab.nn.steps.pages import SeenPages
from maxlab.nn.steps.recorder import StepRecorder
from maxlab.nn.steps.recording import Step, StepRecording

__all__ = [
    "SeenAdapters",
    "SeenAttention",
    "SeenExperts",
    "SeenPages",
    "SentTokens",
    "Step",
    "StepRecorder",
    "StepRecording",
]
