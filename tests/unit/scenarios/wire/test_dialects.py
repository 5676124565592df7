"""What requests and answers mean, by cloud."""

from __future__ import annotations

import json

import pytest

from lockref.clouds.s3.requests import unchunked
from lockref.clouds.traffic import BODY_KEPT_MAX, Exchange, ObjectReply, ObjectRequest
from lockref.words import IF_ABSENT, Op, Outcome
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.reading.dialect import dialect_of


def exchange(request: str, body: bytes = b"", answer: str = "", answer_body: bytes = b"", **headers: str) -> Exchange:
    """One exchange, read from its bytes."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"{request} HTTP/1.1", "Host: h", f"Content-Length: {len(body)}", *lines])
    talk = Conversation()
    talk.from_client(head.encode() + b"\r\n\r\n" + body, 1)
    if answer:
        status, *told = answer.split("|")
        rows = [f"HTTP/1.1 {status} X", f"Content-Length: {len(answer_body)}", *told]
        talk.from_server("\r\n".join(rows).encode() + b"\r\n\r\n" + answer_body, 2)
    assert talk.current is not None
    return talk.current


def s3(*arguments: object, **headers: str) -> tuple[ObjectRequest, ObjectReply]:
    one = exchange(*arguments, **headers)  # type: ignore[arg-type]
    request = dialect_of("s3", "b").request(one)
    return request, dialect_of("s3", "b").reply(one, request)


def azure(*arguments: object, **headers: str) -> tuple[ObjectRequest, ObjectReply]:
    one = exchange(*arguments, **headers)  # type: ignore[arg-type]
    request = dialect_of("az", "b").request(one)
    return request, dialect_of("az", "b").reply(one, request)


def gcs(*arguments: object, **headers: str) -> tuple[ObjectRequest, ObjectReply]:
    one = exchange(*arguments, **headers)  # type: ignore[arg-type]
    request = dialect_of("gs", "b").request(one)
    return request, dialect_of("gs", "b").reply(one, request)


def test_a_create_names_no_object():
    """`If-None-Match: *` is the condition "absent", and the ETag of the answer the version."""
    asked, told = s3("PUT /b/locks/x", b"{}", '200|ETag: "e1"', If_None_Match="*")
    assert (asked.op, asked.key, asked.condition) == (Op.WRITE, "b/locks/x", IF_ABSENT)
    assert (told.outcome, told.version) == (Outcome.APPLIED, "e1")


def test_the_bucket_may_stand_in_the_host():
    """Virtual-hosted style; another host in front of the same path is none."""
    told = exchange("PUT /locks/x", b"{}", "200")
    told.host = "b.localhost"
    assert dialect_of("s3", "b").request(told).key == "b/locks/x"
    assert dialect_of("s3", "bb").request(told).key == "locks/x"


@pytest.mark.parametrize(("named", "condition"), [('"e1"', "e1"), ("e1", "e1"), ('W/"e1"', "e1"), ("*", "")])
def test_a_replacement_names_a_version(named, condition):
    """Quoted or not, it is one version; `*` names none."""
    asked, _ = s3("PUT /b/x", b"{}", "200", If_Match=named)
    assert asked.condition == condition


@pytest.mark.parametrize(
    ("status", "code", "outcome", "is_absent"),
    [
        (412, "PreconditionFailed", Outcome.PRECONDITION_FAILED, False),
        (404, "NoSuchKey", Outcome.PRECONDITION_FAILED, True),
        (404, "NoSuchBucket", Outcome.REJECTED, False),
        (409, "ConditionalRequestConflict", Outcome.CONFLICT, False),
        (503, "SlowDown", Outcome.THROTTLED, False),
        (500, "InternalError", Outcome.AMBIGUOUS, False),
        (403, "AccessDenied", Outcome.REJECTED, False),
    ],
)
def test_refusals_of_s3_are_sorted(status, code, outcome, is_absent):
    """The table of our own S3 store decides."""
    body = f"<Error><Code>{code}</Code><Message>c4n4ry</Message></Error>".encode()
    _, told = s3("PUT /b/x", b"{}", str(status), body, If_Match='"e"')
    assert (told.outcome, told.is_absent) == (outcome, is_absent)
    assert "c4n4ry" not in told.reason


def test_a_refusal_repeats_no_word_of_the_servers():
    """Whatever stands where the code should be is not written down."""
    _, told = s3("PUT /b/x", b"{}", "403", b"<Error><Code>c4n4ry</Code></Error>")
    assert (told.outcome, "c4n4ry" in told.reason) == (Outcome.REJECTED, False)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (412, Outcome.PRECONDITION_FAILED),
        (429, Outcome.THROTTLED),
        (503, Outcome.AMBIGUOUS),
        (403, Outcome.REJECTED),
        (404, Outcome.PRECONDITION_FAILED),
    ],
)
def test_refusals_of_gcs_are_sorted(status, outcome):
    """Of an upload and of a change of metadata: what was refused made no version, whatever the body says."""
    body = json.dumps(RESOURCE | {"error": {"message": "No such object: b/x"}}).encode()
    for request in ("POST /upload/storage/v1/b/b/o?uploadType=media&name=x", "PATCH /storage/v1/b/b/o/x"):
        _, told = gcs(request, b"{}", str(status), body)
        assert (told.outcome, told.version, told.state) == (outcome, "", None)
        assert told.is_absent is (status == 404)


def test_a_completion_that_fails_with_status_200_is_a_failure():
    """The body decides (aws-sdk-java-v2#6023)."""
    body = b"<Error><Code>PreconditionFailed</Code></Error>"
    asked, told = s3("POST /b/x?uploadId=u", b"<x/>", "200", body, If_None_Match="*")
    assert (asked.op, asked.condition) == (Op.WRITE, IF_ABSENT)
    assert told.outcome is Outcome.PRECONDITION_FAILED
    done = b"<CompleteMultipartUploadResult><ETag>&quot;e-2&quot;</ETag></CompleteMultipartUploadResult>"
    assert s3("POST /b/x?uploadId=u", b"<x/>", "200", done)[1].version == "e-2"


@pytest.mark.parametrize("lead", ["", '<?xml version="1.0" encoding="UTF-8"?>\n', "  \n "])
@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("PreconditionFailed", Outcome.PRECONDITION_FAILED),
        ("AccessDenied", Outcome.REJECTED),
        ("InternalError", Outcome.AMBIGUOUS),
    ],
)
def test_an_error_inside_a_success_is_no_success(lead, code, outcome):
    """Of a copy as of a completion and a deletion of several; an object that holds such bytes is an object."""
    body = f"{lead}<Error><Code>{code}</Code></Error>".encode()
    assert s3("PUT /b/x", b"", "200", body, X_Amz_Copy_Source="/b/y")[1].outcome is outcome
    assert s3("POST /b/x?uploadId=u", b"<x/>", "200", body)[1].outcome is outcome
    assert s3("POST /b?delete", b"<Delete/>", "200", body)[1].outcome is outcome
    assert s3("GET /b/x", b"", '200|ETag: "e"', body)[1].state.body == body


