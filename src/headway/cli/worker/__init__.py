"""`headway worker`: a worker in this process or in several, with signals, logs and metrics. The
commands `worker`, `queues drain` and `dev` use it.
"""
