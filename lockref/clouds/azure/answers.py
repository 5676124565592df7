"""The answers of Azure Blob Storage, read from their bytes. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping

from lockref.clouds.answers import Answered, Question, decide
from lockref.clouds.azure.facts import OUTCOMES, SERVICE
from lockref.clouds.grammar import code_word
from lockref.clouds.statuses import classify, error_code


def read_answer(question: Question, status: int, headers: Mapping[str, str], body: bytes) -> Answered:
    """The meaning of an answer. headers: by their names in lower case; one of them names the error."""
    code = code_word(headers.get("x-ms-error-code", ""))
    if status >= 300 and not code:
        code = error_code(body)
    row = classify(OUTCOMES, status, code)
    return decide(row, question, status=status, code=code, version=headers.get("etag", ""), service=SERVICE)
