"""What the benchmarks share: clocks, rows with their targets, runs of other processes, reports."""
