"""S3's requests, signed by botocore's own signer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.auth import S3SigV4Auth
from botocore.exceptions import BotoCoreError

from lockref.clouds.aws import aws_client, aws_session, signed_by
from lockref.clouds.calls import HttpRequest, Place
from lockref.errors import ConfigError

if TYPE_CHECKING:
    from lockref.stores.address import StoreAddress


class S3Signer:
    """Signs for one bucket, or a prefix of it.

    Errors: the constructor raises ConfigError for a configuration of AWS that cannot be used, such as one without
    credentials.
    """

    def __init__(self, address: StoreAddress) -> None:
        try:
            session = aws_session(address.endpoint)
            found = session.get_credentials()
            client = aws_client(
                "s3", endpoint=address.endpoint, region=address.region, request_timeout_ns=10**9, pool_size=1,
                session=session,
            )  # fmt: skip
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(f"the store {address} cannot be opened with this AWS configuration: {error}") from error
        if found is None:
            raise ConfigError(f"the store {address} has no AWS credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID")
        self.place = Place(
            origin=str(client.meta.endpoint_url).rstrip("/"), container=address.container, prefix=address.key_prefix
        )
        self._signer = S3SigV4Auth(found.get_frozen_credentials(), "s3", client.meta.region_name or "us-east-1")
        client.close()

    def signed(self, request: HttpRequest) -> HttpRequest:
        """See `Signer`."""
        return signed_by(self._signer, self.place.origin, request)
