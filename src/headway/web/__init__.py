"""The dashboard and the admin API: what operators see and do, in a browser and over HTTP.

`create_dashboard` makes an ASGI app to mount in another one, `serve` runs it by itself. Both need
the extra `headway[web]`.
"""

from headway.errors import ConfigurationError

try:
    from headway.web.dashboard import create_dashboard
    from headway.web.security.auth import Auth, Open, Password, Token, Trust
    from headway.web.server import dashboard_server, serve
except ModuleNotFoundError as _error:
    if (_error.name or "headway").partition(".")[0] == "headway":
        raise
    raise ConfigurationError(
        f"the dashboard needs what is not installed ({_error.name}): pip install 'headway[web]'"
    ) from _error

__all__ = [
    "Auth",
    "Open",
    "Password",
    "Token",
    "Trust",
    "create_dashboard",
    "dashboard_server",
    "serve",
]
