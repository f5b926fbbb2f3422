"""Write down the names that the service promises now: `.venv/bin/python -P -m tests.contract.refresh`.

The difference in version control shows what a change adds. What it removes breaks someone's script.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.contract.names import FOLDER, SCHEMAS, operations, schema


def main() -> None:
    """Write operations.json and one schema for each document."""
    with tempfile.TemporaryDirectory() as folder:
        _write(FOLDER / "operations.json", operations(Path(folder)))
    (FOLDER / "schemas").mkdir(exist_ok=True)
    for name in SCHEMAS:
        _write(FOLDER / "schemas" / f"{name}.json", schema(name))


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
