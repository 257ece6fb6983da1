"""How often a keyword spotter misses words and reports words that nobody said, and the choice of its thresholds."""
