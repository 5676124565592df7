"""The network between clients and services: latency, loss, duplication, reordering.

Latencies come from a coarse grid (1 ms by default): continuous ones almost
never tie, which would leave a schedule nothing to decide. The draws of a
request depend on the seed, the client, the service and the number of the
request on that link, so that one more request elsewhere moves no other draw.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import NamedTuple

from lockref.errors import ConfigError
from lockref.ports import of_fields

_BILLION = 1_000_000_000
_WORDS = struct.Struct(">8I").unpack
MS = 1_000_000


class Draw(NamedTuple):
    """The network's treatment of one request: delays in nanoseconds, and losses.

    resend_ns: gap after which a duplicate of the request arrives; None: no duplicate.
    """

    to_service_ns: int
    to_client_ns: int
    is_request_lost: bool
    is_reply_lost: bool
    resend_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkModel:
    """The undisturbed network. Probabilities are per message, between 0 and 1.

    latency_ns: (lowest, highest) one-way latency, both included, rounded to the
        grid. grid_ns: 0 or 1 draws to the nanosecond. loss: a request, and
        independently a reply, vanishes. duplication: a request arrives twice.
        reorder: a message is held back by up to reorder_ns, so that later ones
        overtake it.
    """

    latency_ns: tuple[int, int] = (1 * MS, 5 * MS)
    grid_ns: int = MS
    loss: float = 0.0
    duplication: float = 0.0
    reorder: float = 0.0
    reorder_ns: int = 50 * MS

    def __post_init__(self) -> None:
        low, high = self.latency_ns
        if not 0 <= low <= high:
            raise ConfigError(f"network latency_ns is {self.latency_ns}; expected (lowest, highest), not negative")
        if self.grid_ns < 0 or self.reorder_ns < 0:
            raise ConfigError("network grid_ns and reorder_ns must not be negative")
        for name in ("loss", "duplication", "reorder"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"network {name} is {getattr(self, name)}; expected a probability from 0 to 1")

    @property
    def is_lossless(self) -> bool:
        """True if this network alone never disturbs a request beyond its latency."""
        return self.loss == self.duplication == self.reorder == 0.0


class Network:
    """The draws of one run."""

    __slots__ = ("_grid_ns", "_is_plain", "_keyed", "_low", "_span", "model")

    def __init__(self, model: NetworkModel, seed: int) -> None:
        self.model = model
        # Copied for each draw: to make a keyed hash anew takes half as long again.
        self._keyed = hashlib.blake2b(digest_size=32, key=f"{seed}/latency".encode()[-64:])
        self._grid_ns = max(1, model.grid_ns)
        low, high = model.latency_ns
        self._low = -(-low // self._grid_ns)
        self._span = max(0, high // self._grid_ns - self._low) + 1
        self._is_plain = model.is_lossless

    def heal(self) -> None:
        """From now on nothing is lost, doubled or held back."""
        self._is_plain = True

    def draw(self, client: str, service: str, number: int) -> Draw:
        """The fate of request `number` from `client` to `service`."""
        drawn = self._keyed.copy()
        drawn.update(f"{client}/{service}/{number}".encode())
        sizes, duplicated, reply_lost, request_lost, back_late, out_late, back_bits, out_bits = _WORDS(drawn.digest())
        grid, low, span = self._grid_ns, self._low, self._span
        assert span > 0, "between the lowest and the highest latency lies at least one"
        out = (low + out_bits % span) * grid
        back = (low + back_bits % span) * grid
        if self._is_plain:
            return of_fields(Draw, (out, back, False, False, None))
        model = self.model
        reorder_steps = model.reorder_ns // grid + 1
        if _chance(out_late) < model.reorder:
            out += (sizes & 0xFFFF) % reorder_steps * grid
        if _chance(back_late) < model.reorder:
            back += (sizes >> 16) % reorder_steps * grid
        is_duplicated = _chance(duplicated) < model.duplication
        resend = (low + (sizes & 0xFFFF ^ sizes >> 16) % span) * grid if is_duplicated else None
        return Draw(out, back, _chance(request_lost) < model.loss, _chance(reply_lost) < model.loss, resend)


def _chance(bits: int) -> float:
    """32 bits as a number from 0 to below 1."""
    return bits % _BILLION / _BILLION
