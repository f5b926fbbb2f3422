"""Is docs/reference what the code says of itself now?"""

from tests.contract.reference import FOLDER, pages


def test_the_reference_is_made_from_the_code_as_it_is() -> None:
    """Commands, routes and documents; a change of one is seen in the pages that users look up."""
    drifted = [
        name
        for name, text in pages().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != text
    ]
    assert not drifted, "run `make reference`, and commit what it writes to docs/reference"
