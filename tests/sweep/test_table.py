"""The results of a sweep: rows, means and paired differences by hand, files that can be made anew, the figure."""

import csv
import json
import math

import pytest
from sweep_runs import write_progress, write_run

from vitspeech.errors import InputError
from vitspeech.sweep.plan import make_plan
from vitspeech.sweep.results import read_rows, summarize
from vitspeech.sweep.table import tabulate

FULL, CNN = {0: 0.90, 1: 0.94, 2: 0.92}, {0: 0.91, 1: 0.93, 2: 0.89}


@pytest.fixture
def folder(tmp_path):
    """Two variants with three seeds, `full` planned first."""
    for variant, accuracies in (("full", FULL), ("cnn", CNN)):
        for seed, accuracy in accuracies.items():
            also = {"easy": {"word_error_rate": 0.1}}
            write_run(tmp_path / variant / f"seed-{seed}", accuracy, word_accuracy=0.95, also=also)
    return tmp_path


def test_means_deviations_and_paired_differences_are_those_computed_by_hand(folder):
    full, cnn = summarize(read_rows(folder, {"full": [0]}))
    assert (full.variant, full.seeds, full.difference) == ("full", [0, 1, 2], None)
    assert full.scores["test_accuracy"] == pytest.approx((0.92, 0.02)) and full.scores["word_accuracy"][1] == 0
    # The differences are 0.01, -0.01, -0.03: mean -0.01, sd 0.02; t with 2 degrees of freedom is 4.302653.
    half = 4.302653 * 0.02 / math.sqrt(3)
    assert cnn.difference.n == 3 and cnn.difference.mean == pytest.approx(-0.01)
    assert cnn.difference.interval_95 == pytest.approx((-0.01 - half, -0.01 + half))


def test_the_difference_is_over_the_seeds_that_both_have(folder):
    write_run(folder / "lstm/seed-1", 0.95)
    write_run(folder / "gru/seed-7", 0.95)
    write_run(folder / "gru/seed-8")
    summaries = {summary.variant: summary for summary in summarize(read_rows(folder, {"full": [0]}))}
    lstm = summaries["lstm"].difference
    assert (lstm.mean, lstm.interval_95, lstm.n) == (pytest.approx(0.01), None, 1)
    assert summaries["gru"].difference is None and summaries["gru"].seeds == [7]
    lines = tabulate(folder, None)
    assert "| lstm | 1 | 95.00 | –" in "\n".join(lines)


def test_the_table_says_mean_deviation_difference_and_n(folder):
    plan = make_plan(["speech_commands/full", "speech_commands/cnn"], [0, 1, 2], folder)
    assert tabulate(folder, plan) == [
        "| variant | n | accuracy, % | words alone, % | accuracy minus full | parameters | minutes |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| full | 3 | 92.00 ± 2.00 | 95.00 ± 0.00 |  | 1,000 | 1.5 |",
        "| cnn | 3 | 91.00 ± 2.00 | 95.00 ± 0.00 | -1.00 [-5.97, +3.97], n = 3 | 1,000 | 1.5 |",
    ]
    assert (folder / "table.md").read_text().startswith("| variant | n |")
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_of_a_folder_is_made_anew_in_the_same_order(folder):
    plan = make_plan(["speech_commands/full", "speech_commands/cnn"], [0, 1, 2], folder)
    lines, record = tabulate(folder, plan), (folder / "sweep.json").read_text()
    for name in ("table.md", "sweep.csv", "sweep.png"):
        (folder / name).unlink()
    assert tabulate(folder) == lines and (folder / "sweep.json").read_text() == record
    (folder / "sweep.json").unlink()  # runs that were started by hand: in alphabetical order
    assert [line.split()[1] for line in tabulate(folder)[2:]] == ["cnn", "full"]
    assert (folder / "table.md").exists() and (folder / "sweep.csv").exists() and (folder / "sweep.png").exists()


@pytest.mark.parametrize("name", ["table.md", "sweep.csv", "sweep.json", "sweep.png", "progress.png", "lengths.png"])
def test_nothing_is_written_through_a_link_of_a_sweep_from_elsewhere(folder, tmp_path_factory, name):
    own = tmp_path_factory.mktemp("own") / "file"
    (folder / name).symlink_to(own)
    with pytest.raises(InputError, match=f"{name}: a link to a file outside"):
        tabulate(folder)
    assert not own.exists()


def test_only_what_the_table_reads_of_a_run_may_not_be_on_another_disk(folder, tmp_path_factory):
    disk, run = tmp_path_factory.mktemp("disk"), folder / "full/seed-0"
    (run / "logs").symlink_to(disk)
    assert "| full | 3 |" in "\n".join(tabulate(folder))
    (run / "metrics.csv").symlink_to(disk / "metrics.csv")
    with pytest.raises(InputError, match=r"metrics\.csv: a link to a file outside"):
        tabulate(folder)


