"""Sorts operations: matmul, attention, norm, copy, convert, cache update, gather, reduction, collective, host, ...

By the instruction where the trace holds the program: what it computes, then which function asked for it. By the name
alone where it does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_BY_NAME = (
    ("attention", ("fmha", "flash", "attention", "softmax")),
    (
        "matmul",
        ("dot", "gemm", "gemv", "sgemm", "hgemm", "dgemm", "matmul", "convolution", "ynn", "onednn", "cublas",
         "cutlass", "nvjet", "einsum"),
    ),
    ("cache update", ("dynamic-update-slice", "dynamic_update_slice", "scatter")),
    ("collective", ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective", "permute", "nccl")),
    ("convert", ("convert",)),
    ("copy", ("copy", "memcpy", "memset", "concatenate", "pad", "transpose")),
    ("gather", ("gather", "dynamic-slice", "dynamic_slice")),
    ("copy", ("reshape", "slice")),
    ("reduction", ("reduce", "argmax", "sort", "top-k", "topk")),
    ("host", ("infeed", "outfeed", "callback")),
    ("other", ("custom-call",)),
    ("control", ("while", "conditional", "call", "tuple")),
)  # fmt: skip

_FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "reshape", "broadcast", "iota", "after-all"}
_COPIES = {"copy", "copy-start", "copy-done", "transpose", "concatenate", "pad", "slice", "reverse"}
_UPDATES = {"dynamic-update-slice", "scatter"}
_GATHERS = {"gather", "dynamic-slice"}
_REDUCTIONS = {"reduce", "reduce-window", "sort", "topk"}
_CONTROL = {"while", "conditional", "call", "async-start", "async-update", "async-done"}
_HOST = {"infeed", "outfeed", "send", "recv", "send-done", "recv-done"}
_COLLECTIVE = re.compile(r"all-|reduce-scatter|collective|ragged-all")

_SCOPES = (
    ("norm", re.compile(r"norm|root_mean_square", re.IGNORECASE)),
    ("linear", re.compile(r"linear|dense|product|proj|mlp|feed_?forward|ffn|unembed|lm_head", re.IGNORECASE)),
    ("attention", re.compile(r"attend|attention|softmax|sdpa|flash|fmha", re.IGNORECASE)),
)


def category(name: str) -> str:
    """Sort an operation by its name alone; ``other`` where that tells nothing."""
    lowered = name.lower()
    for kind, words in _BY_NAME:
        if any(re.search(rf"(?<![a-z]){re.escape(word)}", lowered) for word in words):
            return kind
    return "elementwise" if "fusion" in lowered or "wrapped" in lowered else "other"


def categorize(opcode: str, computed: Collection[str], scopes: Iterable[str], target: str = "") -> str:
    """Sort an instruction.

    Args:
      opcode: its own.
      computed: the opcodes inside it, for a fusion; its own for any other.
      scopes: names of functions and scopes that it lies in, the innermost first.
      target: what a custom call calls.
    """
    work = set(computed) - _FREE
    if any(_COLLECTIVE.match(one) for one in work):
        return "collective"
    if work & _HOST or "callback" in target:
        return "host"
    if opcode in _CONTROL:
        return "control"
    if work & _UPDATES:
        return "cache update"
    if work and work <= _COPIES | {"convert"}:
        return "convert" if "convert" in work else "copy"
    return _by_scope(scopes, target) or _by_work(opcode, work, target)


def _by_scope(scopes: Iterable[str], target: str) -> str:
    """Return norm or attention where the nearest scope that has a name of the trade is one."""
    for scope in (target, *scopes):
        for kind, words in _SCOPES:
            if words.search(scope):
                return "" if kind == "linear" else kind
    return ""


def _by_work(opcode: str, work: Collection[str], target: str) -> str:
    if {"dot", "convolution"} & set(work) or (target and category(target) == "matmul"):
        return "matmul"
    if _GATHERS & set(work):
        return "gather"
    if _REDUCTIONS & set(work):
        return "reduction"
    if opcode == "custom-call":
        return category(target)
    return "copy" if not work else "elementwise"
