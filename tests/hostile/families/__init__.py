"""Every family of hostile input, in the order in which they run."""

from __future__ import annotations

from tests.hostile.families import (
    arguments,
    dims,
    graph_text,
    inputs,
    kernel_text,
    messages,
    names,
    paths,
    recordings,
    settings,
    weight_files,
)
from tests.hostile.harness import Family

FAMILIES: tuple[Family, ...] = (
    *graph_text.FAMILIES,
    *weight_files.FAMILIES,
    *recordings.FAMILIES,
    *names.FAMILIES,
    *dims.FAMILIES,
    *inputs.FAMILIES,
    *messages.FAMILIES,
    *settings.FAMILIES,
    *kernel_text.FAMILIES,
    *arguments.FAMILIES,
    *paths.FAMILIES,
)
