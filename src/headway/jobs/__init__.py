"""From a function to rows: job types, signatures, arguments, codec, handlers, registry, plans of
new jobs, and the Job that handlers get. No handler runs here. Client, worker, admin and app may
import it.
"""
