"""Timing: who runs when and how often, what a failure leaves; memory: a peak that is known."""

import shutil
import sys

import pytest
import torch

from benchmarks.measure import NotRunError, aligned, interleaved
from benchmarks.memory import RESET, extra_mib, in_fresh_process
from benchmarks.variants import Case


def test_calls_take_turns_after_one_warm_up_each():
    ran = []
    calls = {"ours": lambda: ran.append("ours"), "peer": lambda: ran.append("peer")}
    times, not_run = interleaved(calls, repeats=3)
    assert ran == [*["ours", "peer"] * 2, "peer", "ours", "ours", "peer"] and not not_run
    assert times["ours"]["ratio"] == 1 and times["peer"]["repeats"] == len(times["peer"]["samples_ms"]) == 3


def test_a_slow_call_gets_three_rounds_and_the_number_is_kept():
    calls = {"ours": lambda: None, "peer": lambda: torch.randn(300, 300).sum()}
    times, _ = interleaved(calls, repeats=5, patience=0.0)
    assert [times[name]["repeats"] for name in calls] == [3, 3]
    assert [row["repeats"] for row in interleaved(calls, repeats=5)[0].values()] == [5, 5]


def test_a_peer_that_fails_is_named_and_ours_may_not_fail():
    def fail():
        raise RuntimeError("no kernel for this\nand a long trace")

    def refuse():
        raise NotRunError("not here")

    times, not_run = interleaved({"ours": lambda: None, "peer": fail, "other": refuse}, repeats=1)
    assert list(times) == ["ours"] and not_run == {"peer": "failed: no kernel for this", "other": "not here"}
    with pytest.raises(RuntimeError, match="no kernel"):
        interleaved({"ours": fail}, repeats=1)


def test_columns_stand_under_each_other():
    assert aligned([["a", "1.0"], ["long", "10.0"]]) == "a      1.0\nlong  10.0"


@pytest.mark.skipif(not RESET.exists(), reason="the high-water mark can be set back on Linux alone")
def test_the_peak_includes_freed_memory_and_excludes_earlier_memory():
    before = torch.ones(2**20 * 8)  # 32 MiB

    def call():
        passing = torch.ones(2**20 * 16)  # 64 MiB, gone when the next is made
        kept = passing[: 2**18].clone()
        del passing
        return kept

    assert 63 < extra_mib(call) < 80
    assert extra_mib(lambda: before.sum()) < 8


def test_a_fresh_process_measures_one_variant():
    found = in_fresh_process("ours", Case(192, batch=3, heads=2, width=64, left=5, right=3))
    output_and_gradients = 4 * 3 * 2 * 192 * 64 * 4 / 2**20
    assert output_and_gradients * 0.9 < found["extra_mib"] < output_and_gradients + 64


def test_a_process_that_dies_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert "exit status 1, no message; out of memory?" in in_fresh_process("ours", Case(8))["not_run"]
