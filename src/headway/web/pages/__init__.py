"""The pages of the dashboard, one module each; `dashboard.py` collects their routes."""
