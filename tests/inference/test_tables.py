"""Tables of results: what they are known by, and where they go on."""

from dataclasses import replace

import pytest

import vitspeech
from vitspeech.errors import InputError
from vitspeech.inference.batches import Position
from vitspeech.inference.tables import open_results, stopped_at

COLUMNS = {"file": "", "status": ""}


@pytest.fixture
def stopped(finished_run, tmp_path):
    """Opens the table of a run that was interrupted after two of three files, with changes of that run."""
    model = vitspeech.load(finished_run)

    def reopen(*, resume=True, model=model, paths=("pictures",), top=3, card=None, device="cpu"):
        model = replace(model, card=model.card | card) if card else model
        settings = {"command": "predict", "top": top, "device": device}
        return open_results(tmp_path / "rows.csv", COLUMNS, model, paths, batch=2, resume=resume, **settings)

    with pytest.raises(RuntimeError), reopen(resume=False) as table:
        assert stopped_at(table) is None
        for name in ("a.png", "b.png", "c.png"):
            table.add(name, [(name, "ok")])
        raise RuntimeError
    return reopen


def test_a_table_goes_on_after_the_last_whole_batch(stopped):
    with pytest.raises(RuntimeError), stopped() as table:
        assert stopped_at(table) == Position(2, "b.png")
        raise RuntimeError


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top": 1}, "top was 3, and is 1 now"),
        ({"device": "cuda"}, "device was cpu, and is cuda now"),
        ({"paths": ("pictures", "more")}, "paths was another"),
        ({"paths": ("pict", "ures")}, "paths was another"),
        ({"card": {"sha256": "0" * 64}}, "weights was another"),
        ({"card": {"config_sha256": "0" * 64}}, "model_config was another"),
    ],
)
def test_a_table_of_another_model_or_other_options_is_refused(stopped, change, message):
    with pytest.raises(InputError, match=f"cannot be resumed: {message}"):
        stopped(**change)
