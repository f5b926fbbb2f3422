"""How are cookies set? For this service alone, unseen by scripts, over https only where people use https."""

from fastapi import Request
from fastapi.responses import Response

from api.settings import Settings
from api.web.addresses import base_of


def set_cookie(
    answer: Response, request: Request, settings: Settings, *, name: str, value: str, most_s: int
) -> None:
    """Set a cookie; pages elsewhere that post here do not send it along, links from there do."""
    is_public_https = (settings.public_url or "").startswith("https:")
    answer.set_cookie(
        name,
        value,
        max_age=most_s,
        path=base_of(request.scope) or "/",
        httponly=True,
        samesite="lax",
        secure=is_public_https or request.scope["scheme"] == "https",
    )


def drop_cookie(answer: Response, request: Request, *, name: str) -> None:
    """Have the browser forget it."""
    answer.delete_cookie(name, path=base_of(request.scope) or "/", httponly=True, samesite="lax")
