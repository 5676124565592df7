"""S3's requests, signed by botocore's own signer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.auth import S3SigV4Auth
from botocore.exceptions import BotoCoreError
from botocore.utils import validate_region_name

from lockref.clouds.aws import LOOPBACK_REGION, aws_client, aws_session, signed_by
from lockref.clouds.calls import HttpRequest, Place
from lockref.errors import ConfigError

if TYPE_CHECKING:
    from boto3.session import Session

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
            origin, region = origin_and_region(address.endpoint, address.region, session)
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(f"the store {address} cannot be opened with this AWS configuration: {error}") from error
        if found is None:
            raise ConfigError(f"the store {address} has no AWS credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID")
        self.place = Place(origin=origin.rstrip("/"), container=address.container, prefix=address.key_prefix)
        self._signer = S3SigV4Auth(found.get_frozen_credentials(), "s3", region)

    def signed(self, request: HttpRequest) -> HttpRequest:
        """See `Signer`."""
        return signed_by(self._signer, self.place.origin, request)


def origin_and_region(endpoint: str, region: str, session: Session) -> tuple[str, str]:
    """The origin that requests for a bucket go to, and the region that they are signed for.

    endpoint, region: of the store's URI; "" for what boto3 takes from the environment and the configuration.
    Errors: botocore's own for a region that is none.
    """
    if endpoint:
        # What a client of the SDK says, too. To make one reads all that botocore knows of S3: a quarter of a second.
        region = region or session.region_name or LOOPBACK_REGION
        validate_region_name(region)
        return endpoint, region
    client = aws_client("s3", endpoint="", region=region, request_timeout_ns=10**9, pool_size=1, session=session)
    try:
        return str(client.meta.endpoint_url), client.meta.region_name or LOOPBACK_REGION
    finally:
        client.close()
