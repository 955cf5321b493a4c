"""What a run says: steady state, knee, cause, comparison."""
