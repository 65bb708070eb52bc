"""The driver of the allreduce benchmark: starts the jobs, compares them, prints, plots."""
