"""What the benchmark scripts share: a small wire client, processes, probes, statistics, plots."""
