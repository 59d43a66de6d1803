"""What this machine can do at best: bytes read per second and FLOPs per second, measured on the spot.

One read kernel alone understates the memory's ceiling, so several are tried, on one thread and on all;
the best counts. Results are kept for a week for each environment.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from qwenperf import units
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.measure.environment import busy, last_level_caches_bytes, usable_cores, usable_memory_bytes
from qwenperf.schema.records import Roofline
from qwenperf.settings import cache_folder

MAX_AGE_S = 7 * 24 * 3600.0
_BUSY_AGE_S = 3600.0
"""How long a roofline is kept that was measured while the machine had other work."""
_READ_BUDGET_S = 1.0
_TRIALS = 5
_COLUMNS = 1024
_RATES = ("bytes_per_s", "flops_per_s")
_BY_DTYPE = "flops_per_s_by_dtype"
_DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}
_READS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "sum": jnp.sum,
    "row product": lambda rows: jnp.ones((1, rows.shape[0]), rows.dtype) @ rows,
    "column product": lambda rows: rows @ jnp.ones((rows.shape[1],), rows.dtype),
}


@dataclass(frozen=True, kw_only=True)
class _Best:
    rate: float
    how: str


def measure_roofline(
    environment_fingerprint: str,
    cache_dir: Path | None = None,
    *,
    max_age_s: float = MAX_AGE_S,
    now: Callable[[], float] = time.time,
    measure: Callable[[float], Roofline] | None = None,
) -> Roofline:
    """Return the roofline of this environment, from the cache if it is there, whole and young enough.

    ``flops_per_s`` is for f32; ``extra["flops_per_s_by_dtype"]`` has the other dtypes.
    """
    file = (cache_dir or _default_cache_dir()) / f"{environment_fingerprint}.json"
    at = now()
    kept = _load(file, at - max_age_s, at)
    if kept is None or (_was_busy(kept) and at - kept.extra["measured_at"] > _BUSY_AGE_S):
        kept = _higher((measure or measure_now)(at), kept)
        _save(file, kept)
    return kept


def _was_busy(kept: Roofline) -> bool:
    return busy(kept.extra["load"], usable_cores())


def _higher(measured: Roofline, kept: Roofline | None) -> Roofline:
    """Return the new measurement, with each rate that was kept in its place where other work slowed it down below that.

    Time and load are the new one's, so that it is not measured again at once; ``since`` is when the oldest rate was
    measured, which is what becomes out of date.
    """
    if kept is None:
        return measured
    rates = {name: max(getattr(measured, name), getattr(kept, name)) for name in _RATES}
    now, before = (_by_dtype(one) for one in (measured, kept))
    products = {name: max(rate, before.get(name, 0.0)) for name, rate in now.items()}
    old = [name for name, rate in rates.items() if rate > getattr(measured, name)]
    old += [name for name, rate in products.items() if rate > now[name] and name != "f32"]
    if not old:
        return measured
    extra = {**measured.extra, "since": _oldest(kept)} | ({_BY_DTYPE: products} if products else {})
    source = f"{measured.source}; higher when measured before: {', '.join(old)}"
    return replace(measured, **rates, source=source, extra=extra)


def _by_dtype(one: Roofline) -> dict[str, float]:
    return dict(one.extra.get(_BY_DTYPE, {}))


def _oldest(kept: Roofline) -> float:
    """Return when the oldest of its rates was measured."""
    return float(kept.extra.get("since", kept.extra["measured_at"]))


def measure_now(at: float) -> Roofline:
    """Measure, whatever is kept; ``at`` is the time of day in seconds, for the record."""
    with CompileLog(explain=False) as log:
        clock = Clock(log)
        size = _array_bytes()
        reads = max(_read_rates(clock, size), key=lambda best: best.rate)
        products = {name: _product_rate(clock, dtype) for name, dtype in _DTYPES.items()}
    moment = datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="seconds")
    return Roofline(
        bytes_per_s=reads.rate,
        flops_per_s=products["f32"].rate,
        source=f"read by {reads.how} of {units.byte_count(size)}; {products['f32'].how}; best of {_TRIALS}, {moment}",
        extra={
            "measured_at": at,
            "load": os.getloadavg()[0],
            "last_level_cache_bytes": last_level_caches_bytes(),
            _BY_DTYPE: {name: best.rate for name, best in products.items()},
        },
    )


def _array_bytes() -> int:
    """Return a size that no cache holds: four times the last level's, 64 MB to 512 MB, and twice it where that is more.

    The last level is that of all cores together, for all of them read. No more than a quarter of the memory is taken.

    On an accelerator 1 to 4 GB.

    One read is one dispatch, whose tenth of a millisecond must not count: an H100 reads 1 GB in less than half of one.
    """
    if jax.default_backend() != "cpu":
        limit = int((jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0))
        return min(max(limit // 8, 1 << 30), 4 << 30)
    cache, memory = last_level_caches_bytes() or 0, usable_memory_bytes() or 16 << 30
    wanted = max(min(max(4 * cache, 64 << 20), 512 << 20), min(2 * cache, 4 << 30))
    return min(wanted, max(64 << 20, memory // 4))


def _read_rates(clock: Clock, size: int) -> Iterator[_Best]:
    cores = usable_cores() if jax.default_backend() == "cpu" else 1
    spent_s = 0.0
    for threads in sorted({1, cores}, reverse=True):
        rows = size // (4 * _COLUMNS * threads)
        parts = [jnp.full((rows, _COLUMNS), 0.5, jnp.float32) for _ in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            for name, kernel in _READS.items():
                if spent_s > _READ_BUDGET_S:
                    return
                best_s, took_s = _best_s(clock, jax.jit(kernel), parts, pool)
                spent_s += took_s
                plural = "s" if threads > 1 else ""
                yield _Best(rate=threads * rows * _COLUMNS * 4 / best_s, how=f"{name} on {threads} thread{plural}")


def _best_s(
    clock: Clock, kernel: Callable[[jax.Array], jax.Array], parts: Sequence[jax.Array], pool: ThreadPoolExecutor
) -> tuple[float, float]:
    """Return the shortest time in which all ``parts`` were read, each by a thread of its own, and that of all tries."""

    def read_all() -> list[jax.Array]:
        return list(pool.map(kernel, parts))

    first_s = clock.call(read_all).seconds
    samples = clock.window(read_all, _TRIALS).samples_s
    return min(samples), first_s + sum(samples)


def _product_rate(clock: Clock, dtype: Any) -> _Best:
    """Multiply square matrices, the larger size only where the smaller one is quick."""
    sizes = (1024, 2048) if jax.default_backend() == "cpu" else (4096, 8192)
    product = jax.jit(jnp.matmul)
    best = _Best(rate=0.0, how="")
    for size in sizes:
        square = jnp.full((size, size), 0.5, dtype)
        _, first_s = clock.call(lambda square=square: product(square, square))  # type: ignore[misc]
        samples = clock.window(lambda square=square: product(square, square), _TRIALS).samples_s  # type: ignore[misc]
        rate = 2.0 * size**3 / min(samples)
        best = max(best, _Best(rate=rate, how=f"matrix product {size}"), key=lambda one: one.rate)
        if min(samples) > 0.02 or first_s > 1.0:
            break
    return best


def _default_cache_dir() -> Path:
    return cache_folder(os.environ) / "roofline"


def _load(file: Path, oldest: float, newest: float) -> Roofline | None:
    """Read a kept roofline; ``None`` for one that is missing, damaged, out of date or from the future."""
    try:
        kept = Roofline(**json.loads(file.read_text()))
        if not (isinstance(kept.extra, dict) and isinstance(kept.source, str)):
            return None
        usable = oldest <= _oldest(kept) <= kept.extra["measured_at"] <= newest and kept.extra["load"] >= 0.0
        rates = (kept.bytes_per_s, kept.flops_per_s, *_by_dtype(kept).values())
        return kept if usable and all(math.isfinite(rate) and rate > 0 for rate in rates) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _save(file: Path, kept: Roofline) -> None:
    """Write ``kept`` in one go; a cache that cannot be written only costs the time to measure again."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        with os.fdopen(handle, "w") as stream:
            json.dump(asdict(kept), stream, indent=1)
        Path(temporary).replace(file)
