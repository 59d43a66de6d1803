"""Whoever has an answer already is told so, and is not sent it again."""

import pytest


@pytest.fixture
def filled(project, documents):
    """A project with one run."""
    project.post("/runs", documents.run(1))
    return project


READ = (
    "", "/runs", "/runs/run-000001", "/runs/run-000001/record", "/runs/run-000001/verdicts", "/runs/run-000001/files",
    "/series", "/series/window?case=tiny/cached&metric=tpot_s", "/compare?base=run-000001&head=run-000001",
    "/comparisons", "/alerts", "/environments", "/badge.svg", "/badge.svg?case=tiny/cached&metric=tpot_s",
)  # fmt: skip


def test_what_is_read_has_a_tag_and_is_not_sent_to_who_has_it(filled, documents):
    """Until it changes: then the whole answer comes, with another tag."""
    tags = {}
    for path in READ:
        answer = filled.ask("GET", path, 200)
        tags[path] = answer.headers["etag"]
        again = filled.ask("GET", path, 304, headers={"If-None-Match": f'"other", W/{tags[path]}'})
        assert (again.content, again.headers["etag"]) == (b"", tags[path])
        assert again.headers["cache-control"] == answer.headers["cache-control"]
        assert again.headers["vary"] == answer.headers["vary"]
        assert filled.ask("HEAD", path, 200).headers["etag"] == tags[path]
    filled.post("/runs", documents.run(2, value=2.0))
    for path in ("", "/runs", "/series", "/badge.svg?case=tiny/cached&metric=tpot_s"):
        answer = filled.ask("GET", path, 200, headers={"If-None-Match": tags[path]})
        assert answer.headers["etag"] != tags[path]


def test_a_tag_opens_nothing(filled):
    """Who may not read an answer does not learn by its tag whether it is still so."""
    tag = filled.ask("GET", "/runs", 200).headers["etag"]
    with filled.server.client("") as http:
        for held in (tag, "*"):
            assert http.get(f"{filled.path}/runs", headers={"If-None-Match": held}).status_code == 401
    filled.ask("GET", "/runs/absent", 404, headers={"If-None-Match": "*"})


def test_what_nobody_may_keep_has_no_tag(filled):
    """Tokens and the audit log, and how far an upload came."""
    told = {"path": "a.pb", "size": 5, "sha256": "0" * 64}
    upload = filled.post("/runs/run-000001/files", told)["upload"]
    for path in ("/tokens", "/audit", f"/uploads/{upload}"):
        assert "etag" not in filled.ask("GET", path, 200, headers={"If-None-Match": "*"}).headers
    filled.ask("DELETE", f"/uploads/{upload}", 204)
