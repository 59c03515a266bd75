"""What every part needs of the process it runs in: forks, cancellation, an event loop in a thread,
the clock, and waiting between two tries. Knows the ports, no vendor and nothing of jobs.
"""
