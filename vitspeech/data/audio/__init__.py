"""Reading recordings, lists of recordings, and speech synthesis."""
