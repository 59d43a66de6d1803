"""The operations on whom a project tells: its webhook and its repository on GitHub."""

from __future__ import annotations

from qwenperf.service.api import github, webhooks
from qwenperf.service.api.operations import LIMIT, PREFIX, Handler, Operation, Schema, flag, many, named, text, thing
from qwenperf.service.outward import REPOSITORY_MOST, SECRET_LEAST, SECRET_MOST

_PROJECT = f"{PREFIX}/projects/{{project}}"
_WEBHOOK = thing(
    {"secret": text("Left out, one is made.", minLength=SECRET_LEAST, maxLength=SECRET_MOST)},
    url=text("https://HOST/PATH"),
)
_LINK = thing(
    {"tokens": flag("Tell of what is pushed with a token, too: its commit is the record's word.")},
    repository=text("OWNER/NAME", maxLength=REPOSITORY_MOST),
    repository_id=text("gh api repos/OWNER/NAME --jq .id", pattern="^[1-9][0-9]{0,17}$"),
)


def _one(
    name: str, place: str, handlers: tuple[Handler, Handler, Handler], about: tuple[str, str, str], body: Schema
) -> tuple[Operation, ...]:
    """Return the operations on what a project has one of or none: show it, set it, remove it."""
    path, (show, put, remove), (shown, set_, removed) = f"{_PROJECT}/{place}", handlers, about
    answers = {200: named(name)}
    return (
        Operation(
            id=f"get{name}", method="GET", path=path, handler=show, scope="admin", about=shown, answers=answers
        ),
        Operation(
            id=f"set{name}", method="PUT", path=path, handler=put, scope="admin", about=set_, body=body,
            answers=answers, problems=(413, 415, 422),
        ),
        Operation(
            id=f"remove{name}", method="DELETE", path=path, handler=remove, scope="admin", about=removed,
            answers={204: None},
        ),
    )  # fmt: skip


def _log(name: str, place: str, handler: Handler, about: str, answer: Schema) -> Operation:
    """Return the operation that lists what was sent."""
    return Operation(
        id=name, method="GET", path=f"{_PROJECT}/{place}", handler=handler, scope="admin", about=about,
        parameters=(LIMIT,), answers={200: answer}, problems=(422,),
    )  # fmt: skip


OUTWARD = (
    *_one(
        "Webhook", "webhook", (webhooks.show, webhooks.put, webhooks.remove),
        (
            "Where messages about alerts go.",
            "Send messages about alerts to an address, signed; the first is a ping.",
            "Send no more messages; what waits is given up.",
        ),
        _WEBHOOK,
    ),
    _log(
        "listDeliveries", "deliveries", webhooks.deliveries,
        "What became of messages to the webhook, the latest first; for 30 days.",
        thing(deliveries=many(named("Delivery"))),
    ),
    *_one(
        "GitHubLink", "github", (github.show, github.put, github.remove),
        (
            "Which repository's commits and pull requests hear of what arrives.",
            "Link the project to a repository on GitHub; for admins of the whole service.",
            "Tell GitHub no more; what waits is given up.",
        ),
        _LINK,
    ),
    _log(
        "listGitHubPosts", "github/posts", github.posts,
        "What GitHub was told of the project's records, the latest first.",
        thing(posts=many(named("GitHubPost"))),
    ),
)  # fmt: skip
