"""Shows what the TPU's compiler makes of somebody else's model: google-tunix's Qwen2.5 0.5B, in the report of our own.

python tools/peers_aot.py [--target v5e-1,...] [--prompt-length N] [--new-tokens N] [--json]

The package (Apache-2.0) is installed from its index into an environment of its own, in the user's cache, beside the
JAX that runs here. Its forward pass is compiled as it is, the cache donated; its sampler keeps its cache in a loop.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGE = "google-tunix==0.1.7"
ROOT = Path(__file__).resolve().parent.parent
_INSIDE = "QWENPERF_PEERS_INSIDE"


def environment() -> Path:
    """Return the interpreter of an environment with the package and what qwenperf needs; made the first time."""
    import hashlib

    from qwenperf.lab.revisions import default_cache, install

    version = metadata.version("jax")
    own = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    wanted = [PACKAGE, f"jax[tpu]=={version}", f"jaxlib=={version}", *own]
    key = hashlib.sha256("\n".join((sys.version, *wanted)).encode()).hexdigest()[:20]
    folder = default_cache() / "environments" / f"peers-{key}"
    install(folder, wanted)
    return folder / "bin" / "python"


def programs(prompt_length: int, capacity: int) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return the functions to compile by name, with the shapes of their arguments."""
    import jax
    import jax.numpy as jnp
    from flax import nnx
    from tunix.models.qwen2 import model as qwen2

    config = qwen2.ModelConfig.qwen2p5_0p5b()
    config.dtype = config.param_dtype = jnp.bfloat16
    graph, params = nnx.split(nnx.eval_shape(lambda: qwen2.Qwen2(config, rngs=nnx.Rngs(0))))

    def forward(params: Any, tokens: Any, positions: Any, cache: Any, mask: Any) -> Any:
        logits, new_cache = nnx.merge(graph, params)(tokens, positions, cache, mask)
        return jnp.argmax(logits[:, -1], axis=-1), new_cache

    def prefill(params: Any, tokens: Any, positions: Any, cache: Any, mask: Any) -> Any:
        return forward(params, tokens, positions, cache, mask)

    def decode_step(params: Any, tokens: Any, positions: Any, cache: Any, mask: Any) -> Any:
        return forward(params, tokens, positions, cache, mask)

    def shapes(length: int) -> tuple[Any, ...]:
        shape = jax.ShapeDtypeStruct
        pair = shape((1, capacity, config.num_kv_heads, config.head_dim), jnp.bfloat16)
        cache = {
            f"layer_{index}": {"k": pair, "v": pair, "end_index": shape((1,), jnp.int32)}
            for index in range(config.num_layers)
        }
        tokens, mask = shape((1, length), jnp.int32), shape((1, length, capacity), jnp.bool_)
        return params, tokens, tokens, cache, mask

    return {"prefill": (prefill, shapes(prompt_length)), "decode_step": (decode_step, shapes(1))}


def report(options: argparse.Namespace) -> int:
    """Compile, judge and print."""
    from dataclasses import replace

    import qwenperf
    from qwenperf.cli.output import write, write_json
    from qwenperf.gate.aot import exit_code, judge
    from qwenperf.gate.aot_budget import ProgramBudgets
    from qwenperf.report.aot import aot_report
    from qwenperf.schema.codec import to_json

    print(f"{PACKAGE} with JAX {metadata.version('jax')}, qwenperf from {qwenperf.__file__}", file=sys.stderr)
    found = [
        qwenperf.compile_for(
            function, *shapes, targets=options.target, donate_argnums=3, name=name, tokens_per_call=shapes[1].shape[1]
        )
        for name, (function, shapes) in programs(
            options.prompt_length, options.prompt_length + options.new_tokens
        ).items()
    ]
    cases = tuple(
        replace(case, id=f"google-tunix/qwen2.5-0.5b@{case.id.partition('@')[2]}")
        for one in found
        for case in one.cases
    )
    record = replace(found[0], id="google-tunix", cases=cases, declared=tuple(case.id for case in cases))
    judged = judge(record, ProgramBudgets())
    if options.json:
        write_json(to_json(judged))
    else:
        write(aot_report(judged))
    return exit_code(judged)


def main(words: Sequence[str] | None = None) -> int:
    """Run in the package's environment; make it first where this is not it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="v5e-1")
    parser.add_argument("--prompt-length", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    if os.environ.get(_INSIDE):
        return report(options)
    sys.path.insert(0, str(ROOT))
    from qwenperf.aot.platforms import compiler_environ

    told = compiler_environ(os.environ) | {_INSIDE: "1", "PYTHONPATH": str(ROOT)}
    given = sys.argv[1:] if words is None else list(words)
    return subprocess.run([str(environment()), str(Path(__file__)), *given], env=told, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
