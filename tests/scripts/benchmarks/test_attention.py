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
def test_flex_by_hand_equals_the_dense_mask():
    found, expected = same("flex by hand", Case(256, batch=2, heads=3, width=16, left=5, right=11, device="cuda"))
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
def test_varlen_equals_the_dense_mask():
    case = Case(256, "bf16", batch=2, heads=3, width=16, left=5, right=11, device="cuda")
    torch.testing.assert_close(*same("varlen", case), rtol=5e-2, atol=5e-2)


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


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A report of two lengths, where it was written, and how."""
    path = tmp_path_factory.mktemp("benchmark") / "attention.json"
    settings = Settings(tokens=(48, 16), dense_up_to=16, memory=False, **TINY)
    return attention.benchmark(settings, path), path


def test_the_json_is_the_report_with_its_origin(finished):
    report, path = finished
    stored = json.loads(path.read_text())
    assert stored == json.loads(json.dumps(report)) and stored["complete"]
    assert stored.keys() >= {"settings", "commit", "hardware", "versions", "threads", "environment"}
    cells = [(cell["tokens"], cell["dtype"], cell["pass"]) for cell in stored["cells"]]
    assert cells == [(t, d, p) for d in ("fp32", "bf16") for t in (16, 48) for p in ("forward", "forward+backward")]


def test_every_variant_has_times_or_a_reason(finished):
    for cell in finished[0]["cells"]:
        assert set(cell["times"]) | set(cell["not_run"]) == set(VARIANTS)
        assert {"ours", "full"} <= set(cell["times"])
        for time in cell["times"].values():
            assert all(math.isfinite(sample) and sample > 0 for sample in time["samples_ms"])
            assert time["repeats"] == len(time["samples_ms"]) == 2
            assert time["ratio"] == pytest.approx(time["median_ms"] / cell["times"]["ours"]["median_ms"])


def test_the_table_names_every_variant_and_every_reason(finished):
    table = attention.table(finished[0])
    assert all(name in table for name in VARIANTS)
    assert "flex by hand: CUDA only" in table and "dense mask: T=48 is above --dense-up-to 16" in table


def test_a_missing_peer_is_named(monkeypatch, tmp_path):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "local_attention" else find(name))
    settings = Settings(tokens=[16], dtypes=["fp32"], variants=["local-attention"], memory=False, **TINY)
    report = attention.benchmark(settings, tmp_path / "a.json")
    assert list(report["cells"][0]["times"]) == ["ours"]
    assert "local-attention: not installed (pip install -e '.[bench]')" in attention.table(report)


def test_memory_has_its_rows_and_its_panel(monkeypatch, tmp_path):
    asked = []

    def in_fresh_process(name, case):
        asked.append((name, case.tokens))
        return {"extra_mib": float(case.tokens)} if name == "ours" else {"not_run": "failed: exit status -9"}

    monkeypatch.setattr(attention, "in_fresh_process", in_fresh_process)
    settings = Settings(tokens=[16, 24], dtypes=["fp32"], variants=["full", "flex by hand", PRODUCTS], **TINY)
    report = attention.benchmark(settings, tmp_path / "a.json")
    assert asked == [("ours", 16), ("full", 16), ("ours", 24), ("full", 24)]  # none for what did not run before
    assert [row.get("extra_mib") for row in report["memory"]] == [16, None, None, 24, None, None]
    memory = attention.table(report).partition("peak MiB")[2]
    assert PRODUCTS not in memory and PRODUCTS in attention.table(report)
    assert "full" in memory and "full: failed: exit status -9" in attention.table(report)
    assert (tmp_path / "a.png").stat().st_size > 20_000


def test_an_interrupted_run_keeps_the_cells_it_finished(monkeypatch, tmp_path):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(attention, "in_fresh_process", interrupt)
    with pytest.raises(KeyboardInterrupt):
        attention.benchmark(Settings(tokens=[16], dtypes=["fp32"], variants=[], **TINY), tmp_path / "a.json")
    stored = json.loads((tmp_path / "a.json").read_text())
    assert len(stored["cells"]) == 2 and not stored["complete"]


def test_a_small_case_has_whole_windows():
    sizes = {(96, 48): 48, (4096, 32): 64, (4096, 48): 48, (4096, 500): 500, (20, 0): 20}
    assert {size: small(Case(tokens=size[0], left=size[1])).tokens for size in sizes} == sizes
