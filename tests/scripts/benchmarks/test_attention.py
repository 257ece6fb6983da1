"""What is compared computes the same; the report says what ran, how often, and what did not and why."""

import importlib.util
import json
import math

import pytest
import torch

from benchmarks import attention
from benchmarks.attention import Settings
from benchmarks.measure import NotRunError
from benchmarks.variants import PRODUCTS, VARIANTS, Case, prepare, projected, small

TINY = {"batch": 1, "heads": 2, "width": 8, "left": 4, "right": 4, "repeats": 2}


def same(name, case):
    """Output and gradients of that variant and of the dense mask on the same inputs."""
    torch.manual_seed(0)
    shared = projected(case)
    return prepare(name, case, shared).forward_backward(), prepare("dense mask", case, shared).forward_backward()


@pytest.mark.parametrize(("left", "right"), [(5, 5), (3, 11), (0, 7)])
def test_ours_equals_the_dense_mask(left, right):
    found, expected = same("ours", Case(85, batch=2, heads=3, width=7, left=left, right=right))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_local_attention_equals_the_dense_mask_at_multiples_of_the_window():
    pytest.importorskip("local_attention")
    found, expected = same("local-attention", Case(85, batch=2, heads=3, width=7, left=5, right=5))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "dtype", "tolerance"), [("flex by hand", "fp32", 1e-2), ("varlen", "bf16", 5e-2)])
def test_what_runs_on_a_gpu_equals_the_dense_mask(name, dtype, tolerance):
    case = Case(256, dtype, batch=2, heads=3, width=16, left=5, right=11, device="cuda")
    torch.testing.assert_close(*same(name, case), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("left", "right"), [(3, 3), (2, 5)])
def test_the_convolution_covers_the_window(left, right):
    prepared = prepare("convolution", Case(17, batch=1, heads=1, width=3, left=left, right=right))
    output = prepared.function(prepared.inputs[0])
    seen = torch.autograd.grad(output[0, 8].sum(), prepared.inputs[0])[0][0].abs().sum(1) > 0
    assert output.shape == (1, 17, 3) and seen.nonzero().flatten().tolist() == list(range(8 - left, 8 + right + 1))


@pytest.mark.parametrize("name", ["layer of ours", "LSTM", "convolution"])
def test_gradients_of_the_parameters_are_part_of_the_backward(name):
    prepared = prepare(name, Case(11, batch=2, heads=1, width=5, left=2, right=2))
    results = prepared.forward_backward()
    assert len(results) == 1 + len(prepared.inputs) > 3 and results[1].shape == prepared.inputs[0].shape == (2, 11, 5)


@pytest.mark.parametrize("tokens", [17, 4096])
def test_the_products_are_as_many_as_those_of_all_blocks(monkeypatch, tokens):
    case, counted = Case(tokens, batch=2, heads=3, width=8, left=5, right=6), []

    def bmm(one, other, *, out):
        counted.append(2 * one.shape[0] * one.shape[1] * one.shape[2] * other.shape[2])
        return out

    prepared = prepare("products of ours", case)
    monkeypatch.setattr(torch, "bmm", bmm)
    prepared.forward_backward()
    blocks = -(-tokens // 32) * 2 * 3
    assert 7 * 2 * blocks * 32 * 43 * 8 <= sum(counted) < 7 * 2 * 1.25 * blocks * 32 * 43 * 8


def test_local_attention_is_refused_where_it_computes_something_else():
    with pytest.raises(NotRunError, match="left = right"):
        prepare("local-attention", Case(32, left=4, right=2))
    pytest.importorskip("local_attention")
    with pytest.raises(NotRunError, match="T=33 is not a multiple of 4"):
        prepare("local-attention", Case(33, left=4, right=4))


def test_every_variant_has_times_and_memory_or_a_reason(monkeypatch, tmp_path):
    find, asked = importlib.util.find_spec, []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "local_attention" else find(name))

    def in_fresh_process(name, case):
        asked.append((name, case.tokens))
        return {"extra_mib": float(case.tokens)} if name == "ours" else {"not_run": "failed: exit status -9"}

    monkeypatch.setattr(attention, "in_fresh_process", in_fresh_process)
    settings = Settings(tokens=(48, 16), dtypes=["fp32"], dense_up_to=16, **TINY)
    report = attention.benchmark(settings, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(json.dumps(report)) and report["complete"]
    cells = [(cell["tokens"], cell["pass"]) for cell in report["cells"]]
    assert cells == [(tokens, which) for tokens in (16, 48) for which in ("forward", "forward+backward")]
    for cell in report["cells"]:
        assert set(cell["times"]) | set(cell["not_run"]) == set(VARIANTS) and {"ours", "full"} <= set(cell["times"])
        assert "dense mask" in cell["times" if cell["tokens"] == 16 else "not_run"]
        for time in cell["times"].values():
            assert all(math.isfinite(sample) and sample > 0 for sample in time["samples_ms"])
            assert time["repeats"] == len(time["samples_ms"]) == 2
            assert time["ratio"] == pytest.approx(time["median_ms"] / cell["times"]["ours"]["median_ms"])
    assert ("full", 16) in asked and ("dense mask", 48) not in asked and ("local-attention", 16) not in asked
    table, memory = (
        part.partition("peak MiB")[0] for part in attention.table(report).split("forward+backward, fp32: peak")
    )
    assert all(name in table for name in VARIANTS) and PRODUCTS not in memory.partition("not run")[0]
    for reason in (
        "flex by hand: CUDA only",
        "dense mask: T=48 is above --dense-up-to 16",
        "local-attention: not installed (pip install -e '.[bench]')",
        "full: failed: exit status -9",
    ):
        assert reason in memory
    assert (tmp_path / "a.png").stat().st_size > 20_000


def test_a_small_case_has_whole_windows():
    sizes = {(96, 48): 48, (4096, 32): 64, (4096, 48): 48, (4096, 500): 500, (20, 0): 20}
    assert {size: small(Case(tokens=size[0], left=size[1])).tokens for size in sizes} == sizes
