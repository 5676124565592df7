"""Small S3 servers that lie in one way each, as stores in the field were found to. For tests of the probe."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from tests.conditional_server import Asked, Bucket, Object, Told


class IgnoresIfMatch(Bucket):
    """DigitalOcean Spaces (celld#137): `If-Match` on a PUT is not read."""

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        return super().put(key, body, if_match="", if_none_match=if_none_match)


class IgnoresIfNoneMatch(Bucket):
    """Incus (incus#3651): `If-None-Match` on a PUT is not read."""

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        return super().put(key, body, if_match=if_match, if_none_match="")


PART_ETAG = '"part"'


@dataclass
class Multipart(Bucket):
    """Uploads in parts. ignores: the header that a completion does not read, "" for none.

    As S3 does, it completes an upload only where the request names each part by its ETag.
    """

    ignores: str = ""
    uploads: dict[str, bytes] = field(default_factory=dict)

    def intercept(self, asked: Asked) -> Told | None:
        query = asked.query
        if asked.method == "POST" and "uploads" in query:
            name = f"upload-{len(self.uploads)}"
            self.uploads[name] = b""
            return Told(200, body=f"<R><UploadId>{name}</UploadId></R>".encode())
        if asked.method == "GET" and "uploads" in query:
            return Told(200, body=b"<R></R>")
        if "uploadId" not in query:
            return None
        if asked.method == "PUT":
            self.uploads[query["uploadId"]] = asked.body
            return Told(200, headers={"ETag": PART_ETAG})
        if asked.method == "DELETE":
            return Told(204)
        if f"<PartNumber>1</PartNumber><ETag>{PART_ETAG}</ETag>".encode() not in asked.body:
            return Told(400, error="InvalidPart")
        match, none_match = (
            "" if name == self.ignores else asked.headers.get(name, "") for name in ("If-Match", "If-None-Match")
        )
        status, etag = self.put(asked.path, self.uploads[query["uploadId"]], if_match=match, if_none_match=none_match)
        if status != 200:
            return Told(status, error={404: "NoSuchKey", 412: "PreconditionFailed"}[status])
        return Told(200, body=f"<R><ETag>{etag}</ETag></R>".encode())


@dataclass
class Spelled(Bucket):
    """ETags spelled in another way. put_as, get_as: what stands around the hash."""

    put_as: str = '"{}"'
    get_as: str = '"{}"'

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        bare = if_match.removeprefix("W/").strip('"')
        status, etag = super().put(key, body, if_match=bare and f'"{bare}"', if_none_match=if_none_match)
        return status, self.put_as.format(etag.strip('"')) if etag else ""

    def delete(self, key: str, *, if_match: str) -> int:
        bare = if_match.removeprefix("W/").strip('"')
        return super().delete(key, if_match=bare and f'"{bare}"')

    def get(self, key: str) -> Object | None:
        found = super().get(key)
        return None if found is None else (found[0], self.get_as.format(found[1].strip('"')))


class SuccessWithAnError(Bucket):
    """A failed condition is answered 200, with the error in the body (aws-sdk-java-v2#6023)."""

    def intercept(self, asked: Asked) -> Told | None:
        if asked.method != "PUT":
            return None
        status, etag = self.put(
            asked.path,
            asked.body,
            if_match=asked.headers.get("If-Match", ""),
            if_none_match=asked.headers.get("If-None-Match", ""),
        )
        return Told(200, headers={"ETag": etag}) if status == 200 else Told(200, error="PreconditionFailed")


@dataclass
class LeakyNowAndThen(Bucket):
    """In some races a second writer gets in, as after a check and a write in two steps. share: of the races."""

    share: float = 0.05
    seed: int = 0
    window_s: float = 0.5
    won: dict[tuple[str, str], tuple[float, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        condition = (key, if_match or if_none_match)
        with self.mutex:
            at_s, leaks = self.won.get(condition, (0.0, False))
            if leaks and "race" in key and time.monotonic() - at_s < self.window_s:
                self.won[condition] = (0.0, False)
                return super().put(key, body, if_match="", if_none_match="")
            status, etag = super().put(key, body, if_match=if_match, if_none_match=if_none_match)
            if status == 200 and condition[1] and "race" in key:
                self.won[condition] = (time.monotonic(), self.random.random() < self.share)
            return status, etag


@dataclass
class Deduplicates(Bucket):
    """A request that came before is answered as then, and not asked again."""

    answered: dict[tuple[str, bytes, str, str], tuple[int, str]] = field(default_factory=dict)

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        asked = (key, body, if_match, if_none_match)
        with self.mutex:
            if asked not in self.answered:
                told = super().put(key, body, if_match=if_match, if_none_match=if_none_match)
                if told[0] != 200:
                    return told
                self.answered[asked] = told
            return self.answered[asked]


@dataclass
class Versioned(Bucket):
    """A bucket that keeps former versions, and lists none. lies: "" for none, or one of these.

    `no create over a marker`: RustFS (#1610). `markers are no absence`: a replacement brings a deleted object back.
    """

    lies: str = ""
    deleted: dict[str, str] = field(default_factory=dict)

    def intercept(self, asked: Asked) -> Told | None:
        if asked.method == "GET" and "versioning" in asked.query:
            return Told(200, body=b"<R><Status>Enabled</Status></R>")
        return None

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        if key in self.deleted and key not in self.objects:
            if self.lies == "no create over a marker" and if_none_match:
                return 412, ""
            if self.lies == "markers are no absence" and if_match == self.deleted[key]:
                if_match = ""
        return super().put(key, body, if_match=if_match, if_none_match=if_none_match)

    def delete(self, key: str, *, if_match: str) -> int:
        before = self.objects.get(key)
        status = super().delete(key, if_match=if_match)
        if status == 204 and before is not None:
            self.deleted[key] = before[1]
        return status


@dataclass
class Refusing(Bucket):
    """Every request that `refuses` says yes to gets this answer."""

    told: Told = field(default_factory=lambda: Told(403, error="AccessDenied"))

    def refuses(self, asked: Asked) -> bool:
        return True

    def intercept(self, asked: Asked) -> Told | None:
        return self.told if self.refuses(asked) else None


class NoPlainWrites(Refusing):
    """A bucket policy that demands a condition of every write."""

    def refuses(self, asked: Asked) -> bool:
        is_bare = "If-Match" not in asked.headers and "If-None-Match" not in asked.headers
        return asked.method == "PUT" and is_bare


@dataclass
class NoConditions(Refusing):
    """A store that knows no conditional writes, and says so."""

    told: Told = field(default_factory=lambda: Told(501, error="NotImplemented"))

    def refuses(self, asked: Asked) -> bool:
        return "If-Match" in asked.headers or "If-None-Match" in asked.headers


class NoPlainDeletes(Refusing):
    """A bucket policy that demands a condition of every delete."""

    def refuses(self, asked: Asked) -> bool:
        return asked.method == "DELETE" and "If-Match" not in asked.headers


class NoReads(Refusing):
    """A bucket policy that forbids reads."""

    def refuses(self, asked: Asked) -> bool:
        return asked.method == "GET"


class ObjectLock(Refusing):
    """A bucket with object lock: a body needs its sum, and what is locked stays."""

    def intercept(self, asked: Asked) -> Told | None:
        if asked.method == "PUT" and "Content-MD5" not in asked.headers:
            return Told(400, error="InvalidRequest")
        return super().intercept(asked)

    def refuses(self, asked: Asked) -> bool:
        return asked.method == "DELETE"


@dataclass
class Listed(Bucket):
    """It lists its objects, `page` at a time. keeps: a delete is confirmed, and the object stays."""

    page: int = 1000
    keeps: bool = False

    def intercept(self, asked: Asked) -> Told | None:
        if asked.method != "GET" or "list-type" not in asked.query:
            return None
        root = f"{asked.path}/"
        with self.mutex:
            names = sorted(key.removeprefix(root) for key in self.objects)
        found = [name for name in names if name.startswith(asked.query["prefix"])][: self.page]
        inner = "".join(f"<Contents><Key>{name}</Key><ETag>e</ETag></Contents>" for name in found)
        return Told(200, body=f"<ListBucketResult>{inner}</ListBucketResult>".encode())

    def delete(self, key: str, *, if_match: str) -> int:
        return 204 if self.keeps else super().delete(key, if_match=if_match)


@dataclass
class SlowToShow(Bucket):
    """The first read of an object after a write shows what was there before."""

    fresh: set[str] = field(default_factory=set)

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        told = super().put(key, body, if_match=if_match, if_none_match=if_none_match)
        if told[0] == 200:
            self.fresh.add(key)
        return told

    def get(self, key: str) -> Object | None:
        if key in self.fresh:
            self.fresh.discard(key)
            return self.before.get(key)
        return super().get(key)


@dataclass
class Forgets(Bucket):
    """A write is confirmed and shown, and one in `every` is gone once other objects were written."""

    every: int = 5
    writes: int = 0
    doomed: list[tuple[str, bytes]] = field(default_factory=list)

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        with self.mutex:
            told = super().put(key, body, if_match=if_match, if_none_match=if_none_match)
            if told[0] == 200:
                self.writes += 1
                if self.writes % self.every == 0:
                    self.doomed.append((key, body))
                if len(self.doomed) > 1:
                    lost, was = self.doomed.pop(0)
                    if self.objects.get(lost, (b"", ""))[0] == was:
                        del self.objects[lost]
            return told


@dataclass
class Busy(Bucket):
    """Some writes that landed are answered with 503, as by a gateway that waits no longer. every: one in so many.

    at_first: so many requests are answered with 503 before any is carried out.
    """

    every: int = 0
    at_first: int = 0
    writes: int = 0

    def intercept(self, asked: Asked) -> Told | None:
        with self.mutex:
            self.at_first -= 1
            if self.at_first >= 0:
                return Told(503, error="SlowDown")
            if not self.every or asked.method != "PUT" or "race" not in asked.path:
                return None
            match, none_match = (asked.headers.get(name, "") for name in ("If-Match", "If-None-Match"))
            status, etag = self.put(asked.path, asked.body, if_match=match, if_none_match=none_match)
            if status != 200:
                return Told(status, error="PreconditionFailed")
            self.writes += 1
            return Told(503, error="SlowDown") if self.writes % self.every == 0 else Told(200, headers={"ETag": etag})


@dataclass
class Refuses(Bucket):
    """A condition that does not hold is refused with another status than the cloud's."""

    status: int = 400

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        status, etag = super().put(key, body, if_match=if_match, if_none_match=if_none_match)
        return self.status if status == 412 else status, etag
