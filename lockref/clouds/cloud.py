"""The facts that a program needs about a store before its first request, in one form for all clouds.

`lockref.clouds.uri.CLOUDS` has a `Cloud` for every scheme. Each is made in the module `cloud` of its folder. Modules
with an SDK are named there by `on_use`, and imported when a store or a signer is asked for: a command loads the cloud
that its arguments name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult

from lockref.clouds.answers import Meaning, Question
from lockref.clouds.calls import Answer, Call, HttpReply, HttpRequest, Place, WriteMode
from lockref.clouds.statuses import ServerStatuses, StatusRow
from lockref.clouds.traffic import NOTHING, Exchange, ObjectReply, ObjectRequest, Readable
from lockref.extras import EXTRAS, naming_the_extra
from lockref.stores.address import StoreAddress
from lockref.stores.port import ObjectStore

if TYPE_CHECKING:
    from lockref.clouds.dynamodb.client import Naming
    from lockref.ports import Channel


class Writer(Protocol):
    """Turns calls into requests of one cloud. The module `requests` of each cloud is one."""

    def write_request(self, place: Place, call: Call, /) -> HttpRequest:
        """The request that states this call, without a signature. Errors: Inexpressible."""
        ...


class Answers(Protocol):
    """The meaning of answers. A cloud's module `answers` is one."""

    def read_answer(self, question: Question, status: int, headers: Mapping[str, str], body: bytes, /) -> Meaning:
        """The meaning of an answer; it raises nothing. headers: by their names in lower case."""
        ...

    def answer_to(self, place: Place, call: Call, reply: HttpReply, /) -> Answer:
        """The answer to a call of ours."""
        ...


class TrafficRequests(Protocol):
    """Reads the requests of foreign clients. The module `requests` of each cloud is one."""

    def read_request(self, exchange: Exchange, bucket: str, /) -> ObjectRequest:
        """The meaning of a request. It raises nothing. bucket: that of the run, which a host may name."""
        ...


class TrafficReplies(Protocol):
    """Reads the answers to foreign clients. The module `answers` of each cloud is one."""

    def reply_to(self, exchange: Exchange, request: ObjectRequest, /) -> ObjectReply:
        """The meaning of a complete answer to this request."""
        ...


class Signer(Protocol):
    """Credentials for the requests to one store. It must be picklable: other processes sign with it."""

    place: Place

    def signed(self, request: HttpRequest, /) -> HttpRequest:
        """The request with a signature. Errors: Unsigned where none can be had."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Opens the tables of one cloud.

    channel: to the table at an address, with the time-out of a request in nanoseconds, the size of the pool, and how
        the table names attributes. Errors: ConfigError for a configuration that cannot be used.
    require: asks for the table at an address, within a time-out in nanoseconds; True makes it where there is none.
        Errors: ConfigError for a table with another key; BackendUnavailable for no table, or no answer.
    """

    channel: Callable[[StoreAddress, int, int, Naming | None], Channel]
    require: Callable[[StoreAddress, int, bool, Naming | None], None]


def on_use(module: str, name: str, *last: object) -> Callable[..., Any]:
    """The function `name` of a module that loads an SDK. The module is imported when the function is called.

    last: arguments that follow those of the call.
    Errors: CapabilityMissing where the SDK is not installed.
    """
    cloud = module.split(".")[2]  # Also the name of the extra that brings the SDK, where it needs one.
    extra = EXTRAS.get(cloud)

    def call(*given: object) -> Any:
        with naming_the_extra(f"{extra.gives if extra else 'stores of ' + cloud} need", extra=cloud if extra else ""):
            found = getattr(import_module(module), name)
        return found(*given, *last)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """One kind of store.

    name: by which scenarios and fingerprints call its protocol. forms: by scheme, how a URI is written.
    parse: takes a URI apart, whose scheme is one of `forms`. Errors: ConfigError.
    open_store: the store at an address, with the time-out of a request in nanoseconds and the size of the pool.
        Errors: ConfigError for a configuration that cannot be used; CapabilityMissing for what holds no objects.
    protocol: what the cloud is asked with, without its SDK; None for a store without a wire that we write on.
    traffic: how requests and answers of foreign clients are read; None where they are not. readable: what of them.
    signer: finds credentials for the store at an address. Errors: ConfigError, BackendUnavailable.
    outcomes: its table of statuses and codes. statuses: with which its own service answers. modes: see `calls`.
    amplifiers: sets of headers that make a server of this kind look longer at a body before it writes. A race may use
        them.
    refusal: a whole reply with this status, as the cloud would refuse; its second argument is a reason for people.
    create_container: makes the bucket, container or table of an address with an endpoint, within a time-out in
        nanoseconds; one that is there already is fine. Errors: BackendUnavailable. None where nothing is to be made.
    environment: what a foreign program needs in its environment to find the store at this address behind that endpoint.
    may_name_account: an endpoint may end in an account.
    same_container: the one spelling of a container, by which two URIs of it are compared.
    domains: of the hosts of the service itself, which reads the bucket from the host's name.
    clients: the libraries that can send its requests, by their names on PyPI; the first does where a URI names none.
    tables: how its tables are opened; None where it has none.
    service: the kind of service that stands at such an address (`lockref.services`). holds_objects: an object can be
        changed there by hand.
    is_in_process: it belongs to this process alone. is_on_this_machine: it is this package's own code, and no server.
    title: for people. local_path, local_region: of a server on this machine, what stands behind its port, and its
        region; "" for nothing.
    """

    name: str
    forms: Mapping[str, str]
    parse: Callable[[str, SplitResult], StoreAddress]
    open_store: Callable[[StoreAddress, int, int], ObjectStore]
    statuses: ServerStatuses
    outcomes: tuple[StatusRow, ...] = ()
    protocol: tuple[Writer, Answers] | None = None
    traffic: tuple[TrafficRequests, TrafficReplies] | None = None
    readable: Readable = NOTHING
    signer: Callable[[StoreAddress], Signer] | None = None
    modes: tuple[WriteMode, ...] = ()
    amplifiers: tuple[tuple[tuple[str, str], ...], ...] = ()
    refusal: Callable[[int, str], bytes] | None = None
    create_container: Callable[[StoreAddress, int], None] | None = None
    environment: Callable[[StoreAddress, str], dict[str, str]] | None = None
    may_name_account: bool = False
    same_container: Callable[[str], str] = str
    domains: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    tables: Tables | None = None
    service: str = "object_store"
    holds_objects: bool = True
    is_in_process: bool = False
    is_on_this_machine: bool = False
    title: str = ""
    local_path: str = ""
    local_region: str = ""

    @property
    def is_reached_by_http(self) -> bool:
        """True if its requests pass a wire on which they can be struck."""
        return self.protocol is not None

    @property
    def is_table(self) -> bool:
        """True if it holds items, and no objects."""
        return self.tables is not None and not self.holds_objects
