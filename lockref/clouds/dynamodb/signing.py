"""DynamoDB's requests, signed by botocore's own signer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.auth import SigV4Auth
from botocore.exceptions import BotoCoreError, ClientError

from lockref.clouds.aws import NO_ANSWER, aws_session, explain, signed_by, status_and_code
from lockref.clouds.calls import HttpRequest, Place
from lockref.clouds.dynamodb.client import attribute_types, key_schema, make_client
from lockref.clouds.dynamodb.facts import OUTCOMES
from lockref.clouds.statuses import classify, reason_text
from lockref.errors import BackendUnavailable, ConfigError
from lockref.runtime import NS_PER_S

if TYPE_CHECKING:
    from lockref.stores.address import StoreAddress

_DESCRIBE_NS: Final = 5 * NS_PER_S


class DynamoSigner:
    """Signs for one table whose key is one attribute of type S, whatever it is called. The table is asked for it.

    Errors: the constructor raises ConfigError for a configuration of AWS that cannot be used, and for a table with
    another key; BackendUnavailable where there is no table, or no answer.
    """

    def __init__(self, address: StoreAddress) -> None:
        try:
            session = aws_session(address.endpoint)
            found = session.get_credentials()
            client = make_client(
                endpoint=address.endpoint, region=address.region, request_timeout_ns=_DESCRIBE_NS,
                pool_size=1, session=session,
            )  # fmt: skip
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(f"the table {address} cannot be opened with this AWS configuration: {error}") from error
        if found is None:
            raise ConfigError(f"the table {address} has no AWS credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID")
        origin = str(client.meta.endpoint_url).rstrip("/")
        self._signer = SigV4Auth(found.get_frozen_credentials(), "dynamodb", client.meta.region_name or "us-east-1")
        try:
            key_attribute = _key_of(client, address)
        finally:
            client.close()
        self.place = Place(origin=origin, container=address.container, key_attribute=key_attribute)

    def signed(self, request: HttpRequest) -> HttpRequest:
        """See `Signer`."""
        return signed_by(self._signer, self.place.origin, request)


def _key_of(client: Any, address: StoreAddress) -> str:
    """The name of the table's key attribute."""
    try:
        described = client.describe_table(TableName=address.container).get("Table", {})
    except ClientError as error:
        status, code = status_and_code(error)
        told = reason_text(classify(OUTCOMES, status, code).why, status, code)
        raise BackendUnavailable(f"{address} cannot be used: {told}") from None
    except NO_ANSWER as error:
        raise BackendUnavailable(f"{address} does not answer: {explain(error)[1]}") from None
    types = attribute_types(described)
    keys = [name for name, _kind in key_schema(described)]
    if len(keys) != 1 or types.get(keys[0]) != "S":
        shown = ", ".join(f"{name} ({types.get(name, '?')})" for name in keys)
        raise ConfigError(f"{address} has the key {shown}; the probe needs a table with one key attribute of type S")
    return keys[0]
