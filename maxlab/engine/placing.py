"""Which devices of a session a graph or a plan names: `placed_of`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from maxlab.driver.device import Device
from maxlab.driver.virtual import names_host
from maxlab.errors import DeviceError, Location
from maxlab.ir.types import DeviceRef


def placed_of(
    places: Iterable[tuple[DeviceRef, str, Location | None]],
    name: str,
    devices: Sequence[Device],
) -> dict[DeviceRef, Device]:
    """Those of ``devices`` that ``places`` name, each by its name. Where there are no virtual CPUs,
    every CPU is the host, and is not among them.

    Args:
        places: Devices, what is on each in words, and the user's line that puts it there.
        name: Of the graph.
        devices: What there is.

    Raises:
        DeviceError: ML617, a device that is not among ``devices``.
    """
    known: Mapping[DeviceRef, Device] = {DeviceRef.from_device(d): d for d in devices}
    found: dict[DeviceRef, Device] = {}
    hosts: set[DeviceRef] = set()
    for place, what, at in places:
        if place in found or place in hosts:
            continue
        if names_host(place, devices):
            hosts.add(place)
            continue
        if place not in known:
            raise DeviceError(
                "ML617",
                f"the graph {name!r} puts {what} on {place}, and the session has "
                f"{', '.join(map(str, devices))}",
                at=at,
                fix=f"engine.InferenceSession(devices=[{place.driver_call}]), or build the graph "
                "with DeviceRef.CPU()",
            )
        found[place] = known[place]
    return found


__all__ = ["placed_of"]
