"""Azure: the status table row by row, replies without an answer, the shape of a request, and which account is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from typing import ClassVar

import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import HttpRequest as SdkRequest
from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy
from urllib3.exceptions import MaxRetryError, NewConnectionError

from lockref.clouds.answers import silence
from lockref.clouds.azure.account import EMULATOR_NOTE, connection_string, find_account, missing_credentials
from lockref.clouds.azure.client import AzureStore
from lockref.clouds.azure.facts import OUTCOMES
from lockref.clouds.azure.sdk import BODY_BYTES_MAX
from lockref.clouds.azure.signing import shared_key
from lockref.clouds.statuses import classify
from lockref.clouds.uri import open_store
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from lockref.stores.port import Version
from lockref.words import Outcome
from tests.unit.lockref.clouds.test_gcs import FakeAdapter

O = Outcome  # noqa: E741
ENDPOINT = "http://127.0.0.1:1/devstoreaccount1"
SECRET = "aHVudGVyMg=="
ETAG = '"0x8DC0FFEE"'
SAS_TOKEN = f"sv=2024-11-04&sr=c&sig={SECRET}"


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch):
    """Whoever runs the tests may have an account."""
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def adapter():
    return FakeAdapter()


@pytest.fixture
def store(adapter):
    session = requests.Session()
    session.mount("http://", adapter)
    store = AzureStore(
        container="container", prefix="p", endpoint=ENDPOINT, request_timeout_ns=NS_PER_S, session=session
    )
    yield store
    store.close()


def _error(status: int, code: str = "") -> tuple[int, dict[str, str], bytes]:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{SECRET}</Message></Error>".encode()
    named = {"x-ms-error-code": code} if code else {}
    return status, {"Content-Type": "application/xml", "Content-Length": str(len(body)), **named}, body


# Written out by hand, so that a changed row of the table fails here. Codes are those of Azure's own list.
EXPECTED = {
    (412, "ConditionNotMet"): (O.PRECONDITION_FAILED, False),
    (412, "LeaseIdMissing"): (O.CONFLICT, False),
    (304, "ConditionNotMet"): (O.PRECONDITION_FAILED, False),
    (409, "BlobAlreadyExists"): (O.PRECONDITION_FAILED, False),
    (409, "LeaseAlreadyPresent"): (O.CONFLICT, False),
    (409, "ContainerBeingDeleted"): (O.CONFLICT, False),
    (409, ""): (O.CONFLICT, False),
    (409, "ContainerDisabled"): (O.REJECTED, False),
    (409, "PublicAccessNotPermitted"): (O.REJECTED, False),
    (409, "BlobImmutableDueToPolicy"): (O.REJECTED, False),
    (409, "BlobImmutableDueToLegalHold"): (O.REJECTED, False),
    (409, "InvalidBlobType"): (O.REJECTED, False),
    (409, "ResourceTypeMismatch"): (O.REJECTED, False),
    (409, "BlobArchived"): (O.REJECTED, False),
    (409, "SnapshotsPresent"): (O.REJECTED, False),
    (404, "BlobNotFound"): (O.PRECONDITION_FAILED, True),
    (404, "ContainerNotFound"): (O.REJECTED, False),
    (404, "ResourceNotFound"): (O.REJECTED, False),
    (404, ""): (O.REJECTED, False),
    (429, "TooManyRequests"): (O.THROTTLED, False),
    (503, "ServerBusy"): (O.THROTTLED, False),
    (503, ""): (O.AMBIGUOUS, False),
    (500, "InternalError"): (O.AMBIGUOUS, False),
    (500, "OperationTimedOut"): (O.AMBIGUOUS, False),
    (502, ""): (O.AMBIGUOUS, False),
    (408, ""): (O.AMBIGUOUS, False),
    (400, "InvalidHeaderValue"): (O.REJECTED, False),
    (401, "NoAuthenticationInformation"): (O.REJECTED, False),
    (403, "AuthenticationFailed"): (O.REJECTED, False),
    (403, "AuthorizationPermissionMismatch"): (O.REJECTED, False),
    (405, "UnsupportedHttpVerb"): (O.REJECTED, False),
    (413, "RequestBodyTooLarge"): (O.REJECTED, False),
    (501, ""): (O.REJECTED, False),
    (307, ""): (O.REJECTED, False),
}
CALLS = {
    "create": lambda store: store.put_if_absent("k", b"1"),
    "replace": lambda store: store.put_if_version("k", b"1", Version(ETAG)),
    "put": lambda store: store.put("k", b"1"),
    "delete": lambda store: store.delete("k", Version(ETAG)),
}


@pytest.mark.parametrize(("status", "code"), EXPECTED)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_refused_write_is_classified_by_status_and_code(store, adapter, call, status, code):
    """A5, C25: each answer has its own branch, a lease of Azure's among them, and is asked for once."""
    adapter.answer = _error(status, code)
    reply = call(store)
    assert (reply.outcome, reply.missing) == EXPECTED[status, code]
    assert (reply.status, reply.version) == (status, None)
    assert reply.reason.startswith(f"{status} {code}" if code else f"{status}: ")
    assert SECRET not in reply.reason
    assert len(adapter.requests) == 1


