"""What may a browser do with an answer? Headers that every answer carries unless its route set its own."""

from starlette.datastructures import MutableHeaders

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
"""Pages load what this service serves and nothing else; no script or style stands inline."""

STANDALONE_POLICY = "sandbox allow-scripts allow-popups allow-downloads; frame-ancestors 'none'"
"""For a report in one file, which names its inline scripts itself: it runs in an origin of its own."""

_ALWAYS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "private, no-cache",
}


def secure(headers: MutableHeaders) -> None:
    """Add what is missing."""
    for name, value in _ALWAYS.items():
        headers.setdefault(name, value)
