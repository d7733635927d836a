"""Speed, measured: ``make bench`` runs everything, ``python -m benchmarks.attention`` one part.

Each module prints rows that compare ours with a named baseline, measured in the same run.
"""