def test_reads_show_what_is_there_or_that_nothing_is():
    """A HEAD shows a version and no state. A success without a version is no answer of S3's."""
    _, found = s3("GET /b/x", b"", '200|ETag: "e1"', b"{}")
    assert (found.outcome, found.version, found.state.body) == (Outcome.APPLIED, "e1", b"{}")
    assert s3("GET /b/x", b"", "404", b"<Error><Code>NoSuchKey</Code></Error>")[1].is_absent
    assert s3("HEAD /b/x", b"", "404")[1].is_absent
    assert s3("HEAD /b/x", b"", '200|ETag: "e1"')[1].state is None
    assert s3("GET /b/x", b"", "200", b"{}")[1].outcome is Outcome.AMBIGUOUS
    assert s3("GET /b/x", b"", '206|ETag: "e1"', b"{", Range="bytes=0-0")[1].outcome is Outcome.APPLIED


@pytest.mark.parametrize(
    "target", ["/b?list-type=2", "/b/x?acl", "/b/x?partNumber=1&uploadId=u", "/b/x?uploadId=u", "/", "/b/x?tagging"]
)
def test_requests_about_no_state_change_none(target):
    """Lists, parts and properties are no writes of an object."""
    assert s3(f"PUT {target}", b"x", "200")[0].op is Op.NONE


