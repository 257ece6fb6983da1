"""Utterances with transcripts: composed from single words, or recorded."""
