"""Acme's requests with the key of the environment."""

from __future__ import annotations

import os
from dataclasses import replace

from lockref.clouds.calls import HttpRequest, Place
from lockref.errors import ConfigError
from lockref.stores.address import StoreAddress


class AcmeSigner:
    """Signs for one vault, or a prefix of it. Errors: ConfigError without ACME_KEY."""

    def __init__(self, address: StoreAddress) -> None:
        self._key = os.environ.get("ACME_KEY", "")
        if not self._key:
            raise ConfigError(f"the store {address} has no credentials: set ACME_KEY")
        origin = address.endpoint or "https://vaults.acme.example"
        self.place = Place(origin=origin, container=address.container, prefix=address.key_prefix)

    def signed(self, request: HttpRequest) -> HttpRequest:
        """See `Signer`."""
        return replace(request, headers={**request.headers, "X-Acme-Key": self._key})
