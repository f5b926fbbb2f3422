"""What needs the updates of all stages at once, which asynchronous schedules do not have?"""

from executor.errors import ConfigurationError


def refuse_asynchronous(
    scheme: str,
    *,
    float16: bool,
    tied: int,
    sharded: bool,
    max_norm: float | None = None,
    compressed: bool = False,
) -> None:
    """Raises ConfigurationError for what needs the updates of all stages at once."""
    asked = {
        f"gradient clipping (max_norm {max_norm})": max_norm is not None,
        "float16 with its loss scale": float16,
        f"{tied} group{'s' * (tied != 1)} of tied parameters": tied > 0,
        "a sharded optimizer": sharded,
        "compression of gradients": compressed,
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise ConfigurationError(
                f"{scheme} updates its stages at different times, and {what} would need all of them at once: "
                "leave it out, or choose a synchronous schedule"
            )
