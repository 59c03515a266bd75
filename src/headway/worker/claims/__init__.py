"""Claims of a worker: when it looks for jobs, how many it takes, and where they wait to be run."""
