"""Who may use the dashboard, and what they may see: access, logins, sessions, throttling, limits of
connections, redaction. Only `headway.web` imports it.
"""
