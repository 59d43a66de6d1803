"""Serving benchmarks of vLLM and SGLang: every field that their sources name, and those they do not."""

import json

import pytest

from qwenperf.errors import FormatError
from qwenperf.formats import serving, serving_write
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.schema import codec
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, RunRecord, metric

TOLD = Told(modified_at="2026-01-02T03:04:05+00:00")


def times(name, *percentiles):
    keys = [f"mean_{name}_ms", f"median_{name}_ms", f"std_{name}_ms", *(f"{one}_{name}_ms" for one in percentiles)]
    return {key: 10.5 + number for number, key in enumerate(keys)}


VLLM = {
    "date": "20260131-235959", "endpoint_type": "openai", "backend": "openai", "label": "nightly",
    "model_id": "Qwen/Qwen2.5-0.5B", "tokenizer_id": "Qwen/Qwen2.5-0.5B", "num_prompts": 8, "tensor_parallel": "2",
    "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 4, "ramp_up_strategy": "linear",
    "ramp_up_start_rps": 1, "ramp_up_end_rps": 4, "duration": 12.25, "completed": 8, "failed": 0,
    "total_input_tokens": 1024, "total_output_tokens": 512, "request_throughput": 0.65, "request_goodput": None,
    "output_throughput": 41.8, "total_token_throughput": 125.4, "input_lens": [128, 128], "output_lens": [64, 64],
    "ttfts": [0.01, 0.02], "itls": [[0.001, 0.002], []], "latencies": [0.1, 0.2], "start_times": [0.0, 0.5],
    "queue_times": [0.0, 0.0], "generated_texts": ["a", "b"], "errors": ["", ""], "max_output_tokens_per_s": 50.0,
    "max_concurrent_requests": 4, "rtfx": 0.0, "probe_completed": 3, "probe_failed": 0, "probe_median_e2el_ms": 5.5,
    "probe_p99_e2el_ms": 6.5, "probe_max_e2el_ms": 7.5,
    "rps_change_events": [{"rps": 1, "timestamp": "2026-01-31T23:59:00"}],
    "spec_decode_acceptance_rate": 71.5, "spec_decode_acceptance_length": 2.5, "spec_decode_num_drafts": 100,
    "spec_decode_draft_tokens": 300, "spec_decode_accepted_tokens": 150,
    "spec_decode_per_position_acceptance_rates": [0.9, 0.5], "diffusion_committed_throughput": 3.5,
    "diffusion_steps_per_canvas": 1.5, "diffusion_committed_per_step": 2.5, "diffusion_committed_tokens": 10,
    "diffusion_denoising_steps": 4, "diffusion_canvas_positions": 64, **times("ttft", "p99", "p99.9"),
    **times("tpot", "p99"), **times("itl", "p99"), **times("e2el", "p99"), **times("client_queue_time", "p99"),
    **times("e2el_including_client_queue", "p99"),
}  # fmt: skip
POOLING = {
    "date": "20260131-235959", "endpoint_type": "openai-embeddings", "backend": "openai-embeddings", "label": None,
    "model_id": "bge", "tokenizer_id": "bge", "num_prompts": 8, "request_rate": 5.5, "burstiness": 0.5,
    "max_concurrency": None, "duration": 2.5, "completed": 8, "total_input_tokens": 99, "total_input_sequences": 8,
    "request_throughput": 3.2, "input_sequence_throughput": 3.2, "total_token_throughput": 39.6, **times("e2el", "p99"),
}  # fmt: skip
SGLANG = {
    "tag": None, "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": None,
    "sharegpt_output_len": None, "random_input_len": 1024, "random_output_len": 128, "random_range_ratio": 0.0,
    "server_info": {"model_path": "Qwen/Qwen2.5-0.5B", "tp_size": 1, "schedule": float("inf")}, "duration": 30.5,
    "completed": 64, "total_input_tokens": 65536, "total_input_text_tokens": 65536, "total_input_vision_tokens": 0,
    "total_output_tokens": 8192, "total_output_tokens_retokenized": 8190, "request_throughput": 2.1,
    "input_throughput": 2148.7, "output_throughput": 268.6, "total_throughput": 2417.3,
    **times("e2e_latency", "p99"), **times("ttft", "p99"), **times("tpot", "p99"), **times("itl", "p95", "p99"),
    "max_itl_ms": 99.5, "concurrency": 60.5, "accept_length": None, "max_output_tokens_per_s": 300.0,
    "max_concurrent_requests": 64, "input_lens": [1024], "output_lens": [128], "ttfts": [0.5], "itls": [[0.01]],
    "generated_texts": ["x"], "errors": [""],
}  # fmt: skip


def read(data, reader=serving.read_vllm):
    text = data if isinstance(data, str) else json.dumps(data)
    return reader([Document(name="r.json", text=text)], TOLD)


def test_what_was_asked_for_is_the_case_and_what_was_measured_its_metrics():
    """Under the tool's own names: its TTFT is not ours."""
    (run,) = read(VLLM)
    (case,) = run.cases
    assert case.id == "Qwen/Qwen2.5-0.5B/openai/nightly/rate-inf/concurrency-4/prompts-8"
    assert case.spec["tensor_parallel"] == "2"
    assert run.environment == {"tensor_parallel": "2"}
    assert run.created_at == "2026-01-31T23:59:59+00:00"
    told = {name: (one.unit, one.direction) for name, one in case.metrics.items()}
    assert told["median_ttft_ms"] == told["p99.9_ttft_ms"] == ("ms", Direction.LOWER)
    assert told["std_ttft_ms"] == ("ms", Direction.NONE)
    assert told["output_throughput"] == told["max_output_tokens_per_s"] == ("tokens/s", Direction.HIGHER)
    assert told["request_throughput"] == ("requests/s", Direction.HIGHER)
    assert told["failed"] == ("requests", Direction.LOWER)
    assert told["total_output_tokens"] == ("tokens", Direction.NONE)
    assert told["diffusion_steps_per_canvas"] == ("", Direction.NONE)
    assert case.extra["detail"]["itls"] == [[0.001, 0.002], []]


