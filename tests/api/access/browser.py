"""What does a browser do at the door? It keeps cookies, says where a form comes from, and asks for pages."""

import re
from typing import Any

from starlette.testclient import TestClient

from api.app import create_app
from api.service import Service

OWN = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


class Browser:
    """A person's browser, which goes where it is sent only when it is told to."""

    def __init__(self, service: Service, *, base: str = "http://127.0.0.1", root_path: str = "") -> None:
        self.client = TestClient(
            create_app(service=service), base_url=base, raise_server_exceptions=False,
            follow_redirects=False, headers=OWN, root_path=root_path,
        )  # fmt: skip

    def sign_in(self, key: str, *, following: str = "/", path: str = "/login") -> Any:
        """Open the form, fill it in and send it."""
        form = self.client.get(path, params={"next": following}).text
        fields = {"key": key, "next": hidden(form, "next"), "csrf": hidden(form, "csrf")}
        return self.client.post(path, data=fields)

    def token(self, path: str = "/") -> str:
        """What a page lets its scripts send along."""
        found = re.search(r'<meta name="csrf-token" content="(\w+)">', self.client.get(path).text)
        assert found
        return found[1]


def hidden(page: str, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found, page
    return found[1]
