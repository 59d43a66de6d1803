"""What GitHub's runner offers a job, and a service that takes its identity: for tests of jobs that push."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


def allow(service, project="first", **policy):
    """Let jobs push to a project, and return the number of the policy."""
    body = {"repository": "owner/name", "repository_id": "4711"} | policy
    answer = service.ask("POST", f"/api/v1/projects/{project}/oidc", service.admin, json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def exchange(service, text, project="first"):
    """Show an identity."""
    return service.ask("POST", "/api/v1/oidc/exchange", json={"project": project, "token": text})


@contextmanager
def runner(issuer):
    """What GitHub's runner offers its jobs: an address that signs for an audience, and a token for it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            held = self.headers["Authorization"] == "Bearer runner's" and query.get("api-version") == "2.0"
            body = json.dumps({"value": issuer.sign(aud=query["audience"])} if held else {}).encode()
            self.send_response(200 if held else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/sign?api-version=2.0"
    yield {"ACTIONS_ID_TOKEN_REQUEST_URL": url, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner's"}
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def called_by_its_address(running):
    """Let identities be for the service's address, as they are where an operator says no audience."""
    before = running.service.settings
    object.__setattr__(running.service, "settings", replace(before, oidc_audience="", public_url=running.url))
    yield
    object.__setattr__(running.service, "settings", before)
