"""A bucket that speaks the JSON API of Google Cloud Storage, in memory: what a client does with whole objects.

As its documentation says: uploads at once (multipart) and in pieces (resumable), downloads by range, lists by prefix
and delimiter, removal, ``moveTo`` and ``rewriteTo``. Nobody has to say who asks.
"""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

API, UPLOAD, DOWNLOAD = "/storage/v1/b/", "/upload/storage/v1/b/", "/download/storage/v1/b/"


class GcsServer:
    """Objects of one bucket by name, served at ``url``; with ``refuses`` everything is answered 403."""

    def __init__(self, bucket):
        self.bucket, self.objects, self.uploads, self.refuses = bucket, {}, {}, False
        self.lock = threading.RLock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": self}))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def stop(self):
        """Be away from now on."""
        self._http.shutdown()
        self._http.server_close()

    def told(self, name):
        """Return what the API tells of an object."""
        data = self.objects[name]
        md5 = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        return {"kind": "storage#object", "bucket": self.bucket, "name": name, "size": str(len(data)), "md5Hash": md5}

    def listed(self, query):
        """Return the objects below a prefix, and what lies deeper as prefixes."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        names = [name for name in sorted(self.objects) if name.startswith(prefix)]
        deep = [name for name in names if delimiter and delimiter in name[len(prefix) :]]
        cut = sorted({prefix + name[len(prefix) :].partition(delimiter)[0] + delimiter for name in deep})
        return {"items": [self.told(name) for name in names if name not in deep], "prefixes": cut}


def _parts(data, kind):
    """Return the contents of a multipart body, byte for byte."""
    boundary = b"--" + kind.partition("boundary=")[2].strip('"').encode()
    found = [re.split(rb"\r?\n\r?\n", part, maxsplit=1)[1] for part in data.split(boundary)[1:-1]]
    return [re.sub(rb"\r?\n\Z", b"", part) for part in found]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: GcsServer

    def log_message(self, *_):
        """Say nothing."""

    def _serve(self):
        self.data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self.store.lock:
            if self.store.refuses:
                self._no(403, "Forbidden")
            elif parts.path.startswith(UPLOAD):
                self._upload(parts.path)
            else:
                self._object(parts.path)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815  (as the base class calls them)

    def _object(self, path):
        begin = DOWNLOAD if path.startswith(DOWNLOAD) else API
        bucket, _, rest = path.removeprefix(begin).partition("/")
        names = [unquote(part) for part in rest.split("/")[1:]]
        if bucket != self.store.bucket or (names and names[0] not in self.store.objects):
            self._no(404, "No such object")
        elif not rest:
            self._answer(200, {"kind": "storage#bucket", "name": bucket})
        elif not names:
            self._answer(200, self.store.listed(self.query))
        elif self.command == "DELETE":
            del self.store.objects[names[0]]
            self._answer(204)
        elif self.command == "POST":
            self._copy(names)
        elif begin == DOWNLOAD:
            self._download(self.store.objects[names[0]])
        else:
            self._answer(200, self.store.told(names[0]))

    def _copy(self, names):
        source, verb, target = names[0], names[1], names[-1]
        self.store.objects[target] = self.store.objects[source]
        if verb == "moveTo":
            del self.store.objects[source]
            self._answer(200, self.store.told(target))
        else:
            self._answer(200, {"done": True, "resource": self.store.told(target)})

    def _download(self, data):
        wanted = self.headers.get("Range", "")
        if not wanted:
            self._answer(200, data)
            return
        start, _, end = wanted.removeprefix("bytes=").partition("-")
        first, last = int(start), min(int(end) if end else len(data), len(data) - 1)
        if first > last:
            self._no(416, "The requested range cannot be satisfied")
            return
        self._answer(206, data[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(data)}"})

    def _upload(self, path):
        number = self.query.get("upload_id")
        if self.query["uploadType"] == "multipart":
            told, content = _parts(self.data, self.headers["Content-Type"])
            self._keep(json.loads(told)["name"], content)
        elif number is None:
            number = f"u{len(self.store.uploads)}"
            self.store.uploads[number] = (json.loads(self.data)["name"], bytearray())
            self._answer(200, {}, {"Location": f"{self.store.url}{path}?uploadType=resumable&upload_id={number}"})
        elif self.command == "DELETE":
            del self.store.uploads[number]
            self._answer(499)
        else:
            self._piece(number)

    def _piece(self, number):
        name, came = self.store.uploads[number]
        came += self.data
        if self.headers["Content-Range"].endswith("/*"):
            self._answer(308, headers={"Range": f"bytes=0-{len(came) - 1}"})
        else:
            del self.store.uploads[number]
            self._keep(name, bytes(came))

    def _keep(self, name, data):
        self.store.objects[name] = data
        self._answer(200, self.store.told(name))

    def _no(self, status, message):
        self._answer(status, {"error": {"code": status, "message": message}})

    def _answer(self, status, content=b"", headers=None):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(body)
