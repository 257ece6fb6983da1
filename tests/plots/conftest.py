"""What the tests of figures share."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def unsaved(monkeypatch):
    """The figures that are drawn; none is written, which takes a second."""
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    return drawn
