"""Objects in a bucket of S3 or Google Cloud Storage, as far as a store needs them.

A bucket has neither folders nor locks, and nothing in it is renamed: an object is put whole or not
at all, may be replaced as a whole, and what is listed or read afterwards is what was put last. Both
services guarantee this (Amazon S3 User Guide, “Amazon S3 data consistency model”; Google Cloud
Storage documentation, “Consistency”).
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from pyarrow import fs

from tonframes.errors import StoreError, did_you_mean, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

#: What the URLs of buckets begin with.
SCHEMES = ("s3", "gs")
#: What may follow the path in a URL; pyarrow's file systems have options of the same names.
OPTIONS = ("anonymous", "endpoint_override", "region", "scheme")
#: The values that some of them have.
_VALUES = {"anonymous": ("true", "false"), "scheme": ("https", "http")}

#: Seconds for a connection, and without a byte; and how often a request to S3 is sent. So a request
#: to a service that does not answer fails after about 40 seconds.
_CONNECT, _SILENT, _ATTEMPTS = 5.0, 10.0, 3
#: Google's client tries again until this time is over. If a service does not answer at all, it
#: waits for two minutes, which pyarrow cannot change.
_PATIENCE = timedelta(seconds=30)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
#: How pyarrow's errors name what the services answered. What follows is text of the service, which
#: may repeat headers of the request.
_AWS = re.compile(r"AWS Error (.+?) during (\w+) operation")
_CURL = re.compile(r"curlCode: \d+, ([\w ']+)")
_GOOGLE = re.compile(r"google::cloud::Status\((\w+)")
_UNREACHABLE = ("NETWORK_CONNECTION", "UNAVAILABLE", "DEADLINE_EXCEEDED")
_REFUSED = ("ACCESS_DENIED", "PERMISSION_DENIED", "UNAUTHENTICATED", "status 403", "status 401")


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a store is named by a URL, even if it has become a `Path`.

    Examples
    --------
    >>> is_url("s3://bucket/ton"), is_url("s3:/bucket/ton"), is_url("C:/ton")
    (True, True, False)
    """
    return _URL.match(os.fspath(path)) is not None


def local(path: str | os.PathLike[str], what: str) -> Path:
    """Return a path on this computer, to which something is written; a URL is a `ValueError`.

    Examples
    --------
    >>> local("s3://bucket/costs.csv", "write_csv")
    Traceback (most recent call last):
    ValueError: write_csv writes to a path on this computer, not to the URL of a bucket
    """
    if is_url(path):
        raise ValueError(f"{what} writes to a path on this computer, not to the URL of a bucket")
    return Path(path)


def is_bucket(path: str | os.PathLike[str]) -> bool:
    """Return whether a URL is that of a bucket."""
    return isinstance(path, str) and urlsplit(path).scheme in SCHEMES


