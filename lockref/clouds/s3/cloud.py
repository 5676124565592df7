"""S3 among the clouds, and the other servers that speak it in a dialect of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from lockref.clouds.cloud import Cloud, on_use
from lockref.clouds.s3 import facts, requests
from lockref.clouds.s3.answers import Answers
from lockref.clouds.s3.facts import AMAZON, Dialect
from lockref.stores.address import StoreAddress, parse_bucket
from lockref.stores.port import ObjectStore

_CLIENT: Final = "lockref.clouds.s3.client"
_MODULES: Final = dict(zip(facts.CLIENTS, (_CLIENT, "lockref.clouds.s3.obstore_client"), strict=True))
"""By the name of a client, the module with a store that is reached through it."""


def speaking(dialect: Dialect) -> Cloud:
    """The servers that speak S3 in this dialect."""
    answers = Answers(dialect)
    return Cloud(
        name=dialect.statuses.name,
        forms={dialect.scheme: dialect.form},
        parse=partial(
            parse_bucket,
            form=dialect.form,
            fault=facts.bucket_fault,
            known=facts.OPTIONS,
            clients=facts.CLIENTS,
        ),
        open_store=partial(_open_store, dialect),
        create_container=on_use(_CLIENT, "create_container"),
        signer=on_use("lockref.clouds.s3.signing", "S3Signer"),
        protocol=(requests, answers),
        traffic=(requests, answers),
        readable=replace(facts.READABLE, headers=facts.READABLE.headers | dialect.marks),
        refusal=answers.write_refusal,
        title=dialect.title,
        outcomes=dialect.outcomes,
        statuses=dialect.statuses,
        modes=facts.MODES,
        amplifiers=facts.AMPLIFIERS,
        domains=facts.DOMAINS,
        clients=facts.CLIENTS,
    )


def _open_store(dialect: Dialect, address: StoreAddress, request_timeout_ns: int, pool_size: int) -> ObjectStore:
    """The store at an address, through the client that it names. See `Cloud.open_store`."""
    module = _MODULES[address.client or facts.CLIENTS[0]]
    opened: ObjectStore = on_use(module, "open_store", dialect)(address, request_timeout_ns, pool_size)
    return opened


S3: Final = speaking(AMAZON)