def test_every_row_of_the_table_has_an_expectation():
    """A row that no expectation above meets would be untested."""
    met = {classify(OUTCOMES, status, code).why for status, code in EXPECTED}
    met.add(classify(OUTCOMES, 201).why)
    assert met == {row.why for row in OUTCOMES}


def test_a_code_in_the_body_alone_is_heard(store, adapter):
    """Servers in between may drop headers that they do not know."""
    status, headers, body = _error(409, "BlobAlreadyExists")
    del headers["x-ms-error-code"]
    adapter.answer = (status, headers, body)
    assert store.put_if_absent("k", b"1").outcome is O.PRECONDITION_FAILED


def test_a_refusal_that_is_no_xml_is_still_a_refusal(store, adapter):
    """The status and its code are whole; what a proxy writes below them does not matter."""
    adapter.answer = (412, {"Content-Type": "application/xml", "x-ms-error-code": "ConditionNotMet"}, b"<half")
    assert store.put_if_version("k", b"1", Version(ETAG)).outcome is O.PRECONDITION_FAILED


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (_error(404, "BlobNotFound"), O.APPLIED),
        (_error(404, "ContainerNotFound"), O.REJECTED),
        (_error(403, "AuthorizationFailure"), O.REJECTED),
        (_error(409, "BlobArchived"), O.REJECTED),
        (_error(429), O.THROTTLED),
        (_error(503, "ServerBusy"), O.THROTTLED),
        (_error(500, "OperationTimedOut"), O.AMBIGUOUS),
        (_error(412, "ConditionNotMet"), O.AMBIGUOUS),
        ((200, {}, b"body"), O.AMBIGUOUS),
        ((206, {"Content-Range": "garbage"}, b"body"), O.AMBIGUOUS),
    ],
)
def test_a_read_without_a_body_is_absent_only_if_the_object_is_missing(store, adapter, answer, outcome):
    """An absent object is an answer; a denial is not; data without an ETag cannot be built upon."""
    adapter.answer = answer
    reply = store.read("k")
    assert (reply.outcome, reply.body) == (outcome, None)
    assert reply.is_absent == (outcome is O.APPLIED)
    assert len(adapter.requests) == 1


@pytest.mark.parametrize("body", [b"body", b""])
def test_a_read_takes_body_and_etag_from_one_answer(store, adapter, body):
    """Two requests could see two versions, of an empty object too; no range is asked for."""
    adapter.answer = (200, {"ETag": ETAG, "Content-Length": str(len(body))}, body)
    reply = store.read("k")
    assert (reply.body, reply.version) == (body, ETAG)
    (request,) = adapter.requests
    assert (request.method, "x-ms-range" in request.headers) == ("GET", False)


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [("create", "If-None-Match", "*"), ("replace", "If-Match", ETAG), ("delete", "If-Match", ETAG), ("put", "", "")],
)
def test_conditions_reach_the_request(store, adapter, name, header, value):
    """A create asks for nothing there, a replacement for the ETag it read, as it read it; a put sets no condition."""
    adapter.answer = (202 if name == "delete" else 201, {"ETag": ETAG}, b"")
    reply = CALLS[name](store)
    assert (reply.outcome, reply.version) == (O.APPLIED, None if name == "delete" else ETAG)
    (request,) = adapter.requests
    conditions = {key: text for key, text in request.headers.items() if key.startswith("If-")}
    assert conditions == ({header: value} if header else {})
    assert request.url.partition("?")[0] == f"{ENDPOINT}/container/p/k"


