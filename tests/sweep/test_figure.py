"""The figures of a sweep: what is drawn for variants, varied values, progress and lengths."""

import pytest
from sweep_runs import write_progress, write_run

from vitspeech.sweep.figure import draw_lengths, draw_progress
from vitspeech.sweep.plan import make_plan
from vitspeech.sweep.results import FINISHED, Result, Row, read_rows
from vitspeech.sweep.table import tabulate

HEAD = "test_set,input_symbols,sequences,sequence_accuracy,low,high,symbol_error_rate\n"


def draw(folder, configs, variations=()):
    plan = make_plan(configs, [0, 1], folder, variations)
    for place, run in enumerate(plan.runs):
        write_run(run.folder, 0.5 + 0.01 * place)
    tabulate(folder, plan)


def means(axes):
    """The mean lines, which are in the legend."""
    return {label: handle.lines[0] for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}


def test_variants_are_lines_of_dots_from_the_top(tmp_path, figures):
    draw(tmp_path, ["speech_commands/full", "speech_commands/cnn"])
    (axes,) = figures[0].axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["full (2)", "cnn (2)"]
    assert axes.yaxis_inverted()
    dots = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert [list(line.get_xdata()) for line in dots[:2]] == [pytest.approx([50, 52]), pytest.approx([51, 53])]


def test_a_numeric_key_is_the_horizontal_axis_with_a_line_for_each_config(tmp_path, figures):
    variations = [("model.network.left", ["16", "4", "64"])]
    draw(tmp_path, ["speech_commands/full", "speech_commands/cnn"], variations)
    (axes,) = figures[0].axes
    lines = means(axes)
    assert [*lines] == ["full (2)", "cnn (2)"]
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "model.network.left"
    # Seed 0 of 16, 4, 64 is 50, 51, 52 % and seed 1 is 56, 57, 58 %; in the order of the values:
    line = lines["full (2)"]
    assert list(line.get_xdata()) == [4, 16, 64] and list(line.get_ydata()) == pytest.approx([54, 53, 55])


def test_words_and_several_keys_are_lines_of_dots(tmp_path, figures):
    draw(tmp_path / "words", ["shapes/vit"], [("a.kind", ["lstm", "gru"])])
    draw(tmp_path / "two", ["shapes/vit"], [("a.left", ["1", "2"]), ("a.right", ["1", "2"])])
    assert [len(figure.axes[0].get_yticklabels()) for figure in figures] == [2, 4]


@pytest.mark.parametrize(("last", "scale"), [(0.9, "log"), (1.0, "linear")])
def test_progress_is_the_validation_error_against_minutes(tmp_path, figures, last, scale):
    for seed, first in enumerate((0.5, 0.3)):
        write_run(tmp_path / f"full/seed-{seed}", 0.9)
        write_progress(tmp_path / f"full/seed-{seed}", first, 0.7, last)
    assert draw_progress(read_rows(tmp_path, {}), tmp_path / "progress.png")
    (axes,) = figures[0].axes
    assert axes.get_yscale() == scale and axes.get_ylabel() == "100 − accuracy in validation (%)"
    line = means(axes)["full (2)"]
    assert list(line.get_xdata()) == pytest.approx([0.5, 1.0, 1.5])
    assert list(line.get_ydata()) == pytest.approx([60, 30, 100 - 100 * last])
    write_run(tmp_path / "cnn/seed-0", 0.9)
    write_progress(tmp_path / "cnn/seed-0", 0.4, 0.8, name="val_error_rate")
    assert not draw_progress(read_rows(tmp_path, {}), tmp_path / "progress.png")  # no common axis


def run(folder, variant, seed, accuracies, main="sequence_accuracy"):
    """A finished run with these accuracies by length, trained up to length 3."""
    path = folder / variant / f"seed-{seed}"
    path.mkdir(parents=True)
    lines = [f"{'test' if length <= 3 else 'longer'},{length},10,{v},0,1,0" for length, v in accuracies.items()]
    (path / "lengths.csv").write_text(HEAD + "\n".join(lines) + "\n")
    return Row(variant, seed, FINISHED, Result({main: 1.0}, main, 1, 1.0))


def test_lengths_are_lines_of_means_over_seeds(tmp_path, figures):
    rows = [
        run(tmp_path, "reverse,positions=rotary", 0, {2: 1.0, 3: 0.9, 6: 0.2}),
        run(tmp_path, "reverse,positions=rotary", 1, {2: 1.0, 3: 0.7, 6: 0.4}),
        run(tmp_path, "a$b", 0, {2: 0.5, 3: 0.5}),
    ]
    assert draw_lengths(tmp_path, rows, tmp_path / "lengths.png")
    (axes,) = figures[0].axes
    lines = means(axes)
    assert [*lines] == ["reverse,positions=rotary (2)", r"a\$b (1)"]
    first, second = lines.values()
    assert list(first.get_xdata()) == [2, 3, 6] and list(first.get_ydata()) == pytest.approx([100, 80, 30])
    assert list(second.get_ydata()) == pytest.approx([50, 50]) and set(axes.lines[-1].get_xdata()) == {3}


def test_what_is_no_sequence_task_has_no_lengths(tmp_path):
    words = run(tmp_path, "words", 0, {2: 1.0}, main="word_error_rate")
    assert not draw_lengths(tmp_path, [words], tmp_path / "lengths.png") and not (tmp_path / "lengths.png").exists()
