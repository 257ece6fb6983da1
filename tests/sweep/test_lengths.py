"""The figure of accuracy by length: what is read from the runs, and what is drawn."""

import pytest

from vitspeech.errors import InputError
from vitspeech.sweep.figure import draw_lengths
from vitspeech.sweep.results import FINISHED, Result, Row

HEAD = "test_set,input_symbols,sequences,sequence_accuracy,low,high,symbol_error_rate\n"


def run(folder, variant, seed, accuracies, trained=3):
    """A finished run with these accuracies by length."""
    path = folder / variant / f"seed-{seed}"
    path.mkdir(parents=True)
    sets = {length: "test" if length <= trained else "longer" for length in accuracies}
    lines = [f"{sets[length]},{length},10,{value},0,1,0" for length, value in accuracies.items()]
    (path / "lengths.csv").write_text(HEAD + "\n".join(lines) + "\n")
    return Row(variant, seed, FINISHED, Result({"sequence_accuracy": 1.0}, "sequence_accuracy", 1, 1.0, "", ""))


def test_lines_are_means_over_seeds_by_length(tmp_path, figures):
    rows = [
        run(tmp_path, "reverse,positions=rotary", 0, {2: 1.0, 3: 0.9, 6: 0.2}),
        run(tmp_path, "reverse,positions=rotary", 1, {2: 1.0, 3: 0.7, 6: 0.4}),
        run(tmp_path, "a$b", 0, {2: 0.5, 3: 0.5}),
    ]
    assert draw_lengths(tmp_path, rows, tmp_path / "lengths.png")
    (axes,) = figures[0].axes
    first, *dots, second, trained = axes.lines
    assert list(first.get_xdata()) == [2, 3, 6] and list(first.get_ydata()) == pytest.approx([100, 80, 30])
    assert [list(line.get_ydata())[-1] for line in dots] == pytest.approx([20, 40])
    assert list(second.get_ydata()) == [50, 50] and set(trained.get_xdata()) == {3}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["reverse,positions=rotary (2)", r"a\$b (1)"]


def test_a_sweep_of_something_else_has_no_such_figure(tmp_path):
    row = run(tmp_path, "vit", 0, {2: 1.0})
    (tmp_path / "vit/seed-0/lengths.csv").unlink()
    assert not draw_lengths(tmp_path, [row], tmp_path / "lengths.png") and not (tmp_path / "lengths.png").exists()


def test_the_table_of_a_recognizer_is_left_alone(tmp_path):
    row = run(tmp_path, "words", 0, {2: 1.0})
    (tmp_path / "words/seed-0/lengths.csv").write_text("test_set,length_in,from,to\ntest,seconds,0,2\n")
    result = Result({"word_error_rate": 0.1}, "word_error_rate", 1, 1.0, "", "")
    assert not draw_lengths(tmp_path, [Row(row.variant, 0, FINISHED, result)], tmp_path / "lengths.png")


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", HEAD + "test,x,1,1,1,1,1\n", HEAD + "test,3\n"])
def test_a_broken_table_is_named(tmp_path, text):
    row = run(tmp_path, "copy", 0, {2: 1.0})
    (tmp_path / "copy/seed-0/lengths.csv").write_text(text)
    with pytest.raises(InputError, match=r"lengths\.csv: not a table of accuracies by length"):
        draw_lengths(tmp_path, [row], tmp_path / "lengths.png")
