"""What do the executor's tests share? One thread of torch in this process, where more would wait for each other."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Torch's threads wait by spinning: tests of tiny models took three times their processor time."""
    torch.set_num_threads(1)
