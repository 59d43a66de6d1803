"""Who asks, and what they may do: the one question that every handler puts before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenperf.service.auth.tokens import Scope


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who asks.

    Attributes:
      name: for people and the audit log; never a secret.
      kind: ``anonymous``, ``token``, ``oidc`` (a CI job) or ``session`` (a person's browser).
      project_id: the one project that they may act in, or ``None`` for all of them.
      scopes: what they may do there; empty for a stranger.
      token_id: row of the token behind this, or ``None``.
      address: where the request came from.
      job: what GitHub vouches for (repository, ref, commit, run), where a CI job asks.
    """

    name: str
    kind: str = "anonymous"
    project_id: int | None = None
    scopes: frozenset[str] = frozenset()
    token_id: int | None = None
    address: str = ""
    job: Mapping[str, str] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether they proved who they are."""
        return bool(self.scopes)

    @property
    def everywhere(self) -> bool:
        """Whether they look after the whole service."""
        return self.project_id is None and Scope.ADMIN in self.scopes

    def may(self, scope: str, project_id: int, *, public: bool) -> bool:
        """Return whether they may do what needs ``scope`` in a project."""
        if scope == Scope.READ and public:
            return True
        return self.project_id in {None, project_id} and scope in self.scopes


ANONYMOUS = Identity(name="anonymous")