class _Status(NamedTuple):
    """What is known of an object; the names are those of `os.stat_result`."""

    st_size: int
    st_mtime: float
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True, slots=True)
class BucketPath:
    """The name of an object, or of all objects whose names begin with it.

    It has those members of `pathlib.Path` that reading a store needs. It can be pickled: the
    connection is made anew. `key` is the bucket and the name, `options` what the URL said after
    `?`, in order, and `listed` what the service said of the object when it listed it.
    """

    scheme: str
    key: str
    options: tuple[tuple[str, str], ...] = ()
    listed: fs.FileInfo | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_url(cls, url: str | os.PathLike[str]) -> BucketPath:
        """Return the path that a URL names.

        A URL of another form is a `ValueError`, which does not quote it if it may have a password.
        """
        if not isinstance(url, str):
            raise TypeError(f"{shorten(os.fspath(url))} was a URL: pass it as text, not as a Path")
        parts = urlsplit(url)
        if "@" in parts.netloc or "@" in parts.query:
            raise ValueError(
                "the URL of the store has a name or a password before @ (not shown here): leave "
                "them out, and give credentials as the service's own tools take them, for S3 in "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or in ~/.aws/credentials"
            )
        if parts.scheme not in SCHEMES:
            raise ValueError(
                f"the URL of a store begins with s3:// or gs://, not {shorten(parts.scheme)}://; a "
                "store on this computer is named by its path"
            )
        options = parse_qsl(parts.query, keep_blank_values=True)
        for name, _ in options:
            if name not in OPTIONS:
                raise ValueError(
                    f"the URL of a store has no option {shorten(name)}: it may have "
                    f"{', '.join(OPTIONS)}{did_you_mean(name, OPTIONS)}"
                )
        for name, value in options:
            if value not in _VALUES.get(name, (value,)):
                raise ValueError(
                    f"{name} in the URL of a store is {' or '.join(_VALUES[name])}, not "
                    f"{shorten(value)}"
                )
        key = "/".join(part for part in f"{parts.netloc}{parts.path}".split("/") if part)
        if not parts.netloc or parts.fragment or {".", ".."} & set(key.split("/")):
            raise ValueError(
                f"{shorten(url)} does not name a store: expected {parts.scheme}://BUCKET/PATH"
            )
        return cls(parts.scheme, key, tuple(sorted(options)))

    def __str__(self) -> str:
        url = f"{self.scheme}://{self.key}"
        return f"{url}?{urlencode(self.options, safe=':/')}" if self.options else url

    @property
    def name(self) -> str:
        """The last part of the name."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The last part of the name without its suffix."""
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> BucketPath:
        """The name without its last part."""
        return BucketPath(self.scheme, self.key.rpartition("/")[0], self.options)

    def __truediv__(self, name: str) -> BucketPath:
        return BucketPath(self.scheme, f"{self.key}/{name}", self.options)

    def __lt__(self, other: BucketPath) -> bool:
        return self.key < other.key

    def absolute(self) -> BucketPath:
        """Return the path itself."""
        return self

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def iterdir(self) -> Iterator[BucketPath]:
        """List the objects of which this is the folder."""
        with self.doing("list"):
            # A prefix of which there are no objects is an empty folder.
            found = self.filesystem.get_file_info(fs.FileSelector(self.key, allow_not_found=True))
        for info in found:
            if info.type == fs.FileType.File:
                yield BucketPath(self.scheme, info.path, self.options, info)

    def stat(self) -> _Status:
        """Return size and time of an object; `FileNotFoundError` if there is none."""
        info = self.listed
        if info is None:
            with self.doing("look at"):
                info = self.filesystem.get_file_info(self.key)
        if info.type != fs.FileType.File:
            raise FileNotFoundError(str(self))
        moment = info.mtime_ns or 0
        return _Status(info.size, moment / 1e9, moment)

    def source(self) -> pa.NativeFile:
        """Open an object; each read asks for the bytes that it needs."""
        return self.filesystem.open_input_file(self.key)

    def exists(self) -> bool:
        """Return whether there is such an object, or a folder of this name that is not empty."""
        with self.doing("look at"):
            found = self.filesystem.get_file_info(self.key).type
        return bool(found != fs.FileType.NotFound)

    def read_bytes(self) -> bytes:
        """Read a small object; `FileNotFoundError` if there is none."""
        with self.doing("read"), self.source() as source:
            content: bytes = source.read()
        return content

    def check_bucket(self) -> None:
        """Raise `StoreError` unless the bucket is there, and may be looked at."""
        bucket = BucketPath(self.scheme, self.key.partition("/")[0], self.options)
        with bucket.doing("look at"):
            found = self.filesystem.get_file_info(bucket.key).type
        if found == fs.FileType.NotFound:
            path: Any = bucket
            raise StoreError(f"there is no bucket {bucket}: make it first", path=path)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def put(self, content: bytes) -> None:
        """Put an object whole, or leave what is there as it is."""
        # In another thread, which Ctrl-C does not interrupt: an interrupted `put` would close the
        # object, and so put a part of it.
        with self.doing(f"put {len(content):,} bytes into"), ThreadPoolExecutor(1) as pool:
            pool.submit(self._put, content).result()

    def _put(self, content: bytes) -> None:
        with self.filesystem.open_output_stream(self.key, compression=None) as sink:
            sink.write(content)

    def move(self, target: BucketPath) -> None:
        """Copy an object to another name, and delete it; `FileNotFoundError` if there is none."""
        with self.doing("move"):
            self.filesystem.move(self.key, target.key)

    def delete(self) -> None:
        """Delete an object, if there is one."""
        with self.doing("delete"):
            try:
                self.filesystem.delete_file(self.key)
            except FileNotFoundError:
                return

    # ── the service ──────────────────────────────────────────────────────────────────────────────

    @property
    def filesystem(self) -> fs.FileSystem:
        """The file system of pyarrow in which the object is called `key`."""
        return _file_system(self.scheme, self.key.partition("/")[0], self.options)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Turn errors of the service into a `StoreError` that says what was being done.

        If there is no such object, `FileNotFoundError` is raised.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            if "NO_SUCH_KEY" in str(error):
                raise FileNotFoundError(str(self)) from None
            raise self.failed(what, error) from None

    def failed(self, what: str, error: Exception) -> StoreError:
        """Return the error for a request that failed."""
        reason = said(error) or f"{type(error).__name__}"
        advice = ""
        if any(sign in reason for sign in _REFUSED):
            advice = "; check the credentials, and what they allow in this bucket"
        elif "NO_SUCH_BUCKET" in reason:
            advice = "; there is no such bucket: make it first"
        elif any(sign in reason for sign in _UNREACHABLE):
            advice = "; check the network, and endpoint_override if the URL has one"
        path: Any = self
        return StoreError(f"cannot {what} {self}: {reason}{advice}", path=path)


def said(error: BaseException) -> str | None:
    """Return what a service answered by the error that it caused; None for other errors.

    Texts of the service are left out: they may repeat headers of the request.
    """
    text = str(error)
    if found := _AWS.search(text):
        detail = _CURL.search(text)
        return f"{found[1]} during {found[2]}{f' ({detail[1]})' if detail else ''}"
    found = _GOOGLE.search(text)
    return found[1] if found else None


@lru_cache(16)
def _file_system(scheme: str, bucket: str, options: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    given: dict[str, Any] = dict(options)
    given["anonymous"] = given.get("anonymous", "false").lower() in ("true", "1")
    if scheme == "gs":
        given.pop("region", None)
        return fs.GcsFileSystem(**given, retry_time_limit=_PATIENCE)
    named = (
        given.keys() & {"region", "endpoint_override"}
        or {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}
        & os.environ.keys()
    )
    if not named:
        with BucketPath(scheme, bucket).doing("find the region of"):
            given["region"] = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        **given,
        connect_timeout=_CONNECT,
        request_timeout=_SILENT,
        # Small objects are put in one request.
        allow_delayed_open=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )
