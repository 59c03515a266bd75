"""Scripts and styles of the package, kept in memory. Their addresses hold a part of their hash, so
browsers may cache them for ever."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    content: bytes
    kind: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    found: dict[str, Asset] = {}
    _collect(resources.files("headway.web") / "static", "", found)
    return found


def asset_path(name: str) -> str:
    return f"/static/{name}?v={assets()[name].version}"


async def serve_asset(request: Request) -> Response:
    asset = assets().get(request.path_params["name"])
    if asset is None:
        raise HTTPException(404)
    known = request.query_params.get("v") == asset.version
    kept = "public, max-age=31536000, immutable" if known else "no-cache"
    return Response(asset.content, media_type=asset.kind, headers={"cache-control": kept})


def _collect(directory: Traversable, prefix: str, found: dict[str, Asset]) -> None:
    for entry in directory.iterdir():
        if entry.is_dir():
            _collect(entry, f"{prefix}{entry.name}/", found)
        elif kind := _KINDS.get(f".{entry.name.rpartition('.')[2]}"):
            content = entry.read_bytes()
            version = hashlib.sha256(content).hexdigest()[:12]
            found[prefix + entry.name] = Asset(content, kind, version)
