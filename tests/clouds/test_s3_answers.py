"""What an answer of S3 means where it depends on the question."""

from __future__ import annotations

import pytest

from lockref.clouds.answers import A_DELETE, A_READ, SOMETHING_ELSE, Question
from lockref.clouds.s3.answers import Answers
from lockref.clouds.s3.facts import AMAZON
from lockref.words import Outcome


@pytest.mark.parametrize(
    ("question", "expected", "is_absent"),
    [
        (A_READ, Outcome.APPLIED, True),
        (A_DELETE, Outcome.PRECONDITION_FAILED, True),
        (SOMETHING_ELSE, Outcome.REJECTED, False),
    ],
)
def test_a_404_without_a_body_means_the_object_where_one_was_named(
    question: Question, expected: Outcome, is_absent: bool
) -> None:
    """C5: a listing or a part of an upload names no object, so what is missing there is the bucket or the upload."""
    found = Answers(AMAZON).read_answer(question, 404, {}, b"")
    assert (found.outcome, found.is_absent) == (expected, is_absent)
