"""A real issuer of identity tokens on this machine: keys, discovery document, signatures; what GitHub is in earnest."""

import json
import threading
import time
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "https://perf.example.org"


@cache
def key(name):  # noqa: ARG001  (what the cache goes by)
    """Return the private key of this name; a new one takes a fraction of a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public(name):
    """Return the public key of this name as an issuer shows it."""
    shown = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key(name).public_key()))
    return shown | {"kid": name, "use": "sig", "alg": "RS256"}


class Issuer:
    """What the issuer shows, and how often it was asked."""

    def __init__(self, url):
        self.url = url
        self.shown = [public("first")]
        self.status = 200
        self.asked = []

    def claims(self, **changed):
        """Return what a job of this repository's main branch says of itself."""
        now = int(time.time())
        said = {
            "iss": self.url, "aud": AUDIENCE, "iat": now, "nbf": now, "exp": now + 300, "jti": f"id-{time.time_ns()}",
            "sub": "repo:owner/name:ref:refs/heads/main", "repository": "owner/name", "repository_id": "4711",
            "ref": "refs/heads/main", "sha": "a" * 40, "event_name": "push", "run_id": "17", "run_attempt": "1",
            "job_workflow_ref": "owner/name/.github/workflows/perf.yml@refs/heads/main",
        }  # fmt: skip
        said |= changed
        return {name: value for name, value in said.items() if value is not None}

    def sign(self, name="first", kid=None, **changed):
        """Return a signed statement; claims that are ``None`` are left out."""
        return jwt.encode(self.claims(**changed), key(name), algorithm="RS256", headers={"kid": kid or name})


@contextmanager
def running():
    """Serve an issuer over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            issuer.asked.append(self.path)
            documents = {
                "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"},
                "/keys": {"keys": issuer.shown},
            }
            found = documents.get(self.path)
            body = json.dumps(found).encode()
            self.send_response(issuer.status if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