def test_a_part_of_an_object_is_no_reading_of_it():
    """S3 and GCS: whoever asks for a part or a range may hear as much with 200, and nobody knows what the rest is."""
    assert s3("GET /b/x?partNumber=1", b"", "200", b"{")[0].op is Op.NONE
    assert s3("GET /b/x", b"", '200|ETag: "e1"', b"{", Range="bytes=0-0")[1].state is None
    media = "GET /storage/v1/b/b/o/x?alt=media"
    assert gcs(media, b"", "200|x-goog-generation: 7", b"{", Range="bytes=0-0")[1].state is None


def test_what_a_request_writes_is_known_once_it_is_all_here():
    """A copy's bytes are in another object; a body that is still coming, and one whose pieces do not end, are none."""
    assert s3("PUT /b/x", b"", "200", X_Amz_Copy_Source="/b/y")[0].state is None
    for dialect, target, more in (
        (dialect_of("s3", "b"), b"/b/x", b""),
        (dialect_of("az", "b"), b"/acct/c/x", b"x-ms-blob-type: BlockBlob\r\n"),
    ):
        talk = Conversation()
        talk.from_client(b"PUT " + target + b" HTTP/1.1\r\n" + more + b"Content-Length: 2\r\n\r\n{", 1)
        assert talk.current is not None
        assert dialect.request(talk.current).state is None
    assert unchunked(b"5\r\nhel") == b"5\r\nhel"


@pytest.mark.parametrize("read", [s3, azure, gcs])
def test_a_body_that_is_not_all_kept_is_no_state(read):
    """An object larger than what is kept of a body is read without its content: the first part of it is not it."""
    target = {s3: "/b/x", azure: "/acct/c/x", gcs: "/storage/v1/b/b/o/x?alt=media"}[read]
    told = '200|ETag: "e1"|x-goog-generation: 7'
    assert read(f"GET {target}", b"", told, b"x" * (BODY_KEPT_MAX + 1))[1].state is None
    assert read(f"GET {target}", b"", told, b"x" * 9)[1].state is not None


def test_a_request_may_delete_several_objects():
    """Each of them is known."""
    body = b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a</Key></Object><Object><Key>c/d</Key></Object></Delete>'
    assert s3("POST /b?delete", body, "200")[0].keys == ("b/a", "b/c/d")


def test_of_several_objects_some_may_stay():
    """The answer names those that were not deleted; one that cannot be read names none."""
    body = b"<Delete><Object><Key>a</Key></Object><Object><Key>c</Key></Object></Delete>"
    refused = b'<DeleteResult xmlns="x"><Error><Key>a</Key><Code>AccessDenied</Code></Error></DeleteResult>'
    _, told = s3("POST /b?delete", body, "200", refused)
    assert {key: reply.outcome for key, reply in told.exceptions.items()} == {"b/a": Outcome.REJECTED}
    for odd in (b"<DeleteRes", b"<html><body>Log in</body></html>", b""):
        _, unclear = s3("POST /b?delete", body, "200", odd)
        assert [reply.outcome for reply in unclear.exceptions.values()] == [Outcome.AMBIGUOUS] * 2, odd
    assert s3("POST /b?delete", body, "200", b"<DeleteResult/>")[1].exceptions == {}


def test_pieces_behind_their_lengths_are_one_body():
    """SDKs that stream sign each piece; the object is what is inside."""
    pieces = b"5;chunk-signature=ff\r\nhello\r\n1\r\n!\r\n0\r\nx-amz-checksum:1\r\n\r\n"
    assert unchunked(pieces) == b"hello!"
    assert unchunked(b'{"a":1}') == b'{"a":1}'
    asked, _ = s3("PUT /b/x", pieces, "200", Content_Encoding="aws-chunked")
    assert asked.state is not None
    assert asked.state.body == b"hello!"


