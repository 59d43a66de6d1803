"""Sizes and work of an engine by formula, as the metric registry defines them. Nothing runs and nothing is compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from qwenperf.decode.cache import cache_bytes
from qwenperf.decode.engine import EngineFacts
from qwenperf.decode.reading import Piece, pieces
from qwenperf.decode.reuse import is_reused
from qwenperf.decode.state import byte_size
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params
from qwenperf.models.parameters import parameter_shapes
from qwenperf.workloads.engine import EngineSettings


@dataclass(frozen=True, kw_only=True)
class Work:
    """Counts the arithmetic of forward passes of one model and batch, in FLOPs (a multiply-add is 2).

    ``rows`` is how many rows a product with weights has at least; those that fill it up are counted.
    """

    config: ModelConfig
    batch: int
    rows: int = 1

    def forward(self, *, queries: int, keys: float) -> float:
        """Return the FLOPs of ``queries`` positions a row that each see ``keys``, with logits of the last."""
        config = self.config
        length, last = (max(positions, -(-self.rows // self.batch)) for positions in (queries, 1))
        linear = 2 * self.batch * (length * self._layer_parameters + last * config.vocab_size * config.hidden_size)
        heads = config.num_hidden_layers * config.num_attention_heads * config.head_dim
        return float(linear + 4 * self.batch * heads * queries * keys)

    @property
    def _layer_parameters(self) -> int:
        """Entries of the matrices of all layers, biases and norms left out."""
        shapes = parameter_shapes(self.config).items()
        return sum(math.prod(shape) for name, shape in shapes if name.startswith("layers.") and len(shape) > 1)


def engine_facts(
    *,
    config: ModelConfig,
    params: Params,
    settings: EngineSettings,
    capacity: int,
    allocated_bytes: int,
    batch: int,
    prompt_length: int,
    new_tokens: int,
) -> EngineFacts:
    """Return sizes and work of one workload.

    ``bytes_per_step`` and ``flops_per_step`` are what a step with a cache has to do, whatever the engine does: bytes
    with the whole cache (with blocks of keys, those that the average step reads), FLOPs with the keys that the average
    step of the request sees; ``flops_per_request`` counts what it does, masked keys and padding included.
    """
    # The first step sees the prompt and one new token, the last one all but one.
    filled = range(prompt_length + 1, prompt_length + max(new_tokens, 2))
    average_keys = prompt_length + new_tokens / 2
    if settings.window:
        average_keys = sum(min(settings.window, seen) for seen in filled) / len(filled)
    # Norms keep the model's dtype, whatever the matrices are stored as.
    itemsize = params["norm"]["weight"].dtype.itemsize
    positions = {"none": 0, "concat": prompt_length + new_tokens - 1, "static": capacity}[settings.cache]
    cached = partial(cache_bytes, config, batch, itemsize=itemsize, cache_dtype=settings.cache_dtype)
    kv_cache_bytes = read = cached(positions=positions)
    if settings.key_block:
        read = sum(cached(positions=keys_read(settings, capacity, seen)) for seen in filled) // len(filled)
    return EngineFacts(
        weight_bytes=byte_size(params),
        kv_cache_bytes=kv_cache_bytes,
        kv_cache_allocated_bytes=allocated_bytes,
        bytes_per_step=_weight_bytes_read(config, params, batch) + read,
        flops_per_step=Work(config=config, batch=batch).forward(queries=1, keys=average_keys),
        flops_per_request=_request_flops(
            Work(config=config, batch=batch, rows=settings.rows), settings, capacity, prompt_length, new_tokens
        ),
        dispatches_per_request=_dispatches(settings, len(pieces(prompt_length, settings, capacity)), new_tokens),
        vocab_size=config.vocab_size,
        settings={**settings.to_json(), "capacity": capacity},
    )


def _weight_bytes_read(config: ModelConfig, params: Params, batch: int) -> int:
    """Return the weights that a step reads: all of them, but of a table that is only looked up the rows used."""
    rows = {"embed_positions": config.max_position_embeddings}
    if not config.tie_word_embeddings:
        rows["embed_tokens"] = config.vocab_size
    tables = {name: byte_size(params[name]) for name in rows if name in params}
    return byte_size(params) - sum(tables.values()) + sum(batch * size // rows[name] for name, size in tables.items())


def _request_flops(work: Work, settings: EngineSettings, capacity: int, prompt_length: int, new_tokens: int) -> float:
    lengths = range(prompt_length, prompt_length + new_tokens)
    if settings.cache == "none":
        sizes = (capacity if settings.shape == "padded" else length for length in lengths)
        return sum(work.forward(queries=size, keys=size) for size in sizes)
    prefill = sum(_piece_flops(work, settings, capacity, piece) for piece in pieces(prompt_length, settings, capacity))
    # A step's own token is written first, and seen.
    static = settings.cache == "static"
    keys = (keys_read(settings, capacity, length) if static else length for length in lengths[1:])
    return prefill + sum(work.forward(queries=1, keys=size) for size in keys)


def _piece_flops(work: Work, settings: EngineSettings, capacity: int, piece: Piece) -> float:
    """Count padding as what it is: work. A chunk sees the cache, a prompt that is read whole only itself."""
    whole = not settings.prefill_chunk
    keys = piece.width if whole else keys_read(settings, capacity, piece.start + piece.width)
    return work.forward(queries=piece.width, keys=keys)


def keys_read(settings: EngineSettings, capacity: int, filled: int) -> int:
    """Return the positions of a static cache that a step reads while ``filled`` of them are filled."""
    if not settings.key_block:
        return capacity
    block = min(settings.key_block, capacity)
    first = max(0, filled - settings.window) if settings.window else 0
    return (-(-filled // block) - first // block) * block


def _dispatches(settings: EngineSettings, prefills: int, new_tokens: int) -> int | None:
    """Return how many programs a request starts, the one that empties its state among them.

    Of an engine that dispatches single operations nobody counts them.
    """
    if not settings.jit:
        return None
    return prefills + (1 if settings.loop == "device" else new_tokens - 1) + is_reused(settings)
