"""A service that speaks as much of S3 as a store needs, and goes wrong when a test asks for it.

What the answers look like is in the Amazon S3 API Reference. `make test-s3` runs the same tests
with the server of moto, which others have written.
"""

import os
import re
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import requests

from tonframes.bucket import BucketPath

PAGE = 1000
ISO = "%Y-%m-%dT%H:%M:%S.000Z"


class Bucket:
    """The objects of a service, the requests that came, and what goes wrong.

    `faults` are called with the method and the key before a request is answered: each may return a
    status and the code of an error, or None. `after` are called when an object is put, before the
    answer. Of the keys in `cut` only half of an answer is sent.
    """

    def __init__(self, url, name):
        self.host, self.name = url, name
        self.objects = {}
        self.times = {}
        self.requests = []
        self.puts = []
        self.sent = 0
        self.page = PAGE
        self.faults = []
        self.after = []
        self.cut = set()

    def url(self, path="ton", bucket=None):
        return (
            f"s3://{bucket or self.name}/{path}?endpoint_override={self.host}&region=us-east-1"
            "&scheme=http"
        )

    def names(self, prefix="ton/"):
        return sorted(key.removeprefix(prefix) for key in self.objects if not key.endswith("/"))

    def read(self, key):
        return self.objects[key]

    def delete(self, key):
        del self.objects[key]

    def put(self, key, content):
        self.puts.append((key, content))
        self.objects[key], self.times[key] = content, time.time()


@contextmanager
def serving(name="bucket"):
    """Serve one bucket on a port of this computer."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.bucket = Bucket(f"127.0.0.1:{server.server_port}", name)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.bucket
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _begin(self):
        """Return the key and the parameters; None if the request was refused."""
        parts = urlsplit(self.path)
        name, _, key = unquote(parts.path).lstrip("/").partition("/")
        self.content = self._content()
        bucket = self.server.bucket
        bucket.requests.append((self.command, key or unquote(parts.query)))
        if name != bucket.name:
            self._refuse(404, "NoSuchBucket")
            return None
        for fault in list(bucket.faults):
            if found := fault(self.command, key or "?"):
                self._refuse(*found)
                return None
        return key, parse_qs(parts.query, keep_blank_values=True)

    def _content(self):
        """Read what was sent: AWS's own chunks, perhaps within those of HTTP."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return content
        found = b""
        while content:  # each chunk has a line with its size before it
            line, _, content = content.partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            if not size:
                break
            found, content = found + content[:size], content[size + 2 :]
        return found

    def _answer(self, status, content=b"", **headers):
        self.send_response(status)
        length = headers.pop("Content_Length", len(content))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.server.bucket.sent += len(content)
            self.wfile.write(content)

    def _refuse(self, status, code):
        said = "AKIAEXAMPLE wJalrXUtnFEMI"  # a service that repeats what it got
        text = f"<Error><Code>{code}</Code><Message>{said}</Message></Error>"
        self._answer(status, b"" if self.command == "HEAD" else text.encode())

    def _moment(self, key, form):
        return time.strftime(form, time.gmtime(self.server.bucket.times[key]))

    def _about(self, key):
        return {
            "Last_Modified": self._moment(key, "%a, %d %b %Y %H:%M:%S GMT"),
            "Accept_Ranges": "bytes",
            "ETag": '"0"',
        }

    def do_HEAD(self):
        if begun := self._begin():
            key, objects = begun[0], self.server.bucket.objects
            if not key:
                self._answer(200)
            elif key in objects:
                self._answer(200, Content_Length=len(objects[key]), **self._about(key))
            else:
                self._refuse(404, "NoSuchKey")

    def do_GET(self):
        if begun := self._begin():
            key, parameters = begun
            objects = self.server.bucket.objects
            if not key:
                self._list(parameters)
            elif key not in objects:
                self._refuse(404, "NoSuchKey")
            else:
                whole, part = (
                    objects[key],
                    re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")),
                )
                start, stop = (int(part[1]), int(part[2]) + 1) if part else (0, len(whole))
                content = whole[start:stop]
                about = self._about(key)
                about["Content_Range"] = f"bytes {start}-{start + len(content) - 1}/{len(whole)}"
                about["Content_Length"] = len(content)
                if key in self.server.bucket.cut:
                    content = content[: len(content) // 2]
                    self.close_connection = True
                self._answer(206 if part else 200, content, **about)

    def _list(self, parameters):
        (prefix,) = parameters.get("prefix", [""])
        (after,) = parameters.get("continuation-token", [""])
        most = min(self.server.bucket.page, int(parameters.get("max-keys", [PAGE])[0]))
        delimited = "delimiter" in parameters
        objects = self.server.bucket.objects
        found = {}
        for key in sorted(objects):
            if key.startswith(prefix):
                rest = key[len(prefix) :]
                folder, slash, _ = rest.partition("/")
                found[prefix + folder + slash if delimited and slash else key] = bool(slash)
        rows = [name for name in sorted(found) if name > after]
        page = rows[:most]
        text = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            if delimited and name.endswith("/") and name != prefix
            else f"<Contents><Key>{escape(name)}</Key><Size>{len(objects[name])}</Size>"
            f"<LastModified>{self._moment(name, ISO)}</LastModified></Contents>"
            for name in page
        )
        more = len(page) < len(rows)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        self._answer(
            200,
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{text}"
            f"<KeyCount>{len(page)}</KeyCount></ListBucketResult>".encode(),
        )

    def do_PUT(self):
        if begun := self._begin():
            key, bucket = begun[0], self.server.bucket
            if source := self.headers.get("x-amz-copy-source"):
                _, _, name = unquote(source).lstrip("/").partition("/")
                if name not in bucket.objects:
                    self._refuse(404, "NoSuchKey")
                    return
                bucket.put(key, bucket.objects[name])
                self._answer(200, b"<CopyObjectResult><ETag>0</ETag></CopyObjectResult>")
                return
            bucket.put(key, self.content)
            for done in list(bucket.after):
                done(self.command, key)
            self._answer(200, ETag='"0"')

    def do_DELETE(self):
        if begun := self._begin():
            self.server.bucket.objects.pop(begun[0], None)
            self._answer(204)


# ── the server of moto ───────────────────────────────────────────────────────────────────────────

#: `make test-s3` makes an environment for it, because it needs older packages than we do.
MOTO = Path(__file__).parents[1] / ".venv-s3" / "bin" / "moto_server"


class Moto:
    """A bucket that the server of moto holds."""

    def __init__(self, host):
        self.host = host
        requests.put(f"http://{host}/bucket", timeout=10).raise_for_status()

    url = Bucket.url
    name = "bucket"

    def read(self, key):
        return BucketPath.from_url(self.url(key)).read_bytes()

    def delete(self, key):
        BucketPath.from_url(self.url(key)).delete()


@contextmanager
def moto():
    """Serve one bucket by the server of moto."""
    command = [os.environ.get("MOTO_SERVER", str(MOTO)), "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            host = next(
                found[1] for line in lines if (found := re.search("http://(.+:[0-9]+)", line))
            )
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield Moto(host)
        finally:
            process.terminate()
