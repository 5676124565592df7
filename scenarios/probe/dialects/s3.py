"""Amazon S3's REST interface, signed by botocore's own signer.

Addresses are path-style: every server knows them, and Amazon still answers them. A multipart completion and a copy may
answer 200 with an error in the body (aws-sdk-java-v2#6023), so the body decides.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import md5
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError

from lockref.clouds.answers import silence
from lockref.clouds.s3.answers import read_answer
from lockref.errors import ConfigError
from lockref.words import Outcome
from scenarios.probe.calls import (
    ABORT,
    BEGIN_UPLOAD,
    COMPLETE,
    COPY,
    DELETE,
    DELETE_VERSION,
    LIST,
    PART,
    PUT,
    READ,
    UPLOADS,
    VERSIONING,
    VERSIONS,
    Answer,
    Call,
    HttpReply,
    HttpRequest,
    Inexpressible,
    Refusals,
    WriteMode,
)  # fmt: skip
from scenarios.probe.dialects.preparation import COPYING, MULTIPART

if TYPE_CHECKING:
    from lockref.stores.uri import StoreAddress


_LISTED: Final = (LIST, UPLOADS, VERSIONS, VERSIONING, BEGIN_UPLOAD)
"""The requests whose answers are read further: they hold names, or the id of an upload."""


class S3Dialect:
    """One bucket, or a prefix of it.

    Errors: ConfigError for a configuration of AWS that cannot be used, such as one without credentials.
    """

    name = "s3"
    refusals = Refusals(exists=412, stale=412, absent=404, delete_absent=404)
    modes: tuple[WriteMode, ...] = (
        WriteMode(clause="C13", name=MULTIPART, can_race=True),
        WriteMode(clause="C14", name=COPYING),
    )
    # Servers that are told to check a sum have the whole body in their hands between the check and the write.
    amplifiers: tuple[tuple[tuple[str, str], ...], ...] = ((("x-amz-sdk-checksum-algorithm", "SHA256"),),)

    def __init__(self, address: StoreAddress) -> None:
        from lockref.clouds.aws import aws_client, aws_session

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
        self.origin = str(client.meta.endpoint_url).rstrip("/")
        self._signer = S3SigV4Auth(found.get_frozen_credentials(), "s3", client.meta.region_name or "us-east-1")
        self._bucket = address.container
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        client.close()

    def form(self, call: Call) -> HttpRequest:
        method, query, headers, body = self._parts(call)
        path = f"/{self._bucket}"
        if call.key and call.verb not in (LIST, UPLOADS, VERSIONS):
            path += "/" + quote(self._prefix + call.key, safe="/-_.~")
        # Every value is quoted once, as the signature has it.
        target = f"{path}?{urlencode(query, quote_via=quote, safe='-_.~')}" if query else path
        host = urlsplit(self.origin).netloc
        request = AWSRequest(method=method, url=f"{self.origin}{target}", data=body, headers={"Host": host, **headers})
        self._signer.add_auth(request)
        signed = {**dict(request.headers.items()), "Content-Length": str(len(body))}
        return HttpRequest(method=method, target=target, headers=signed, body=body)

    def _parts(self, call: Call) -> tuple[str, list[tuple[str, str]], dict[str, str], bytes]:
        """Method, query, headers and body."""
        headers = dict(call.headers) | _conditions(call)
        if call.mode:
            raise Inexpressible(call.mode)
        if call.verb == READ:
            return "GET", [], headers, b""
        if call.verb == PUT:
            # A bucket with object lock takes no body without a sum.
            told = b64encode(md5(call.body, usedforsecurity=False).digest()).decode()
            return "PUT", [], {"Content-Type": "application/octet-stream", "Content-MD5": told, **headers}, call.body
        if call.verb == DELETE:
            return "DELETE", [], headers, b""
        if call.verb == DELETE_VERSION:
            return "DELETE", [("versionId", call.version)], headers, b""
        if call.verb == COPY:
            source = f"/{self._bucket}/" + quote(self._prefix + call.source, safe="/-_.~")
            return "PUT", [], {"x-amz-copy-source": source, **headers}, b""
        if call.verb == BEGIN_UPLOAD:
            return "POST", [("uploads", "")], headers, b""
        if call.verb == PART:
            return "PUT", [("partNumber", "1"), ("uploadId", call.upload)], headers, call.body
        if call.verb == COMPLETE:
            return "POST", [("uploadId", call.upload)], {"Content-Type": "text/xml", **headers}, _manifest(call.parts)
        if call.verb == ABORT:
            return "DELETE", [("uploadId", call.upload)], headers, b""
        under = ("prefix", self._prefix + call.key)
        if call.verb == LIST:
            return "GET", [("list-type", "2"), under], headers, b""
        if call.verb == UPLOADS:
            return "GET", [under, ("uploads", "")], headers, b""
        if call.verb == VERSIONS:
            return "GET", [under, ("versions", "")], headers, b""
        if call.verb == VERSIONING:
            return "GET", [("versioning", "")], headers, b""
        raise Inexpressible(call.verb)

    def answer(self, call: Call, reply: HttpReply) -> Answer:
        found = read_answer(call.question, reply.status, reply.headers, reply.body)
        try:
            details = self._details(call, reply.body) if found.outcome is Outcome.APPLIED else {}
        except ElementTree.ParseError:
            found, details = silence(Outcome.AMBIGUOUS, "a success that cannot be read", status=reply.status), {}
        return Answer.of(found, status=reply.status, body=reply.body if call.verb == READ else None, **details)

    def _details(self, call: Call, body: bytes) -> dict[str, Any]:
        if call.verb not in _LISTED:
            return {}
        root = ElementTree.fromstring(body)
        if call.verb == BEGIN_UPLOAD:
            return {"upload": _find(root, "UploadId")}
        if call.verb == VERSIONING:
            return {"entries": (("status", _find(root, "Status")),)}
        kinds = {
            LIST: (("Contents",), "ETag"),
            UPLOADS: (("Upload",), "UploadId"),
            VERSIONS: (("Version", "DeleteMarker"), "VersionId"),
        }
        wanted, told = kinds[call.verb]
        found = [child for child in root if _local(child.tag) in wanted]
        cut = len(self._prefix)
        return {"entries": tuple((_find(each, "Key")[cut:], _find(each, told)) for each in found)}


def _conditions(call: Call) -> dict[str, str]:
    named = {
        "If-Match": call.match,
        "If-None-Match": call.none_match,
        "x-amz-copy-source-if-match": call.source_match,
    }
    return {name: value for name, value in named.items() if value is not None}


def _manifest(parts: tuple[str, ...]) -> bytes:
    inside = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag.replace('&', '&amp;')}</ETag></Part>"
        for number, etag in enumerate(parts, 1)
    )
    return (
        f'<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inside}</CompleteMultipartUpload>'
    ).encode()


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _find(element: ElementTree.Element, name: str) -> str:
    """The text of the first descendant of that name, whatever its namespace; "" for none."""
    return next((each.text or "" for each in element.iter() if _local(each.tag) == name), "")