RESOURCE = {"generation": "7", "metageneration": "2", "metadata": {"lock_owner": "a", "expires_sec": "9"}}


def test_a_generation_and_a_metageneration_are_a_version():
    """GCS counts both; a change of metadata is a new version of the same generation."""
    body = json.dumps({"metadata": RESOURCE["metadata"]}).encode()
    asked, told = gcs(
        "PATCH /storage/v1/b/b/o/locks%2Fx?ifMetagenerationMatch=1", body, "200", json.dumps(RESOURCE).encode()
    )
    assert (asked.op, asked.key, asked.condition) == (Op.WRITE, "b/locks/x", "*.1")
    # The condition named no generation; the answer tells of which it was.
    assert (told.outcome, told.version, told.condition) == (Outcome.APPLIED, "7.2", "7.1")
    assert asked.state is not None
    assert told.state is not None
    assert asked.state.content == told.state.content


def test_a_generation_alone_leaves_the_metageneration_open():
    """A condition names what it names, and no more; a change of metadata tells which metageneration it replaced."""
    named = "ifGenerationMatch=7"
    assert gcs(f"DELETE /storage/v1/b/b/o/x?{named}", b"", "204")[0].condition == "7.*"
    assert gcs(f"DELETE /storage/v1/b/b/o/x?{named}&ifMetagenerationMatch=2", b"", "204")[0].condition == "7.2"
    _, changed = gcs(f"PATCH /storage/v1/b/b/o/x?{named}", b"{}", "200", b'{"generation":"7","metageneration":"4"}')
    assert changed.condition == "7.3"
    # An upload is a new generation: the metageneration that it replaced is not in the answer.
    upload = "POST /upload/storage/v1/b/b/o?uploadType=media&name=x&ifMetagenerationMatch=2"
    assert gcs(upload, b"x", "200", b'{"generation":"8","metageneration":"1"}')[1].condition == ""


def test_an_upload_with_its_metadata_is_one_write():
    """The multipart upload of the JSON API: what the object is called, its metadata, its bytes."""
    parts = (
        b'--sep\r\nContent-Type: application/json\r\n\r\n{"name": "locks/x"}\r\n'
        b"--sep\r\nContent-Type: text/plain\r\n\r\nbody\r\n--sep--\r\n"
    )
    asked, _ = gcs(
        "POST /upload/storage/v1/b/b/o?uploadType=multipart&ifGenerationMatch=0", parts, "200", b"{}",
        Content_Type="multipart/related; boundary=sep",
    )  # fmt: skip
    assert (asked.key, asked.condition) == ("b/locks/x", IF_ABSENT)
    assert asked.state is not None
    assert asked.state.body == b"body"
    cut, _ = gcs(
        "POST /upload/storage/v1/b/b/o?uploadType=multipart&name=y", parts[:30], "400", b"",
        Content_Type="multipart/related; boundary=sep",
    )  # fmt: skip
    assert cut.state is not None
    assert (cut.key, cut.state.body) == ("b/y", b"")


def test_reads_of_gcs_are_of_bytes_or_of_metadata():
    """Either may carry the lock."""
    told = "200|x-goog-generation: 7|x-goog-metageneration: 1"
    _, bytes_read = gcs("GET /download/storage/v1/b/b/o/x?alt=media", b"", told, b"body")
    assert (bytes_read.version, bytes_read.state.body) == ("7.1", b"body")
    _, metadata_read = gcs("GET /storage/v1/b/b/o/x", b"", "200", json.dumps(RESOURCE).encode())
    assert metadata_read.version == "7.2"
    assert metadata_read.state is not None
    assert gcs("GET /storage/v1/b/b/o/x", b"", "404")[1].is_absent
    assert gcs("GET /storage/v1/b/b", b"", "200", b"{}")[0].op is Op.NONE