def test_a_success_without_an_etag_is_ambiguous(store, adapter):
    """A cut reply can parse as a success; a renewal could not be built on it."""
    adapter.answer = (201, {}, b"")
    for name in ("create", "replace", "put"):
        assert CALLS[name](store).outcome is O.AMBIGUOUS
    assert store.delete("k").outcome is O.AMBIGUOUS  # 201 is no answer to a deletion.


def _refused() -> requests.ConnectionError:
    return requests.ConnectionError(MaxRetryError(None, "/", NewConnectionError(None, SECRET)))


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (_refused(), "nothing was sent"),
        (requests.ConnectTimeout(SECRET), "nothing was sent"),
        (ClientAuthenticationError(SECRET), "nothing was sent"),
        (requests.ReadTimeout(SECRET), "may have taken effect"),
        (requests.ConnectionError(SECRET), "may have taken effect"),
        (requests.exceptions.ChunkedEncodingError(SECRET), "may have taken effect"),
        (requests.exceptions.ChunkedEncodingError(f"IncompleteRead {SECRET}"), "may have taken effect"),
        (requests.exceptions.SSLError(SECRET), "may have taken effect"),
    ],
)
def test_no_answer_is_ambiguous_and_says_whether_anything_was_sent(store, adapter, error, hint):
    """A1: network errors mean unknown, are not retried, and are not quoted."""
    adapter.answer = error
    for call in (*CALLS.values(), lambda store: store.read("k")):
        adapter.requests.clear()
        reply = call(store)
        assert (reply.outcome, reply.status) == (O.AMBIGUOUS, None)
        assert hint in reply.reason
        assert SECRET not in reply.reason
        assert len(adapter.requests) == 1


def test_a_defect_of_ours_is_not_an_answer(store, adapter):
    """Without a reply there is nothing to misunderstand."""
    adapter.answer = TypeError("ours")
    with pytest.raises(TypeError, match="ours"):
        store.put("k", b"1")


def test_connecting_and_waiting_together_stay_within_the_timeout(store, adapter):
    """One request may take its time-out, not twice that."""
    adapter.answer = (201, {"ETag": ETAG}, b"")
    store.put("k", b"1")
    assert sum(adapter.timeouts[0]) == pytest.approx(1.0)


@pytest.mark.parametrize("version", ["", "*"])
def test_a_version_that_is_no_etag_is_the_callers_mistake(store, version):
    """`If-Match: *` means "whatever is there": passed as a version it would turn a renewal into an overwrite."""
    with pytest.raises(ValueError):
        store.put_if_version("k", b"1", Version(version))
    with pytest.raises(ValueError):
        store.delete("k", Version(version))


def test_a_body_that_needs_several_requests_is_refused(store):
    """It would go up in blocks, of which the last request alone has the condition."""

    class Long(bytes):
        def __len__(self) -> int:
            return BODY_BYTES_MAX + 1

    with pytest.raises(ValueError):
        store.put("k", Long())


@pytest.mark.parametrize(
    ("endpoint", "uses_proxies"), [(ENDPOINT, False), ("http://10.0.0.1:1/devstoreaccount1", True)]
)
def test_loopback_endpoints_use_no_proxy(endpoint, uses_proxies):
    """A proxy from the environment must not see requests to this machine."""
    opened = AzureStore(container="container", endpoint=endpoint, request_timeout_ns=NS_PER_S, pool_size=37)
    assert opened._session.trust_env is uses_proxies
    adapter = opened._session.get_adapter("https://")
    assert (adapter.max_retries.total, adapter._pool_maxsize) == (0, 37)
    opened.close()


# ---- Which account, and by what right ----

LAKE = "lake.dfs.core.windows.net"
KEY_OF_LAKE = {"AZURE_STORAGE_ACCOUNT": "lake", "AZURE_STORAGE_KEY": SECRET}


