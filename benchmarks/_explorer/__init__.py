"""What the benchmark of schedules measures, one question each."""
