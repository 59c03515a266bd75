"""What operators ask and do: questions, explanations, statistics, audited actions, transfer.
The command line and the dashboard use it through `ports/admin.py`.
"""
