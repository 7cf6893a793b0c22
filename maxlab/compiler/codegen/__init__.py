"""Code generators: they print the loop IR and nothing else."""
