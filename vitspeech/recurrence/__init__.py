"""An encoder and a decoder with LSTM or GRU layers, with the interface of those with attention."""

from vitspeech.recurrence.decoder import RecurrentDecoder
from vitspeech.recurrence.encoder import RecurrentEncoder

__all__ = ["RecurrentDecoder", "RecurrentEncoder"]
