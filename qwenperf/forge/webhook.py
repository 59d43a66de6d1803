"""A message to any address of the web, signed so that its receiver knows whose it is, and tried until it arrives.

The signature is HMAC-SHA256 of ``<timestamp>.<body>``: a receiver that checks it and the age can refuse a replay. Each
try has the same id, by which a receiver drops what it has already.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qwenperf.forge.api import ForgeError, check_address, trust

if TYPE_CHECKING:
    import httpx

SIGNATURE, TIMESTAMP, ID, EVENT = (f"X-Qwenperf-{name}" for name in ("Signature-256", "Timestamp", "Delivery", "Event"))
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_S, _LONGEST_S, _TIMEOUT_S = 1.0, 30.0, 10.0
TOLERANCE_S = 300
_SECONDS = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """Where messages go, and the secret that its receiver shares; ``patience_s`` for all tries together."""

    url: str
    secret: str = field(default="", repr=False)
    patience_s: float = 60.0
    say: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    def send(self, event: str, payload: Mapping[str, Any]) -> str:
        """Send a message and return its id.

        Raises:
          UsageError: the address is none.
          ForgeError: refused, or not taken until patience ended.
        """
        import httpx

        check_address(self.url, "the web", "Give https://HOST/PATH.")
        body, name = json.dumps(payload, allow_nan=False).encode(), str(uuid.uuid4())
        ends = self.clock() + self.patience_s
        with httpx.Client(verify=trust(), timeout=_TIMEOUT_S) as client:
            for attempt in range(1_000):
                why = self._once(client, event, name, body)
                if not why:
                    return name
                pause_s = random.uniform(0.5, 1) * min(_LONGEST_S, _FIRST_S * 2**attempt)  # noqa: S311
                if self.clock() + pause_s > ends:
                    raise ForgeError(f"the webhook was not taken: {why}.", is_away=True)
                self.say(f"webhook: {why}; trying again in {pause_s:.1f} s")
                self.sleep(pause_s)
        raise AssertionError  # pragma: no cover

    def _once(self, client: httpx.Client, event: str, name: str, body: bytes) -> str:
        """Try once: empty where it was taken, else why it may be tried again."""
        import httpx

        at = str(int(self.now()))
        headers = {"Content-Type": "application/json", EVENT: event, ID: name, TIMESTAMP: at}
        if self.secret:
            headers[SIGNATURE] = signature(self.secret, at, body)
        try:
            answer = client.post(self.url, content=body, headers=headers)
        except httpx.RequestError as error:
            return str(error) or type(error).__name__
        if answer.status_code in _LATER:
            return str(answer.status_code)
        if not answer.is_success:
            raise ForgeError(f"the webhook was refused: {answer.status_code}.", status=answer.status_code)
        return ""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return what stands in the header of the signature."""
    made = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={made.hexdigest()}"


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Say whether a message is from somebody who knows the secret, and not older than five minutes."""
    known = {name.lower(): value for name, value in headers.items()}
    at, seen = known.get(TIMESTAMP.lower(), ""), known.get(SIGNATURE.lower(), "")
    # Anybody may send such headers, with digits of any script and any number.
    fresh = _SECONDS.fullmatch(at) is not None and abs(now - int(at)) <= TOLERANCE_S
    return fresh and hmac.compare_digest(signature(secret, at, body).encode(), seen.encode())
