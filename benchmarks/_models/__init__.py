"""Models of actors in plain Python, with bugs planted in them: for benchmarks and tests alike."""
