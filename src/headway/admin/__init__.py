"""What operators ask and do: questions, explanations, statistics, actions with their audit, transfer.
The command line and the dashboard use it through `ports/admin.py`.
"""
