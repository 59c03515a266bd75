"""Values and rules: jobs, requests, leases, states, events, questions and answers.
No I/O, no event loop, no vendor's name. Every other package may import it.
"""
