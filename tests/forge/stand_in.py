"""GitHub as far as qwenperf asks it: a server on this machine that checks every request against GitHub's own schemas.

What it answers is checked against them, too. It can be told to fail, before it does what is asked or after.
"""

import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import jsonschema

DESCRIPTION = json.loads(Path(__file__).with_name("github_openapi.json").read_text())
REPOSITORY, FORK, SHA, OTHER = "acme/engine", "stranger/engine", "a" * 40, "b" * 40
RATE_LIMIT = {"message": "API rate limit exceeded for installation."}


def resolved(reference):
    """Return what ``#/components/...`` refers to."""
    node = DESCRIPTION
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


def plain(schema, seen=()):
    """Return a schema of OpenAPI 3.0 as JSON Schema: references replaced, ``nullable`` spelled out."""
    if isinstance(schema, list):
        return [plain(one, seen) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {} if schema["$ref"] in seen else plain(resolved(schema["$ref"]), (*seen, schema["$ref"]))
    made = {key: plain(value, seen) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") is True else made


def sample(schema):  # noqa: PLR0911  (one kind of value a line)
    """Return the least that a schema allows, with every required property."""
    for word in ("anyOf", "oneOf"):
        if word in schema and "properties" not in schema:
            return sample(schema[word][0])
    if "allOf" in schema:
        return {key: value for one in schema["allOf"] for key, value in sample(one).items()}
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type", "object"):
        case "object":
            properties = schema.get("properties", {})
            return {name: sample(properties.get(name, {})) for name in schema.get("required", ())}
        case "array":
            return []
        case "string":
            return {"date-time": "2026-11-28T00:00:00Z", "uri": "https://example.test/"}.get(schema.get("format"), "x")
        case "integer" | "number":
            return 1
        case _:
            return False


class Operations:
    """The operations by path, with their schemas."""

    def __init__(self):
        self._by_path = []
        for path, methods in DESCRIPTION["paths"].items():
            pattern = re.compile(re.sub(r"\{[a-z_]+\}", "([^/]+)", path))
            for method, operation in methods.items():
                self._by_path.append((pattern, method.upper(), plain(operation)))

    def of(self, method, path):
        """Return the operation that a request asks for, ``None`` where GitHub has none such."""
        found = (one for pattern, name, one in self._by_path if name == method and pattern.fullmatch(path))
        return next(found, None)


OPERATIONS = Operations()


def troubles(operation, query, body):
    """Yield what GitHub's description has against a request."""
    known = {one["name"]: one["schema"] for one in operation["parameters"] if one["in"] == "query"}
    for name, text in query.items():
        schema = known.get(name)
        if schema is None:
            yield f"no parameter {name}"
        else:
            value = int(text) if schema.get("type") == "integer" and text.isdigit() else text
            yield from (error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value))
    if "requestBody" not in operation:
        if body is not None:
            yield "a body where none is taken"
        return
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    yield from (error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(body))
    yield from (f"no property {name}" for name in set(body or ()) - set(schema["properties"]))


class GitHubStandIn:
    """A repository with an open pull request from a fork, its comments, its checks and its artifacts."""

    def __init__(self):
        self.pulls = [{"number": 7, "sha": SHA, "head": FORK, "branch": "topic"}]
        self.comments, self.checks, self.artifacts = [], [], {}
        self.requests, self.troubles, self.failures = [], [], []
        self.login = {"type": "Bot", "association": "NONE"}
        self.number, self.merge = 4711, "c" * 40
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self):
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fail(self, what, status, message="Bad", *, times=1, after=False, **headers):
        """Answer requests whose ``METHOD path`` matches ``what`` so; ``after``: having done what was asked."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.failures += [(re.compile(what), status, {"message": message}, headers, after)] * times

    def comment(self, body, *, kind="Bot", association="NONE"):
        """Add somebody's comment."""
        number = len(self.comments) + 1
        self.comments.append({"id": number, "body": body, "type": kind, "association": association})
        return number

    def asked(self):
        """Count what was asked, by method and last part of the path that is no number."""
        return Counter(f"{one['method']} {re.sub(r'/[0-9]+', '/N', one['path'])}" for one in self.requests)

    def answer(self, method, path, query, body):  # noqa: C901, PLR0911, PLR0912  (one operation a case)
        """Return status and JSON for a request that is right."""
        tail = path.removeprefix(f"/repos/{REPOSITORY}")
        match method, tail.strip("/").split("/"):
            case "GET", ["pulls"]:
                owner, _, branch = query["head"].partition(":")
                found = (one for one in self.pulls if (one["head"].split("/")[0], one["branch"]) == (owner, branch))
                return 200, [self._pull(one) for one in found]
            case "GET", ["pulls", number]:
                found = [one for one in self.pulls if str(one["number"]) == number]
                return (200, self._pull(found[0])) if found else (404, {"message": "Not Found"})
            case "GET", ["issues", _, "comments"]:
                start = (int(query.get("page", 1)) - 1) * int(query["per_page"])
                return 200, [self._comment(one) for one in self.comments[start : start + int(query["per_page"])]]
            case "POST", ["issues", _, "comments"]:
                self.comment(body["body"], kind=self.login["type"], association=self.login["association"])
                return 201, self._comment(self.comments[-1])
            case "PATCH", ["issues", "comments", number]:
                found = [one for one in self.comments if one["id"] == int(number)]
                if not found:
                    return 404, {"message": "Not Found"}
                found[0]["body"] = body["body"]
                return 200, self._comment(found[0])
            case "POST", ["check-runs"]:
                self.checks.append({"id": len(self.checks) + 1, **body})
                return 201, self._check(self.checks[-1])
            case "PATCH", ["check-runs", number]:
                check = self.checks[int(number) - 1]
                check["output"]["annotations"] += body["output"]["annotations"]
                return 200, self._check(check)
            case "GET", ["commits", sha, "check-runs"]:
                found = [one for one in self.checks if (one["head_sha"], one["name"]) == (sha, query["check_name"])]
                listed = [self._check(one) for one in found]
                return 200, {"total_count": len(listed), "check_runs": listed}
            case "GET", [""]:
                return 200, self._like("GET", "/repos/o/r", id=self.number, full_name=REPOSITORY)
            case "GET", ["installation"]:
                return 200, self._like("GET", "/repos/o/r/installation", id=42)
            case "POST", ["app", "installations", "42", "access_tokens"]:
                return 201, self._like("POST", "/app/installations/42/access_tokens", token="ghs_installed")
            case "GET", ["actions", "runs", _, "artifacts"]:
                listed = [self._artifact(name, number) for number, (name, _) in self.artifacts.items()]
                return 200, {"total_count": len(listed), "artifacts": listed}
        return 404, {"message": "Not Found"}

    def _pull(self, pull):
        one = self._like("GET", "/repos/o/r/pulls/1", number=pull["number"])
        one["head"]["sha"] = pull["sha"]
        one["head"]["repo"] = {**(one["head"].get("repo") or {}), "full_name": pull["head"]}
        one["base"]["repo"] |= {"full_name": REPOSITORY, "id": self.number}
        return one | {"merge_commit_sha": self.merge}

    def _comment(self, comment):
        user = self._like("GET", "/repos/o/r/issues/1/comments", first=True)["user"]
        return self._like(
            "POST",
            "/repos/o/r/issues/1/comments",
            id=comment["id"],
            body=comment["body"],
            html_url=f"https://example.test/c/{comment['id']}",
            user={**user, "type": comment["type"]},
            author_association=comment["association"],
        )

    def _check(self, check):
        url = f"https://example.test/check/{check['id']}"
        told = {"id": check["id"], "name": check["name"], "html_url": url, "head_sha": check["head_sha"]}
        told |= {"conclusion": check["conclusion"], "external_id": check.get("external_id", "")}
        return self._like("POST", "/repos/o/r/check-runs", **told)

    def _artifact(self, name, number):
        listed = self._like("GET", "/repos/o/r/actions/runs/1/artifacts", item="artifacts")
        return {**listed, "id": number, "name": name, "expired": False}

    def _like(self, method, path, *, first=False, item=None, **fields):
        """Return the least that GitHub's description says of an answer, with ``fields``."""
        responses = OPERATIONS.of(method, path)["responses"]
        schema = next(iter(responses.values()))["content"]["application/json"]["schema"]
        schema = schema["items"] if first else schema["properties"][item]["items"] if item else schema
        return {**sample(schema), **fields}

    def _handler(stand_in):  # noqa: C901, N805  (the server makes handlers itself: they find us by this name)
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def _take(self):
                size = int(self.headers.get("content-length") or 0)
                data = self.rfile.read(size)
                place = urlsplit(self.path)
                told = {"method": self.command, "path": place.path, "headers": dict(self.headers)}
                stand_in.requests.append({**told, "body": json.loads(data) if data else None})
                if place.path.startswith("/blob/"):
                    return self._send(200, stand_in.artifacts[int(place.path.rpartition("/")[2])][1], {})
                return self._operate(place.path, dict(parse_qsl(place.query)), json.loads(data) if data else None)

            def _operate(self, path, query, body):
                what = f"{self.command} {path}"
                operation = OPERATIONS.of(self.command, path)
                if operation is None:
                    stand_in.troubles.append(f"{what}: GitHub has no such operation")
                    return self._json(404, {"message": "Not Found"})
                stand_in.troubles += (f"{what}: {one}" for one in troubles(operation, query, body))
                failure = next((one for one in stand_in.failures if one[0].fullmatch(what)), None)
                if failure is not None:
                    stand_in.failures.remove(failure)
                    if failure[4]:
                        stand_in.answer(self.command, path, query, body)
                    return self._json(failure[1], failure[2], failure[3])
                if path.endswith("/zip"):
                    number = path.split("/")[-2]
                    return self._send(302, b"", {"Location": f"{stand_in.url}/blob/{number}"})
                status, answer = stand_in.answer(self.command, path, query, body)
                self._check(what, operation, status, answer)
                return self._json(status, answer)

            def _check(self, what, operation, status, answer):
                if str(status) in operation["responses"]:
                    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
                    errors = jsonschema.Draft202012Validator(schema).iter_errors(answer)
                    stand_in.troubles += (f"the stand-in's answer to {what}: {error.message[:300]}" for error in errors)

            def _json(self, status, answer, headers=None):
                self._send(status, json.dumps(answer).encode(), {"Content-Type": "application/json", **(headers or {})})

            def _send(self, status, data, headers):
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = _take  # noqa: N815  (names that the library looks for)

        return Handler
