#!/usr/bin/env bash
# What a machine with a GPU has to show; needs no network. Usage: tools/gpu_check.sh [OUT] [PART...]
#
# Each part has a time limit and a log of its own in OUT (default: gpu-check), and a line in OUT/summary.txt: its exit
# code and seconds. Parts, in this order unless named: environment gates tests quick ladder traces compare.
# PYTHON is the interpreter, which must have JAX for CUDA and what pyproject.toml lists (default: python3).
set -uo pipefail
out=$(mkdir -p "${1:-gpu-check}" && cd "${1:-gpu-check}" && pwd)
shift || true
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
parts=("$@")
((${#parts[@]})) || parts=(environment gates tests quick ladder traces compare)
export JAX_PLATFORMS=cuda,cpu PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"

# The rungs of `ladder-gpu` that a change most often moves; the whole suite takes four times as long.
ladder='cached cached-host cached+donate=false padded cached+layers=scanned cached+qkv=separate cached+qkv=fused
cached+gate_up=fused cached+attention=dot_product_attention cached+attention=repeated cached+cache_layout=position-major
cached+cache_dtype=int8 cached+weights=int8 cached+weights=int4-g32 cached+contraction=in-out'

part() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 start=$SECONDS code
  shift 2
  timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>&1
  code=$?
  printf '%-12s exit %3d  %4d s\n' "$name" "$code" "$((SECONDS - start))" | tee -a "$out/summary.txt"
}

qwenperf() { "$python" -m qwenperf "$@"; }
export -f qwenperf
export python out ladder

environment() {
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv
  "$python" -c 'import sys, jax; print(sys.version); print(jax.__version__, jax.devices())'
  qwenperf doctor
}
# The plugin is named, for the package may not be installed there: PYTHONPATH brings it.
gates() { "$python" -m pytest -q -p qwenperf.pytest_plugin -p no:cacheprovider -p no:xdist -m perf tests/perf; }
# Correctness side by side: the memory is shared, so nobody may take all of it.
tests() {
  XLA_PYTHON_CLIENT_PREALLOCATE=false "$python" -m pytest -v --tb=short -p qwenperf.pytest_plugin -p no:cacheprovider -n 12 --benchmark-disable -m 'not slow and not perf' \
    tests/decode tests/models tests/measure tests/adapters
}
quick() { qwenperf run --suite quick --out "$out/profiles"; }
ladder() {
  local engines=() engine
  for engine in $ladder; do engines+=(--engine "$engine"); done
  qwenperf run --model qwen2.5-0.5b --dtype bf16 --prompt-length 100 --new-tokens 28 "${engines[@]}" --out "$out/profiles"
}
traces() { "$python" -m pytest -q -p qwenperf.pytest_plugin -p no:cacheprovider -p no:xdist tests/traces; }
compare() { qwenperf compare --engines cached cached+layers=scanned --model 4x128 --out "$out/comparisons"; }
export -f environment gates tests quick ladder traces compare

for name in "${parts[@]}"; do
  case $name in
    environment) part "$name" 150 bash -c environment ;;
    gates) part "$name" 120 bash -c gates ;;
    tests) part "$name" 240 bash -c tests ;;
    quick) part "$name" 90 bash -c quick ;;
    ladder) part "$name" 330 bash -c ladder ;;
    traces) part "$name" 60 bash -c traces ;;
    compare) part "$name" 150 bash -c compare ;;
    *) echo "gpu_check: no part '$name'" >&2; exit 2 ;;
  esac
done
# One record and its logs travel easily; a trace is looked at where it was made.
find "$out" -name '*.xplane.pb' -size +2M -delete
tar -czf "$out.tgz" -C "$(dirname "$out")" "$(basename "$out")"
cat "$out/summary.txt"