def test_a_request_about_one_version_says_nothing_of_the_object():
    """Google's client names the generation that it knows, by itself. That one may be gone, and another one be there."""
    object_ = "/storage/v1/b/b/o/x?generation=7"
    read, gone = gcs(f"GET {object_}", b"", "404")
    assert (read.names_version, gone.is_absent) == (True, True)
    deleted, told = gcs(f"DELETE {object_}", b"", "404")
    assert (deleted.condition, told.outcome, told.is_absent) == ("7.*", Outcome.PRECONDITION_FAILED, False)
    changed, _ = gcs(
        f"PATCH {object_}&ifMetagenerationMatch=2", b"{}", "200", b'{"generation":"7","metageneration":"3"}'
    )
    assert changed.condition == "7.2"
    assert s3("GET /b/x?versionId=v1", b"", "404", b"<Error><Code>NoSuchVersion</Code></Error>")[0].names_version
    removed, _ = s3("DELETE /b/x?versionId=v1", b"", "204")
    assert (removed.op, removed.key, removed.unfollowed) == (Op.NONE, "", ("b/x",))


@pytest.mark.parametrize("key", ["locks/compose", "locks/rewriteTo/b/b/o/x"])
def test_an_object_may_be_called_like_an_operation(key):
    """Operations on several objects are POSTs; any other method is about the object of that name."""
    assert gcs(f"DELETE /storage/v1/b/b/o/{key.replace('/', '%2F')}", b"", "204")[0].key == f"b/{key}"
    assert gcs(f"POST /storage/v1/b/b/o/{key}", b"{}", "200", b"{}")[0].op is Op.NONE


def test_a_blob_lies_behind_its_account():
    """Azure: the condition of a create or a replacement, what was made, and why it was refused are in headers."""
    asked, told = azure("PUT /acct/c/locks/x", b"{}", '201|ETag: "0x1"', If_None_Match="*", x_ms_blob_type="BlockBlob")
    assert (asked.op, asked.key, asked.condition) == (Op.WRITE, "c/locks/x", IF_ABSENT)
    assert asked.state is not None
    assert (asked.state.body, told.outcome, told.version) == (b"{}", Outcome.APPLIED, "0x1")
    asked, told = azure(
        "PUT /acct/c/x", b"{}", "412|x-ms-error-code: ConditionNotMet", If_Match='"0x1"', x_ms_blob_type="BlockBlob"
    )
    assert (asked.condition, told.outcome) == ("0x1", Outcome.PRECONDITION_FAILED)
    _, told = azure(
        "PUT /acct/c/x", b"", "409|x-ms-error-code: BlobAlreadyExists", If_None_Match="*", x_ms_blob_type="B"
    )
    assert told.outcome is Outcome.PRECONDITION_FAILED
    asked, _ = azure("PUT /acct/c/x", b"{}", "201", If_Match="*", x_ms_blob_type="BlockBlob")
    assert asked.condition == "", "any blob will do"
    asked, told = azure("DELETE /acct/c/x", b"", "202", If_Match="0x1")
    assert (asked.op, asked.condition, told.outcome) == (Op.DELETE, "0x1", Outcome.APPLIED)


@pytest.mark.parametrize(("told", "is_all"), [("bytes 0-1/2", True), ("bytes 0-0/2", False), ("bytes 0-1/*", False)])
def test_a_range_that_is_the_whole_blob_shows_it(told, is_all):
    """Azure's client asks for the first 32 MiB, and most blobs are smaller."""
    _, found = azure("GET /acct/c/x", b"", f'206|ETag: "0x1"|Content-Range: {told}', b"{}"[: 2 if is_all else 1])
    assert (found.state is not None) is is_all
    assert found.outcome is Outcome.APPLIED, "a part is an answer"


