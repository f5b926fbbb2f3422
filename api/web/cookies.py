"""How are cookies set? For this service alone, unseen by scripts, over https only where people use https.

A browser sends those of a host to all its ports, as to two services behind tunnels: names tell the port.
"""

from fastapi import Request
from fastapi.responses import Response

from api.settings import Settings
from api.web.addresses import base_of


def read_cookie(request: Request, *, name: str) -> str:
    """What a cookie says; nothing without it."""
    return request.cookies.get(name_here(request, name), "")


def name_here(request: Request, name: str) -> str:
    """What the cookie is called at the address that the browser asks."""
    try:
        port = request.url.port
    except ValueError:
        port = None
    return name if port is None else f"{name}_{port}"


def set_cookie(
    answer: Response, request: Request, settings: Settings, *, name: str, value: str, most_s: int
) -> None:
    """Set a cookie; pages elsewhere that post here do not send it along, links from there do."""
    is_public_https = (settings.public_url or "").startswith("https:")
    answer.set_cookie(
        name_here(request, name),
        value,
        max_age=most_s,
        path=base_of(request.scope) or "/",
        httponly=True,
        samesite="lax",
        secure=is_public_https or request.scope["scheme"] == "https",
    )


def drop_cookie(answer: Response, request: Request, *, name: str) -> None:
    """Have the browser forget it."""
    answer.delete_cookie(
        name_here(request, name), path=base_of(request.scope) or "/", httponly=True, samesite="lax"
    )
