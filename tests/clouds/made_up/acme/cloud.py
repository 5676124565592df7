"""Acme among the clouds."""

from __future__ import annotations

from functools import partial
from typing import Final

from lockref.clouds.cloud import Cloud, on_use
from lockref.stores.address import parse_bucket
from tests.clouds.made_up.acme import answers, facts, requests

_HERE: Final = "tests.clouds.made_up.acme"

ACME: Final = Cloud(
    name=facts.STATUSES.name,
    forms={"acme": facts.FORM},
    parse=partial(parse_bucket, form=facts.FORM, fault=facts.vault_fault, known=facts.OPTIONS),
    open_store=on_use(f"{_HERE}.client", "open_store"),
    create_container=on_use(f"{_HERE}.client", "create_container"),
    signer=on_use(f"{_HERE}.signing", "AcmeSigner"),
    protocol=(requests, answers),
    traffic=(requests, answers),
    readable=facts.READABLE,
    refusal=answers.write_refusal,
    title=facts.SERVICE,
    outcomes=facts.OUTCOMES,
    statuses=facts.STATUSES,
)