def test_reads_of_azure_show_what_is_there_or_that_nothing_is():
    """A HEAD shows a version; that the container is missing says nothing of the blob."""
    assert azure("GET /acct/c/x", b"", '200|ETag: "0x1"', b"{}")[1].state.body == b"{}"
    assert azure("HEAD /acct/c/x", b"", '200|ETag: "0x1"')[1].state is None
    assert azure("HEAD /acct/c/x", b"", "404|x-ms-error-code: BlobNotFound")[1].is_absent
    assert not azure("GET /acct/c/x", b"", "404|x-ms-error-code: ContainerNotFound")[1].is_absent
    assert azure("GET /acct/c/x?snapshot=2026", b"", "404|x-ms-error-code: BlobNotFound")[0].names_version
    # A snapshot is no object of its own, and without it the blob is what it was.
    assert azure("DELETE /acct/c/x?snapshot=2026", b"", "202")[0].op is Op.NONE


@pytest.mark.parametrize(
    ("target", "op", "unfollowed"),
    [
        ("c/x?comp=lease", Op.NONE, ""),
        ("c/x?comp=block&blockid=1", Op.NONE, ""),
        *((f"c/x?comp={change}", Op.NONE, "c/x") for change in ("appendblock", "metadata", "page", "properties")),
        ("c/x?comp=undelete", Op.NONE, "c/x"),
        ("c/x?comp=blocklist", Op.WRITE, ""),
        ("c/x", Op.WRITE, ""),
        ("c?restype=container", Op.NONE, ""),
    ],
)
def test_what_else_is_put_to_a_blob(target, op, unfollowed):
    """A lease and a block change no blob. Metadata does, and no answer tells how. A copy writes what nobody sees."""
    asked, _ = azure(f"PUT /acct/{target}", b"x", "201")
    assert (asked.op, asked.unfollowed, asked.state) == (op, (unfollowed,) if unfollowed else (), None)


GCS_BATCH = (
    b"--s\r\nContent-Type: application/http\r\n\r\n"
    b"DELETE https://storage.googleapis.com/storage/v1/b/b/o/locks%2Fa?ifGenerationMatch=7 HTTP/1.1\r\n\r\n"
    b"--s\r\nContent-Type: application/http\r\n\r\nPATCH /storage/v1/b/b/o/meta HTTP/1.1\r\n\r\n{}"
    b"--s\r\nContent-Type: application/http\r\n\r\nGET /storage/v1/b/b/o/read HTTP/1.1\r\n\r\n--s--"
)
AZURE_BATCH = (
    b"--s\r\nContent-Type: application/http\r\n\r\nDELETE /acct/c/locks/a HTTP/1.1\r\nx-ms-date: x\r\n\r\n"
    b"--s\r\nContent-Type: application/http\r\n\r\nPUT /acct/c/cold?comp=tier HTTP/1.1\r\n\r\n--s--"
)
FORM = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\nlocks/a\r\n--x--\r\n'


