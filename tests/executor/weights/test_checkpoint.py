"""Is a checkpoint whole or not there, and is anything else told apart from it?"""

import pickle
from pathlib import Path

import pytest
import torch

from executor.errors import CheckpointError
from executor.weights.checkpoint import load, save

CONTENT = {
    "model": {"a": torch.arange(5.0), "b": torch.ones(2, dtype=torch.bfloat16)},
    "step": 3,
    "betas": (0.9, 0.99),
}


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """Tensors with their dtypes, numbers and tuples; nothing else is left in the folder."""
    save(tmp_path / "a.pt", CONTENT)
    found = load(tmp_path / "a.pt")
    assert torch.equal(found["model"]["a"], torch.arange(5.0))
    assert found["model"]["b"].dtype == torch.bfloat16
    assert (found["step"], found["betas"]) == (3, (0.9, 0.99))
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def test_an_interrupted_save_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    """What cannot be written to its end leaves neither a part nor a temporary file."""
    save(tmp_path / "a.pt", CONTENT)
    with pytest.raises((AttributeError, pickle.PicklingError, TypeError)):
        save(tmp_path / "a.pt", {"step": 4, "bad": lambda: None})
    assert load(tmp_path / "a.pt")["step"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_told(tmp_path: Path, share: float) -> None:
    """At whatever length it ends."""
    path = tmp_path / "a.pt"
    save(path, CONTENT)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        load(path)


def test_a_foreign_file_is_told(tmp_path: Path) -> None:
    """Text, another program's tensors, and a later version of the format."""
    path = tmp_path / "a.pt"
    path.write_text("hello")
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        load(path)
    torch.save({"weights": torch.ones(2)}, path)
    with pytest.raises(CheckpointError, match="was not written by this program"):
        load(path)
    torch.save({"format": "chimera-tuner checkpoint", "version": 99, "content": {}}, path)
    with pytest.raises(CheckpointError, match="version 99"):
        load(path)


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    """Nothing in it is run."""
    torch.save({"format": "chimera-tuner checkpoint", "content": _Trap()}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        load(tmp_path / "a.pt")


class _Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit(99)",))


def test_a_missing_file_or_folder_is_told(tmp_path: Path) -> None:
    """With the path."""
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*a\.pt"):
        load(tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="cannot be written"):
        save(tmp_path / "nowhere" / "a.pt", CONTENT)
