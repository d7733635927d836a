"""Real work: what trained networks reach on public instances, beside rules and other solvers."""