@pytest.mark.parametrize(
    ("read", "request_line", "body", "headers", "place"),
    [
        (gcs, "POST /storage/v1/b/b/o/locks%2Fa/compose", b"{}", {}, "b/locks/a"),
        (gcs, "POST /storage/v1/b/b/o/tmp/rewriteTo/b/c/o/locks%2Fa", b"", {}, "c/locks/a"),
        (gcs, "POST /storage/v1/b/b/o/tmp/copyTo/b/c/o/locks%2Fa", b"", {}, "c/locks/a"),
        (gcs, "POST /upload/storage/v1/b/b/o?uploadType=resumable&name=locks%2Fa", b"", {}, "b/locks/a"),
        (gcs, "POST /upload/storage/v1/b/b/o?uploadType=resumable", b'{"name":"locks/a"}', {}, "b/locks/a"),
        (gcs, "POST /storage/v1/b/b/o/tmp/moveTo/o/locks%2Fa", b"", {}, "b/tmp|b/locks/a"),
        (gcs, "POST /storage/v1/b/b/o/locks%2Fa/restore", b"", {}, "b/locks/a/restore|b/locks/a"),
        (gcs, "POST /storage/v1/b/b/folders/x/renameTo/folders/locks", b"", {}, "*"),
        (gcs, "POST /storage/v1/b/b/o/bulkRestore", b"", {}, "*"),
        (gcs, "PUT /b/locks/a", b"{}", {}, "b/locks/a"),
        (gcs, "DELETE /b/locks/a", b"", {}, "b/locks/a"),
        (gcs, "POST /b", b"", {"Content_Type": "multipart/form-data; boundary=x"}, "*"),
        (gcs, "POST /batch/storage/v1", GCS_BATCH, {}, "b/locks/a|b/meta"),
        (gcs, "POST /batch/storage/v1", b"what is this", {}, "*"),
        (azure, "POST /acct?comp=batch", AZURE_BATCH, {}, "c/locks/a"),
        (azure, "POST /acct/c?restype=container&comp=batch", AZURE_BATCH, {}, "c/locks/a"),
        (azure, "POST /acct?comp=batch", b"", {}, "*"),
        (azure, "DELETE /acct/c?restype=container", b"", {}, "*"),
        (azure, "PUT /acct/c/locks/a?comp=expiry", b"", {}, "c/locks/a"),
        (azure, "POST /acct/c/locks/a", b"", {}, "c/locks/a"),
        (azure, "DELETE /acct/c/locks/a", b"", {"x_ms_if_tags": "a = '1'"}, "c/locks/a"),
        (s3, "POST /b", FORM, {"Content_Type": "multipart/form-data; boundary=x"}, "b/locks/a"),
        (s3, "PUT /b/locks/a?renameObject", b"", {"x_amz_rename_source": "b/tmp%20x"}, "b/locks/a|b/b/tmp x|b/tmp x"),
        (s3, "PUT /b/locks/a", b"more", {"x_amz_write_offset_bytes": "2"}, "b/locks/a"),
        (s3, "PUT /b/locks/a?encryption", b"", {}, "b/locks/a"),
        (s3, "DELETE /b/locks/a", b"", {"x_amz_if_match_size": "2"}, "b/locks/a"),
        (s3, "POST /b/locks/a", b"", {}, "b/locks/a"),
    ],
)
def test_a_change_that_is_not_read_is_told(read, request_line, body, headers, place):
    """What the object holds afterwards, and when it changed, was in other requests: the verdict must not be "held"."""
    asked, _ = read(request_line, body, "200", **headers)
    assert (asked.op, asked.key, asked.unfollowed) == (Op.NONE, "", tuple(place.split("|")))


S3_READ, GCS_READ, AZURE_READ = "GET /b/x", "GET /download/storage/v1/b/b/o/x?alt=media", "GET /acct/c/x"


@pytest.mark.parametrize(("ask", "request_line"), [(s3, S3_READ), (gcs, GCS_READ), (azure, AZURE_READ)])
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (206, Outcome.APPLIED),
        (304, Outcome.APPLIED),
        (412, Outcome.PRECONDITION_FAILED),
        (416, Outcome.PRECONDITION_FAILED),
        (409, Outcome.CONFLICT),
        (405, Outcome.REJECTED),
        (301, Outcome.REJECTED),
        (500, Outcome.AMBIGUOUS),
    ],
)
def test_what_lock_clients_never_hear_is_an_answer(ask, request_line, status, outcome):
    """A part, "not modified" and a range that is not there are answers, and show nothing of the object's content."""
    body = b"" if status == 304 else b"{}"
    _, told = ask(
        request_line,
        b"",
        f'{status}|ETag: "0x1"|x-goog-generation: 7|Content-Range: bytes 0-1/9',
        body,
        Range="bytes=0-1",
    )
    assert (told.outcome, told.state, told.is_absent) == (outcome, None, False)


@pytest.mark.parametrize(("ask", "request_line"), [(s3, S3_READ), (gcs, GCS_READ), (azure, AZURE_READ)])
@pytest.mark.parametrize(("length", "is_all"), [("bytes 0-1/2", True), ("bytes 0-1/9", False), ("bytes 0-1/²", False)])
def test_a_part_that_is_the_whole_object_shows_it(ask, request_line, length, is_all):
    """The answer itself says whether it has all bytes; what is no number says nothing."""
    answer = f'206|ETag: "0x1"|x-goog-generation: 7|Content-Range: {length}'
    _, told = ask(request_line, b"", answer, b"{}", Range="bytes=0-1")
    assert (told.state is not None) is is_all


