"""What is in docs/reference? Commands, routes and documents, as the code describes them: `make reference`."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from cli.main import app
from tests.contract.names import SCHEMAS, described

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
_MADE = "<!-- Made by `make reference`: edit what it is made from. -->"
_WIDTH = 100
_LINK = "#/$defs/"

Schema = dict[str, Any]


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The text of each page."""
    made = {"commands.md": commands(), "routes.md": routes(), "documents.md": documents()}
    return {name: f"{_MADE}\n\n" + "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}


def commands() -> Iterator[str]:
    """The help of every command."""
    yield from ("# Commands", "")
    yield "Every command has `--help`, and `--json` for one JSON document on stdout. Exit codes: 0 done, 1"
    yield "the answer is negative, 2 bad input, 3 it could not be answered."
    # As a command has them that is started from the first one, which click keeps from the first use on.
    settings = app.context_settings | {"terminal_width": _WIDTH, "max_content_width": _WIDTH}
    for words, command in _walk(app, ("chimera",)):
        context = click.Context(command, info_name=" ".join(words), **settings)
        yield from ("", f"## {' '.join(words)}", "", "```text")
        yield from (line.rstrip() for line in command.get_help(context).splitlines())
        yield "```"


def _walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    for name, child in command.commands.items() if isinstance(command, click.Group) else ():
        yield from _walk(child, (*words, name))


def routes() -> Iterator[str]:
    """The operations of the OpenAPI document."""
    with tempfile.TemporaryDirectory() as folder:
        operations = list(_operations(described(Path(folder))))
    yield from ("# Routes", "")
    everywhere = set.intersection(
        *(set(operation["responses"]) for _, call, operation in operations if "/v1/" in call)
    )
    yield "From the service's description, `/openapi.json`. How they are used is in [rest.md](../rest.md),"
    yield "and documents are in [documents.md](documents.md). `?` marks what may be left out. Every route may"
    yield f"also answer {', '.join(sorted(everywhere))}."
    for tag in sorted({tag for tag, _, _ in operations}):
        yield from ("", f"## {tag}", "", "| call | does | query | body | answers |", "|---|---|---|---|---|")
        for _, call, operation in (entry for entry in operations if entry[0] == tag):
            told = _sentence(operation.get("description", ""))
            statuses = ", ".join(sorted(operation["responses"].keys() - everywhere))
            yield _row(f"`{call}`", told, ", ".join(_query(operation)), _body(operation), statuses)


def _operations(document: Schema) -> Iterator[tuple[str, str, Schema]]:
    """Tag, method with path, and operation."""
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            yield operation.get("tags", ["other"])[0], f"{method.upper()} {path}", operation


def _query(operation: Schema) -> Iterator[str]:
    for entry in operation.get("parameters", []):
        if entry["in"] == "query":
            yield f"`{entry['name']}`{'' if entry.get('required') else '?'}"


def _body(operation: Schema) -> str:
    contents = operation.get("requestBody", {}).get("content", {})
    named = [content["schema"].get("$ref", "").rpartition("/")[2] for content in contents.values()]
    return ", ".join(name for name in named if name)


def documents() -> Iterator[str]:
    """The keys of every document, and of the parts they share."""
    yield from ("# Documents", "")
    yield "Every key of the documents that commands print with `--json`, that files hold, and that services"
    yield "take and give. Later releases may add keys to what they give; what they take is strict. Units"
    yield "stand in the names. `?` marks what may be left out."
    parts: dict[str, Schema] = {}
    for name, (model, mode) in sorted(SCHEMAS.items()):
        schema = model.model_json_schema(mode=mode)  # type: ignore[arg-type]
        found = schema.pop("$defs", {})
        parts |= {part: entry for part, entry in found.items() if part not in parts}
        yield from ("", f"## {name.replace('_', ' ')}", "")
        yield from _described(found[schema["$ref"].removeprefix(_LINK)] if "$ref" in schema else schema)
    yield from ("", "# Parts", "", "What documents are made of.")
    for name, schema in sorted(parts.items()):
        yield from ("", f"## {name}", "")
        yield from _described(schema)


def _described(schema: Schema) -> Iterator[str]:
    if schema.get("description"):
        yield from (_sentence(schema["description"]), "")
    if "properties" not in schema:
        yield _kind(schema)
        return
    required = set(schema.get("required", ()))
    yield from ("| key | is | meaning |", "|---|---|---|")
    for key, entry in schema["properties"].items():
        optional = "" if key in required else "?"
        yield _row(f"`{key}`{optional}", _kind(entry), _sentence(entry.get("description", "")))


def _kind(schema: Schema) -> str:
    """What a value is, in words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_LINK)
        return f"[{name}](#{name.lower()})"
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    if choices := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(dict.fromkeys(_kind(entry) for entry in choices))
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"[{', '.join(_kind(entry) for entry in schema['prefixItems'])}]"
        case "array":
            return f"list of {_kind(schema.get('items', {}))}"
        case "object":
            values = schema.get("additionalProperties")
            return f"object of {_kind(values)}" if isinstance(values, dict) and values else "object"
        case str() as kind:
            return kind
    return "anything"


def _sentence(text: str) -> str:
    """On one line of a table."""
    return re.sub(r"\s+", " ", text).strip().replace("|", r"\|").replace("<", "&lt;")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
