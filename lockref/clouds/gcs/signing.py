"""Google Cloud Storage's requests with an access token. Only Google's own service gets one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lockref.clouds.calls import HttpRequest, Place, Unsigned
from lockref.errors import ConfigError

if TYPE_CHECKING:
    from google.auth.exceptions import GoogleAuthError

    from lockref.stores.address import StoreAddress

_GOOGLE: Final = "https://storage.googleapis.com"
SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"


def without_credentials(address: StoreAddress, error: GoogleAuthError) -> ConfigError:
    """The error of a store at Google's own service for which no credentials are found."""
    return ConfigError(
        f"the store {address} has no Google credentials ({type(error).__name__}); "
        "set GOOGLE_APPLICATION_CREDENTIALS or add ?endpoint="
    )


class GcsSigner:
    """Signs for one bucket, or a prefix of it.

    Errors: the constructor raises ConfigError where the cloud itself is meant and no credentials are found.
    """

    def __init__(self, address: StoreAddress) -> None:
        self._credentials: Any = None
        if not address.endpoint:
            # An emulator gets no credentials, and its probe does not wait for Google's libraries.
            import google.auth
            from google.auth.exceptions import GoogleAuthError

            try:
                self._credentials = google.auth.default(scopes=[SCOPE])[0]
            except GoogleAuthError as error:
                raise without_credentials(address, error) from error
        self.place = Place(origin=address.endpoint or _GOOGLE, container=address.container, prefix=address.key_prefix)

    def signed(self, request: HttpRequest) -> HttpRequest:
        """See `Signer`."""
        if self._credentials is None:
            return request
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        sent = dict(request.headers)
        path = request.target.partition("?")[0]
        try:
            self._credentials.before_request(Request(), request.method, self.place.origin + path, sent)
        except GoogleAuthError as error:
            # The access token has expired, and no new one can be fetched.
            raise Unsigned(str(error)) from error
        return HttpRequest(method=request.method, target=request.target, headers=sent, body=request.body)