def test_every_run_has_a_row_with_every_metric(folder):
    write_run(folder / "full/seed-3")
    variations = [("model.network.left", ["4"])]
    plan = make_plan(["speech_commands/full"], [0], folder, variations)
    write_run(folder / "full,left=4/seed-0", 0.8)
    tabulate(folder, plan)
    rows = list(csv.DictReader((folder / "sweep.csv").read_text().splitlines()))
    assert (rows[0]["variant"], rows[0]["seed"], rows[0]["state"]) == ("full,left=4", "0", "finished")
    assert rows[0]["model.network.left"] == "4" and rows[1]["model.network.left"] == ""
    cnn = next(row for row in rows if (row["variant"], row["seed"]) == ("cnn", "1"))
    assert (cnn["test_accuracy"], cnn["interval_95_high"], cnn["clips"]) == ("0.93", "0.9400000000000001", "100")
    assert (cnn["also.easy.word_error_rate"], cnn["parameters"], cnn["minutes"], cnn["hardware"]) == (
        "0.1",
        "1000",
        "1.5",
        "CPU",
    )
    unfinished = next(row for row in rows if row["seed"] == "3")
    assert (unfinished["state"], unfinished["test_accuracy"], unfinished["hardware"]) == ("unfinished", "", "")


def test_a_half_finished_sweep_says_what_is_missing(folder):
    write_run(folder / "full/seed-3")
    plan = make_plan(["speech_commands/full", "speech_commands/cnn"], [0, 3], folder)
    assert tabulate(folder, plan)[-1] == (
        "Without a result, 2 of 8 runs: full, seed 3 (unfinished); cnn, seed 3 (not started)."
    )
    record = json.loads((folder / "sweep.json").read_text())
    assert record["variants"]["cnn"] == {"config": "speech_commands/cnn", "varied": {}, "seeds": [0, 3]}
    assert sum(row["result"] is None for row in record["runs"]) == 2


def test_runs_with_another_test_set_are_named(tmp_path):
    for seed, test_sum in enumerate("aab"):
        write_run(tmp_path / f"full/seed-{seed}", 0.9, test_sum=test_sum)
    last = "Tested on other items than the first run: full, seed 2. Do not compare them with it."
    assert tabulate(tmp_path)[-1] == last


def test_a_sweep_without_a_finished_run_has_no_figure(tmp_path):
    assert tabulate(tmp_path, make_plan(["shapes/vit"], [0], tmp_path))[0] == "No run is finished yet."
    assert not (tmp_path / "sweep.png").exists()


def test_the_record_has_no_folder_of_this_machine(folder):
    (folder / "mine.yaml").touch()
    overrides = ["--data.root=/home/me", "--trainer.max_epochs=3"]
    tabulate(folder, make_plan([str(folder / "mine.yaml")], [0], folder, overrides=overrides))
    record = json.loads((folder / "sweep.json").read_text())
    assert record["overrides"] == ["--trainer.max_epochs=3"] and record["variants"]["mine"]["config"] == "mine.yaml"
    assert str(folder) not in (folder / "sweep.json").read_text()


def test_what_is_no_sweep_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run of a sweep"):
        tabulate(tmp_path)
    for content in ("[]", '{"variants": {"full": {"varied": {}, "seeds": ["x"]}}}'):
        (tmp_path / "sweep.json").write_text(content)
        with pytest.raises(InputError, match=r"sweep.json: is not the record of a sweep"):
            tabulate(tmp_path)


def test_the_validation_metric_after_the_last_epoch_is_in_the_table(folder):
    for seed, last in enumerate((0.90, 0.92, 0.94)):
        write_progress(folder / f"full/seed-{seed}", 0.5, 0.7, last)
    lines = tabulate(folder)
    assert lines[0].startswith("| variant | n | accuracy, % | words alone, % | validation accuracy, % |")
    by_variant = {line.split()[1]: line for line in lines[2:]}
    assert "| 92.00 ± 2.00 |" in by_variant["full"] and "| – |" in by_variant["cnn"]
    with (folder / "sweep.csv").open() as file:
        assert [row["val_accuracy"] for row in csv.DictReader(file)] == ["", "", "", "0.9", "0.92", "0.94"]


def test_metrics_that_cannot_be_read_are_named(folder):
    (folder / "full/seed-0/metrics.csv").write_text("epoch,val_accuracy\nfirst,0.5\n")
    with pytest.raises(InputError, match=r"metrics\.csv: not a table of numbers"):
        read_rows(folder, {})
