"""What users run: a simulation, comparisons, what-if, sweeps and their store."""
