"""`chimera list`: which models, accelerators, clusters and schedules are known by name?"""

from collections.abc import Sequence
from typing import Any

import click

from cli.errors import DONE

Rows = Sequence[dict[str, Any]]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("list", epilog="\b\nExample:\n  chimera list models")
def list_documents() -> None:
    """List what is known by name."""


@list_documents.command(epilog="\b\nExample:\n  chimera list models --json")
@json_option
def models(as_json: bool) -> int:
    """Model presets, for --model."""
    from profiles import library

    presets = [library.load_model_preset(name) for name in library.names("models")]
    rows = [
        {
            "name": preset.name,
            "sequence_length": preset.sequence_length,
            "precision": preset.precision,
            "attention": preset.attention,
            "description": preset.description,
        }
        for preset in presets
    ]
    return _print(rows, "models", as_json)


@list_documents.command(epilog="\b\nExample:\n  chimera list accelerators")
@json_option
def accelerators(as_json: bool) -> int:
    """Accelerator data sheets, for --accelerator."""
    from profiles import library

    sheets = [library.load_accelerator(name) for name in library.names("devices")]
    rows = [
        {
            "name": sheet.name,
            "vendor": sheet.vendor,
            "memory_bytes": sheet.memory_bytes,
            "memory_bandwidth_bytes_per_s": sheet.memory_bandwidth_bytes_per_s,
            "peak_flops": dict(sheet.peak_flops),
        }
        for sheet in sheets
    ]
    return _print(rows, "accelerators", as_json)


@list_documents.command(epilog="\b\nExample:\n  chimera list clusters")
@json_option
def clusters(as_json: bool) -> int:
    """Cluster presets, for --cluster."""
    from profiles import library

    found = [library.load_cluster(name) for name in library.names("clusters")]
    rows = [
        {
            "name": cluster.name,
            "accelerator": cluster.node.accelerator,
            "devices_per_node": cluster.node.devices,
            "max_devices": cluster.max_devices,
            "description": cluster.description,
        }
        for cluster in found
    ]
    return _print(rows, "clusters", as_json)


@list_documents.command(epilog="\b\nExample:\n  chimera list schedules")
@json_option
def schedules(as_json: bool) -> int:
    """Schedules that can be planned, for --schedules."""
    from tuner.schedules import SCHEMES

    rows = [{"name": name, "synchronous": scheme.synchronous} for name, scheme in SCHEMES.items()]
    return _print(rows, "schedules", as_json)


def _print(rows: Rows, noun: str, as_json: bool) -> int:
    if as_json:
        from profiles.document import canonical_json

        click.echo(canonical_json({noun: rows}))
        return DONE
    from cli.quantities import table

    header = [name.removesuffix("_per_s").removesuffix("_bytes").replace("_", " ") for name in rows[0]]
    cells = ([_cell(name, value) for name, value in row.items()] for row in rows)
    click.echo("\n".join(table(header, cells, indent=0)))
    return DONE


def _cell(name: str, value: Any) -> str:
    from cli.quantities import count, gigabytes

    if value is None:
        return "any"
    if name == "memory_bytes":
        return gigabytes(value)
    if name == "memory_bandwidth_bytes_per_s":
        return f"{value / 1e9:,.0f} GB/s"
    if name == "peak_flops":
        return ", ".join(f"{precision} {count(rate)}" for precision, rate in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
