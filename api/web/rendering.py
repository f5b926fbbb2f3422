"""How does JSON become a page? Templates that escape everything they are given."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from api.reports.quantities import FILTERS
from api.web.assets import asset, plotly_style_ids
from api.web.visit import current_visit


@cache
def templates() -> Environment:
    """The templates of the package."""
    environment = Environment(
        loader=PackageLoader("api", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": True}
    environment.filters |= FILTERS
    environment.globals |= {"asset": asset, "plotly_style_ids": plotly_style_ids, "visit": current_visit}
    return environment


def render(template: str, **context: Any) -> str:
    """Fill a template; `base` is the path under which the service is seen, `standalone` makes one file."""
    return templates().get_template(template).render(**{"base": "", "standalone": False, **context})
