"""From a function to rows: signatures, job types, arguments, the codec, the registry, plans of new jobs.
Client, worker and admin build on it; it stores nothing and runs nothing.
"""