@pytest.mark.parametrize(
    ("body", "is_absent"),
    [
        (b"No such object: bucket/x", True),
        (b"The specified bucket does not exist.", False),
        (b'{"error": {"code": 404, "message": "The specified bucket does not exist."}}', False),
        (b'{"error": {"code": 404, "message": "No such object: bucket/does not exist"}}', True),
        (b"", True),
    ],
)
def test_a_bucket_that_is_missing_is_no_absent_object(body, is_absent):
    """GCS has one status and one reason for both; names that the user chose do not decide."""
    for request in (GCS_READ, "DELETE /storage/v1/b/bucket/o/x"):
        _, told = gcs(request, b"", "404", body)
        assert told.is_absent is is_absent
        assert (told.outcome is Outcome.REJECTED) is not is_absent


def test_a_404_without_a_body_is_an_absent_object_of_s3():
    """Some servers answer a missing key so; of a body that was cut off nobody knows what it said."""
    assert s3("PUT /b/x", b"{}", "404", b"", If_Match='"e"')[1].is_absent
    assert s3("GET /b/x", b"", "404", b"")[1].is_absent
    assert not s3("GET /b/x", b"", "404", b"<Error><Code>NoSuchBucket</Code></Error>")[1].is_absent


@pytest.mark.parametrize("part", ["attributes", "torrent", "acl", "tagging", "what-is-new"])
def test_what_stands_beside_an_object_of_s3_is_no_reading_of_it(part):
    """Its attributes and its torrent were read as the object itself; a part that nobody here knows would be."""
    asked, told = s3(f"GET /b/x?{part}", b"", '200|ETag: "e1"', b"<GetObjectAttributesResponse/>")
    assert (asked.op, asked.key, asked.unfollowed, told.state) == (Op.NONE, "", (), None)


@pytest.mark.parametrize("query", ["x-id=GetObject", "response-content-type=text", "X-Amz-Signature=s"])
def test_a_parameter_with_a_value_asks_for_no_other_thing(query):
    """What SDKs and presigned addresses put into a query."""
    assert s3(f"GET /b/x?{query}", b"", '200|ETag: "e1"')[0].op is Op.READ
    assert s3(f"PUT /b/x?{query}", b"", '200|ETag: "e1"')[0].op is Op.WRITE


def test_the_name_of_an_unknown_part_is_not_kept():
    """It may be a secret that was put into a query without a name."""
    assert "hunter2" not in repr(exchange("GET /b/x?hunter2"))


@pytest.mark.parametrize("host", ["h", "b.storage.local"])
def test_a_read_of_the_xml_interface_shows_the_object(host):
    """Google's client for Go reads so, and it was "GET other": a lock that it watches was never seen to be read."""
    path = "/x" if host.startswith("b.") else "/b/x"
    answered = "200|x-goog-generation: 7|x-goog-metageneration: 2"
    one = exchange(f"GET {path}", b"", answered, b"held")
    one.host = host
    asked = dialect_of("gs", "b").request(one)
    told = dialect_of("gs", "b").reply(one, asked)
    assert (asked.op, asked.key, told.outcome, told.version) == (Op.READ, "b/x", Outcome.APPLIED, "7.2")
    assert told.state is not None
    assert told.state.body == b"held"
    assert gcs("GET /b/x?generation=7", b"", answered)[0].names_version
    absent = gcs("GET /b/x", b"", "404", b"<Error><Code>NoSuchKey</Code></Error>")[1]
    assert (absent.outcome, absent.is_absent) == (Outcome.APPLIED, True)
    assert gcs("GET /b/x?acl", b"", "200")[0].op is Op.NONE
    assert gcs("GET /b", b"", "200")[0].op is Op.NONE


def test_snapshots_are_deleted_without_their_blob():
    """Read as a removal of the blob, and the next create was the store's second one."""
    assert azure("DELETE /acct/c/x", b"", "202", x_ms_delete_snapshots="only")[0].op is Op.NONE
    assert azure("DELETE /acct/c/x", b"", "202", x_ms_delete_snapshots="include")[0].op is Op.DELETE
