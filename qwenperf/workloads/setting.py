"""Every optimisation that an engine may have or lack, as data: its name, its values, and what it is about.

One entry a setting. Validation, the names of engines, the suite ``ladder`` and the docs all read it from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qwenperf.workloads.flags import FLAG_SETS

Value = str | int | bool

MOST = 2**31 - 1
"""Of a setting that counts positions or rows: programs count them in int32."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One optimisation.

    Attributes:
      name: the field of ``EngineSettings``.
      values: what it may be, the slow or plain form first; a setting of numbers lists those that are measured.
      least: for numbers, the smallest one but 0; ``None`` for a setting that has its values listed.
      about: what the values differ in.
      mistake: what people do who lack it; empty where the plain form is no mistake.
      exact: whether all values give the same tokens. Otherwise a measured error stays within bounds.
    """

    name: str
    values: tuple[Value, ...]
    about: str
    mistake: str = ""
    least: int | None = None
    exact: bool = True


_ALL = (
    Setting(name="jit", values=(False, True), about="operations dispatched one by one, or compiled programs",
            mistake="forgetting jax.jit around the step"),
    Setting(name="cache", values=("none", "concat", "static"),
            about="the whole sequence in each step; keys and values that grow; or allocated once",
            mistake="no KV cache, or one that grows and so compiles at every token"),
    Setting(name="shape", values=("growing", "padded"),
            about="arrays as long as the sequence, or as the capacity, so that one program fits every step",
            mistake="a compile at every new sequence length"),
    Setting(name="rotary", values=("recomputed", "step", "tables"),
            about="sines and cosines in every layer, once a step, or read from tables made once",
            mistake="rebuilding rotary tables in every layer of every step"),
    Setting(name="loop", values=("host", "device"), about="one dispatch a token, or the whole loop in one program",
            mistake="a Python loop that waits for every token"),
    Setting(name="donate", values=(False, True), about="whether a step gives up the state it was given",
            mistake="a cache that is copied in each step"),
    Setting(name="reuse", values=(False, True), about="whether the next request gets the last one's cache",
            mistake="allocating the cache anew for every request"),
    Setting(name="position", values=("static", "traced"), about="the position as a constant of the program, or data",
            mistake="a Python integer as a static argument: a compile at every position"),
    Setting(name="qkv", values=("separate", "stored", "fused"),
            about="three projections; what checkpoints of the family have (GPT-2: one); or q, k and v in one product"),
    Setting(name="gate_up", values=("separate", "fused"),
            about="gate and up projection apart, or in one product; for models that have a gate"),
    Setting(name="layers", values=("scanned", "unrolled"),
            about="one layer's program run over stacked weights, or every layer written out"),
    Setting(name="contraction", values=("einsum", "in-out", "batched", "dot_general"),
            about="how products with weights are written: einsum; weights stored [in, out]; a batch axis on both "
            "sides; or dot_general over the stored [out, in]"),
    Setting(name="rows", values=(1, 2), least=1,
            about="rows that a product with weights has at least: on CPU one row of a low precision makes XLA copy "
            "the weights to f32"),
    Setting(name="fusion", values=("barriers", "xla"),
            about="residual, embedding and softmax+mask kept apart by barriers, or fused as XLA likes"),
    Setting(name="precision", values=("highest", "high", "default"),
            about="jax's matmul precision of every product"),
    Setting(name="softmax", values=("f32", "accumulated", "native"), exact=False,
            about="scores and softmax in f32; scores in f32, softmax in the model's dtype; or both in that"),
    Setting(name="attention", values=("repeated", "einsum", "dot_product_attention", "grouped"),
            about="keys repeated to every query head; einsum over groups; jax.nn.dot_product_attention; or one product "
            "a group",
            mistake="repeating K and V in memory for every query head"),
    Setting(name="mask", values=("additive", "where", "table", "computed"),
            about="added as -inf; jnp.where; read from a table made once; or compared on the spot and selected"),
    Setting(name="window", values=(0, 64), least=1, exact=False,
            about="keys that a query sees at most, 0 for all: a model of sliding windows, or another model"),
    Setting(name="key_block", values=(0, 64), least=1,
            about="keys that are read at a time, up to the last filled block only; 0 reads the whole capacity"),
    Setting(name="cache_layout", values=("position-major", "stacked", "head-major"),
            about="[B, S, K, C] a layer; one array for all layers; or [B K, S, C] a layer"),
    Setting(name="cache_dtype", values=("native", "bf16", "int8"), exact=False,
            about="keys and values as the model's dtype, bf16, or int8 with a scale for each head and position"),
    Setting(name="weights", values=("native", "int8", "int8-g32", "int4-g32"), exact=False,
            about="matrices as the model's dtype; int8 with a scale an output; or int8 or int4 in groups of 32 (with "
            "int4 layers the embedding and the head stay int8)"),
    Setting(name="activations", values=("native", "int8"), exact=False,
            about="inputs of products with quantised weights as they are, or rounded to int8 a row on the spot; on CPU "
            "only these, with rows=2, read quantised weights without a wider copy"),
    Setting(name="prefill_chunk", values=(0, 64), least=1,
            about="prompt tokens that are read at a time, by one program: the last chunk is padded; 0 reads the prompt "
            "whole"),
    Setting(name="bucket", values=(0, 32), least=1,
            about="prompt lengths (of chunks: the last one's) are padded to a multiple of this, so that few programs "
            "serve all; 0 pads nothing",
            mistake="a compile for every prompt length"),
    Setting(name="start", values=("request", "declared", "saved"),
            about="programs compiled at the first request; before it for every declared shape; or loaded from a file"),
    Setting(name="compile_cache", values=(False, True), about="whether jax's persistent compilation cache is on"),
    Setting(name="xla_flags", values=tuple(FLAG_SETS), about="a named set of XLA flags, see workloads.flags"),
    Setting(name="hooks", values=("capture", "none"),
            about="whether every step keeps each layer's output on the device, by position (see decode.hooks)"),
)  # fmt: skip

SETTINGS: Mapping[str, Setting] = {setting.name: setting for setting in _ALL}

NOT_BUILT: tuple[str, ...] = ()
"""Settings that have a name and no code: better refused than ignored, and no suite measures them."""
