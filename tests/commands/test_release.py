"""`vitspeech release`: what it writes, and that it changes a table only on request."""


def test_release_writes_a_model_that_loads(command, finished_run, tmp_path):
    result = command("release", finished_run, tmp_path / "checkpoints/shapes")
    assert result.returncode == 0 and '"test_accuracy"' in result.stdout
    names = {path.name for path in (tmp_path / "checkpoints/shapes").iterdir()}
    assert names >= {"model.safetensors", "config.yaml", "card.json", "learning_curves.png", "confusion_matrix.png"}
    assert all(name in result.stdout.splitlines()[0] for name in names)
    assert not (tmp_path / "checkpoints/README.md").exists()


def test_release_writes_the_table_when_asked(command, finished_run, tmp_path):
    result = command("release", finished_run, tmp_path / "checkpoints/shapes", "--table")
    assert result.stdout.splitlines()[-1] == f"{tmp_path / 'checkpoints/README.md'}: wrote the table of models"
    assert "| `shapes` |" in (tmp_path / "checkpoints/README.md").read_text()
