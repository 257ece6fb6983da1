"""Recurrence under the contract of attention: an encoder and a decoder with LSTM or GRU layers."""

from vitspeech.recurrence.decoder import RecurrentDecoder
from vitspeech.recurrence.encoder import RecurrentEncoder

__all__ = ["RecurrentDecoder", "RecurrentEncoder"]
