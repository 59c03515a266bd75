"""From a function to rows: signatures, job types, arguments, codec, registry, plans of new jobs.
Client, worker and admin build on it; nothing is stored or run here.
"""