@pytest.mark.parametrize(
    ("host", "endpoint", "environ", "url", "name", "known_as"),
    [
        (LAKE, "", {}, "https://lake.blob.core.windows.net", "lake", "lake.blob.core.windows.net"),
        (
            "lake.z1.blob.storage.azure.net",
            "",
            {},
            "https://lake.z1.blob.storage.azure.net",
            "lake",
            "lake.z1.blob.storage.azure.net",
        ),
        ("", "", KEY_OF_LAKE, "https://lake.blob.core.windows.net", "lake", "lake.blob.core.windows.net"),
        ("", "", {"AZURE_STORAGE_ACCOUNT_NAME": "lake"}, "https://lake.blob.core.windows.net", "lake", None),
        ("", ENDPOINT, {}, ENDPOINT, "devstoreaccount1", "devstoreaccount1.blob.core.windows.net"),
        (LAKE, ENDPOINT, KEY_OF_LAKE, ENDPOINT, "devstoreaccount1", "lake.blob.core.windows.net"),
        (LAKE, "https://10.0.0.1", {}, "https://10.0.0.1", "lake", "lake.blob.core.windows.net"),
        ("", "https://10.0.0.1", KEY_OF_LAKE, "https://10.0.0.1", "lake", "lake.blob.core.windows.net"),
        ("", "https://lake.blob.core.usgovcloudapi.net", {}, None, "lake", "lake.blob.core.usgovcloudapi.net"),
        (
            "",
            "",
            {"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"},
            "http://127.0.0.1:10000/devstoreaccount1",
            "devstoreaccount1",
            "devstoreaccount1.blob.core.windows.net",
        ),
        (
            "",
            "",
            {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName=lake;AccountKey={SECRET};EndpointSuffix=core.cloud.de"},
            "https://lake.blob.core.cloud.de",
            "lake",
            "lake.blob.core.cloud.de",
        ),
        (
            "",
            "",
            {
                "AZURE_STORAGE_CONNECTION_STRING": "BlobEndpoint=https://lake.blob.core.windows.net/;"
                f"SharedAccessSignature={SAS_TOKEN}"
            },
            "https://lake.blob.core.windows.net",
            "lake",
            None,
        ),
    ],
)
def test_the_account_is_found(host, endpoint, environ, url, name, known_as):
    """The URI's account, or the environment's; the endpoint says where to ask and not which container is meant."""
    account = find_account(host=host, endpoint=endpoint, environ=environ)
    assert (account.url, account.name) == (url or endpoint, name)
    assert account.host == (known_as or "lake.blob.core.windows.net")


CONNECTION = f"DefaultEndpointsProtocol=https;AccountName=lake;AccountKey={SECRET};EndpointSuffix=core.windows.net"


@pytest.mark.parametrize(
    ("host", "environ", "key", "sas"),
    [
        (LAKE, KEY_OF_LAKE, SECRET, ""),
        (LAKE, {"AZURE_STORAGE_ACCOUNT_NAME": "lake", "AZURE_STORAGE_ACCOUNT_KEY": SECRET}, SECRET, ""),
        (LAKE, {"AZURE_STORAGE_KEY": SECRET}, SECRET, ""),
        (LAKE, {"AZURE_STORAGE_SAS_TOKEN": f"?{SAS_TOKEN}"}, "", SAS_TOKEN),
        (LAKE, {**KEY_OF_LAKE, "AZURE_STORAGE_SAS_TOKEN": SAS_TOKEN}, SECRET, ""),
        (LAKE, {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION, "AZURE_STORAGE_SAS_TOKEN": SAS_TOKEN}, SECRET, ""),
        ("other.dfs.core.windows.net", KEY_OF_LAKE, "", ""),
        ("other.dfs.core.windows.net", {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION}, "", ""),
    ],
)
def test_credentials_are_used_for_their_own_account(host, environ, key, sas):
    """Another account's key would be refused there as a wrong signature, and nobody would see why."""
    account = find_account(host=host, endpoint="", environ=environ)
    assert (account.key, account.sas) == (key, sas)
    assert SECRET not in f"{account}{account!r}"


def test_an_emulator_is_sent_no_credentials_of_a_real_account():
    """A signature that fits every account of the URI's server would go to whatever listens on this machine."""
    account = find_account(host="", endpoint=ENDPOINT, environ={"AZURE_STORAGE_SAS_TOKEN": SAS_TOKEN, **KEY_OF_LAKE})
    assert (account.sas, account.note) == ("", EMULATOR_NOTE)
    # A token that names no account may be anybody's.
    nameless = find_account(host="", endpoint=ENDPOINT, environ={"AZURE_STORAGE_SAS_TOKEN": SAS_TOKEN})
    assert (nameless.sas, nameless.note) == ("", EMULATOR_NOTE)
    own = find_account(
        host="",
        endpoint=ENDPOINT,
        environ={"AZURE_STORAGE_ACCOUNT": "devstoreaccount1", "AZURE_STORAGE_KEY": SECRET},
    )
    assert (own.key, own.note) == (SECRET, "")


def test_a_connection_string_leads_to_another_address_by_the_same_right():
    """For a program's environment: what it says is read as it was meant, with the key or the token of the account."""
    for right in ({"AccountKey": SECRET}, {"SharedAccessSignature": SAS_TOKEN}):
        text = ";".join(f"{name}={value}" for name, value in {"AccountName": "lake", **right}.items())
        account = find_account(host="", endpoint="", environ={"AZURE_STORAGE_CONNECTION_STRING": text})
        led = connection_string(account, "http://127.0.0.1:1/lake")
        found = find_account(host="", endpoint="", environ={"AZURE_STORAGE_CONNECTION_STRING": led})
        assert (found.url, found.name) == ("http://127.0.0.1:1/lake", "lake")
        assert (found.key, found.sas) == (right.get("AccountKey", ""), right.get("SharedAccessSignature", ""))


def test_nobody_is_followed_elsewhere(store, adapter):
    """A redirect would send the request again, to an address that nobody named."""
    adapter.answer = (307, {"Location": "http://127.0.0.1:2/devstoreaccount1/container/p/k"}, b"")
    for call in CALLS.values():
        adapter.requests.clear()
        assert call(store).outcome is O.REJECTED
        assert len(adapter.requests) == 1


@pytest.mark.parametrize(
    ("uri", "environ", "part"),
    [
        ("az://tables", {}, "set AZURE_STORAGE_ACCOUNT or"),
        ("az://tables", {"AZURE_STORAGE_ACCOUNT": "La_ke"}, "3 to 24 lower-case letters"),
        ("az://tables", {"AZURE_STORAGE_ACCOUNT": "lake"}, "no credentials for the storage account 'lake'"),
        (f"abfss://tables@{LAKE}", {}, "install azure-identity"),
        ("abfss://tables@other.dfs.core.windows.net", KEY_OF_LAKE, "those in the environment are of account lake"),
        ("az://tables?endpoint=http://10.0.0.1:1", {}, "names no account"),
        (f"abfss://tables@{LAKE}", {"AZURE_STORAGE_KEY": "hunter2!"}, "no base64"),
        (f"abfss://tables@{LAKE}", {"AZURE_STORAGE_SAS_TOKEN": "hunter2"}, "no sig="),
        ("az://tables", {"AZURE_STORAGE_CONNECTION_STRING": "hunter2"}, "malformed"),
        ("az://tables", {"AZURE_STORAGE_CONNECTION_STRING": "AccountKey=aHVudGVyMg=="}, "names no account"),
    ],
)
def test_missing_and_malformed_credentials_are_a_configuration_error(monkeypatch, uri, environ, part):
    """One clear line before anything is sent, and no secret in it."""
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        open_store(uri, request_timeout_ns=1)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_token_is_no_part_of_what_a_store_tells(monkeypatch, adapter):
    """A shared access signature travels in the query, of every request and of no message."""
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", SAS_TOKEN)
    session = requests.Session()
    session.mount("https://", adapter)
    opened = AzureStore(container="tables", account_host=LAKE, request_timeout_ns=NS_PER_S, session=session)
    adapter.answer = _error(403, "AuthenticationFailed")
    reply = opened.put_if_absent("k", b"1")
    (request,) = adapter.requests
    assert "sig=" in request.url
    assert "Authorization" not in request.headers
    assert "sig=" not in f"{reply}{opened.place}"
    assert SECRET not in f"{reply}{opened.place}"
    opened.close()


class _Identity:
    """Stands in for azure-identity, which is not installed with us."""

    made: ClassVar[list[dict[str, object]]] = []

    def __init__(self, **options):
        self.made.append(options)

    def get_token(self, *_scopes, **_options):
        raise ClientAuthenticationError(message=SECRET)


def test_an_identity_asks_where_nothing_else_can(monkeypatch):
    """azure-identity is used if it is there, with our bounded connections, and through TLS alone."""
    _Identity.made.clear()
    monkeypatch.setitem(sys.modules, "azure.identity", types.SimpleNamespace(DefaultAzureCredential=_Identity))
    opened = open_store(f"abfss://tables@{LAKE}", request_timeout_ns=NS_PER_S)
    assert [list(options) for options in _Identity.made] == [["transport", "retry_total"]]
    reply = opened.put_if_absent("k", b"1")
    assert (reply.outcome, "no access token" in reply.reason) == (O.AMBIGUOUS, True)
    opened.close()
    with pytest.raises(ConfigError, match="no credentials"):
        open_store(f"abfss://tables@{LAKE}?endpoint=http://10.0.0.1:1", request_timeout_ns=1)


def test_the_complaint_names_whose_credentials_are_there():
    account = find_account(host="other.blob.core.windows.net", endpoint="", environ=KEY_OF_LAKE)
    assert "of account lake" in str(missing_credentials(account, KEY_OF_LAKE))


def test_a_create_and_a_write_of_anything_need_no_object(store, monkeypatch):
    """Only a write that names a version needs an object: of the others "not found" can mean the container alone."""
    asked = []

    def ask(question, _send):
        asked.append(question.needs_object)
        return silence(O.AMBIGUOUS, "no answer"), b""

    monkeypatch.setattr(store, "_ask", ask)
    store.put_if_absent("k", b"x")
    store.put("k", b"x")
    store.put_if_version("k", b"x", Version('"1"'))
    assert asked == [False, False, True]


OVER_A_BROKEN_REPLY = """
import logging
from lockref.clouds.azure import sdk

logging.getLogger("azure.core.pipeline.transport._requests_basic").warning("Incomplete download.")
"""


def test_the_sdk_prints_nothing_of_its_own():
    """A process without handlers gets the words of a store's reply, and no line of the SDK's beside them."""
    done = subprocess.run([sys.executable, "-c", OVER_A_BROKEN_REPLY], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/lake/c/table/lock", {"Content-Length": "0"}),
        ("PUT", "/lake/c/a%20b", {"Content-Length": "5", "x-ms-blob-type": "BlockBlob", "If-None-Match": "*"}),
        ("PUT", "/lake/c/k", {"Content-Length": "12", "Content-Type": "text/plain", "If-Match": '"0x8"'}),
        ("DELETE", "/lake/c/k?snapshot=2024-01-01T00%3A00%3A00", {"If-Match": '"0x8"', "Content-Length": "0"}),
        ("GET", "/lake/c?restype=container&comp=list&prefix=a%2Fb&marker=&include=metadata,deleted", {}),
        ("PUT", "/lake/c/k", {"x-ms-copy-source": "http://h/x", "x-ms-copy-source-tag-option": "COPY"}),
        ("PUT", "/lake/c/k", {"x-ms-source-if-match": "a", "x-ms-blob-content-md5": "b", "X-Other": "c"}),
    ],
)
def test_a_request_is_signed_as_the_sdk_signs_it(method, target, headers):
    """The SDK's own signer is not loaded for a probe; the two must agree."""
    account = find_account(host="", endpoint=ENDPOINT, environ={})
    sent = {"Host": "h", "x-ms-version": "2023-11-03", "x-ms-date": "Mon, 01 Jan 2024 00:00:00 GMT", **headers}
    theirs = SdkRequest(method, f"http://127.0.0.1:1{target}", headers=dict(sent))
    SharedKeyCredentialPolicy(account.name, account.key).on_request(PipelineRequest(theirs, PipelineContext(None)))
    assert shared_key(account, method, target, sent) == theirs.headers["Authorization"]