def test_the_same_question_is_the_same_case():
    """Whatever was measured, and whenever."""
    ids = {read(VLLM | more)[0].cases[0].id for more in ({}, {"date": "20270101-000000"}, {"duration": 1.0})}
    assert len(ids) == 1
    assert read(VLLM | {"max_concurrency": 8})[0].cases[0].id not in ids


@pytest.mark.parametrize(
    ("data", "reader", "writer"),
    [
        (VLLM, serving.read_vllm, serving_write.write_vllm),
        (POOLING, serving.read_vllm, serving_write.write_vllm),
        (SGLANG, serving.read_sglang, serving_write.write_sglang),
        (VLLM | {"later": {"deep": [1, {"x": None}]}, "flag": True}, serving.read_vllm, serving_write.write_vllm),
        (
            {"backend": "vllm", "model_id": "m", "duration": 1, "completed": 2},
            serving.read_vllm,
            serving_write.write_vllm,
        ),
    ],
)
def test_a_result_is_the_same_after_a_round_through_run_json(data, reader, writer):
    """Every field, known or not; an infinite rate is written in words, as vLLM does."""
    runs = [codec.loads(codec.dumps(run)) for run in read(data, reader)]
    (document,) = writer(runs)
    assert json.loads(document.text) == json.loads(json.dumps(data).replace("Infinity", '"inf"'))


def test_what_metadata_tells_of_the_machine_is_the_environment_and_of_the_code_is_not():
    """Nightly results are compared with each other, and never those of two chips with those of four."""
    same, other = ({"vllm_version": "0.11", "git_sha": "b"}, {"tensor_parallel": "4"})
    first, again, four = (read(VLLM | more)[0].environment for more in ({"git_sha": "a"}, same, other))
    assert first == again != four


@pytest.mark.parametrize("change", [{"random_range_ratio": 0.5}, {"num_prompts": 64}, {"fixed_output_len": 8}])
def test_another_question_to_sglang_is_another_case(change):
    """Prompts of one length, and of lengths that vary, take different times."""
    assert read(SGLANG | change, serving.read_sglang)[0].cases[0].id != read(SGLANG, serving.read_sglang)[0].cases[0].id


def test_a_file_of_lines_is_a_run_a_line():
    """SGLang appends to one file, vLLM does when asked to."""
    runs = read("\n".join(json.dumps(SGLANG | {"random_input_len": size}) for size in (16, 32)), serving.read_sglang)
    assert [run.cases[0].id for run in runs] == [
        f"Qwen/Qwen2.5-0.5B/sglang/random/in-{size}/out-128/rate-inf" for size in (16, 32)
    ]
    (document,) = serving_write.write_sglang(runs)
    assert len(document.text.splitlines()) == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"median_ttft_ms": "fast"}, "r.json: median_ttft_ms is 'fast', which is not a number. Give a result that"),
        ({"median_ttft_ms": [1]}, r"median_ttft_ms is \[1\], which is not a number"),
        ({"output_throughput": True}, "output_throughput is True, which is not a number"),
        ({"p99_itl_ms": float("nan")}, "p99_itl_ms is nan; records hold finite numbers only"),
        ({"duration": None}, ""),
        ({"date": "yesterday"}, "date is 'yesterday', which is not a time as vLLM writes it"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(change, told):
    """A number that was not had is null to these tools, and no error."""
    if not told:
        assert "duration" not in read(VLLM | change)[0].cases[0].metrics
        return
    with pytest.raises(FormatError, match=told):
        read(VLLM | change)


def test_a_file_that_is_no_result_is_refused():
    """With what is missing."""
    with pytest.raises(FormatError, match=r"backend is missing\. Found: a"):
        read({"a": 1})
    with pytest.raises(FormatError, match="which is not an object"):
        read([1])


def test_a_case_of_ours_becomes_a_result():
    """A batch is that many requests at once, without a server."""
    metrics = {"request_s": metric("request_s", 2.0), "ttft_s": metric("ttft_s", 0.25)}
    spec = {"model": "m", "workload": {"prompt_length": 16, "new_tokens": 8, "batch": 4, "dtype": "f32"}}
    case = CaseRecord(id="m/cached/b4", spec=spec, metrics=metrics)
    run = RunRecord(id="r1", created_at="2026-01-01T00:00:00+00:00", suite="s", environment={}, cases=(case,))
    data = json.loads(serving_write.write_vllm([run])[0].text)
    assert (data["median_ttft_ms"], data["request_throughput"], data["total_output_tokens"]) == (250.0, 2.0, 32)
    assert read(data)[0].cases[0].id == "m/qwenperf/m/cached/b4/rate-inf/concurrency-4/prompts-4"
    odd = RunRecord(**{**vars(run), "cases": (CaseRecord(id="x", spec={}, metrics=metrics),)})
    with pytest.raises(FormatError, match="x has no requests of known size"):
        serving_write.write_sglang([odd])
