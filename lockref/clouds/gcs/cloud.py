"""Google Cloud Storage among the clouds."""

from __future__ import annotations

from functools import partial
from typing import Final

from lockref.clouds.cloud import Cloud, on_use
from lockref.clouds.gcs import answers, facts, requests
from lockref.stores.address import parse_bucket

_CLIENT: Final = "lockref.clouds.gcs.client"

GCS: Final = Cloud(
    name=facts.STATUSES.name,
    forms={"gs": facts.FORM},
    parse=partial(parse_bucket, form=facts.FORM, fault=facts.bucket_fault, known=facts.OPTIONS),
    open_store=on_use(_CLIENT, "open_store"),
    create_container=on_use(_CLIENT, "create_container"),
    signer=on_use("lockref.clouds.gcs.signing", "GcsSigner"),
    protocol=(requests, answers),
    traffic=(requests, answers),
    readable=facts.READABLE,
    refusal=answers.write_refusal,
    title=facts.SERVICE,
    outcomes=facts.OUTCOMES,
    statuses=facts.STATUSES,
    modes=facts.MODES,
    domains=facts.DOMAINS,
    clients=("google-cloud-storage",),
)
