"""A job queue for Python that lives in your database."""
