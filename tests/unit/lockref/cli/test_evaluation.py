"""What an evaluation ends with, what its stores are called, who pays, and how far it has come."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lockref.cli.jobs.evaluation.evaluating import _names, code_of_advice
from lockref.cli.jobs.evaluation.steps import EvaluatedStore, Progress, priced
from lockref.cli.jobs.shown.console import Console
from lockref.runtime import NS_PER_S
from reports.comparison.advice import Advice
from reports.comparison.carrying import NO, NOT_REACHED, UNKNOWN
from reports.comparison.standing import Standing, Struck
from reports.comparison.store_runs import NOT_LIVE, STARVED, VIOLATED
from scenarios.evaluation.prices import load_prices
from tests.unit.reports.comparison.test_advice import crowd, store

MISSED = (("wait.p50 < 1s", "violated", "2.000 s over 9 samples"),)


def asked(*codes: int) -> EvaluatedStore:
    return EvaluatedStore(uri="memory:", name="memory:", folder=SimpleNamespace(), codes=list(codes))


def ended(*stores: tuple[Standing, EvaluatedStore], take: tuple[str, ...] = ()) -> int:
    advice = Advice(take=take, serves=(), headline="", reasons=(), notes=())
    return code_of_advice([one for one, _ in stores], advice, [own for _, own in stores])


@pytest.mark.parametrize(
    ("stores", "take", "code"),
    [
        ([(store("a"), asked())], ("a",), 0),
        ([(store("a"), asked()), (store("b", carries=NOT_REACHED, crowds=()), asked(5))], ("a",), 0),
        ([(store("a"), asked()), (store("b", crowds=(crowd(word=VIOLATED),)), asked())], ("a",), 1),
        ([(store("a", struck=(Struck(scenario="e12", kinds=(), word=VIOLATED),)), asked())], (), 1),
        ([(store("a", carries=NOT_REACHED, crowds=()), asked(5))], (), 5),
        ([(store("a", carries=NO, crowds=()), asked(1)), (store("b", carries=NOT_REACHED), asked(5))], (), 1),
        ([(store("a", carries=NO, crowds=()), asked(3))], (), 3),
        ([(store("a", crowds=(crowd(limits=MISSED),)), asked())], (), 4),
        (
            [(store("a", crowds=(crowd(limits=MISSED),)), asked()), (store("b", carries=UNKNOWN), asked())],
            (),
            3,
        ),
        ([(store("a", crowds=(crowd(word=NOT_LIVE),)), asked())], (), 4),
        ([(store("a", crowds=(crowd(word=STARVED, served=3),)), asked())], (), 3),
        ([(store("a", ended="a worker died"), asked(5))], (), 5),
    ],
)
def test_the_exit_code_is_that_of_the_advice(
    stores: list[tuple[Standing, EvaluatedStore]], take: tuple[str, ...], code: int
) -> None:
    """A broken lock first; then whether a store is advised; then why none is."""
    assert ended(*stores, take=take) == code


def test_stores_are_called_by_name_and_not_by_port() -> None:
    """An endpoint is told only of two stores that nothing else tells apart."""
    one, other = "s3://lake?endpoint=http://127.0.0.1:9000", "s3://lake?endpoint=http://127.0.0.1:9001"
    assert list(_names(["ministack", one]).values()) == ["ministack", "s3://lake"]
    assert list(_names([one, other]).values()) == [
        "s3://lake at http://127.0.0.1:9000",
        "s3://lake at http://127.0.0.1:9001",
    ]


@pytest.mark.parametrize(
    ("uri", "stands_on", "bill", "service"),
    [
        ("ministack", "object_store", "emulator", "Amazon S3"),
        ("ministack", "table", "emulator", "Amazon DynamoDB"),
        ("azurite", "object_store", "emulator", "Azure"),
        ("s3://lake", "object_store", "cloud", "Amazon S3"),
        ("gs://lake", "object_store", "cloud", "Google"),
        ("dynamodb://locks", "table", "cloud", "Amazon DynamoDB"),
        ("s3://lake?endpoint=http://127.0.0.1:9000", "object_store", "emulator", "Amazon S3"),
        ("s3://lake?endpoint=https://minio.example:9000", "object_store", "other", "Amazon S3"),
        ("memory:", "object_store", "none", ""),
    ],
)
def test_who_sends_a_bill(uri: str, stands_on: str, bill: str, service: str) -> None:
    """A cloud by its list price; an emulator costs nothing; of somebody's own server nobody knows."""
    own = EvaluatedStore(uri=uri, name=uri, folder=SimpleNamespace())
    found = priced(own, load_prices(), stands_on=stands_on)
    assert found.bill == bill
    assert (found.price.service if found.price else "").startswith(service)
    assert (found.price is None) == (not service)


def test_the_rest_is_told_by_what_steps_of_a_kind_took() -> None:
    """Planned at 10 s each; one took 30 s, so the two others of its kind will; a skipped one says nothing."""
    progress = Progress(Console({"quiet": True}), [("run", 10 * NS_PER_S)] * 3 + [("probe", 5 * NS_PER_S)])
    assert progress.left_ns() == 35 * NS_PER_S
    progress.end(took_ns=30 * NS_PER_S, is_skipped=False)
    assert progress.left_ns() == 65 * NS_PER_S
    progress.end(took_ns=0, is_skipped=True)
    assert progress.left_ns() == 35 * NS_PER_S
