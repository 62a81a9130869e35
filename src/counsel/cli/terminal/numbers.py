"""Options that are numbers."""

from __future__ import annotations

import math
from typing import Any

import click


class Number(click.FloatRange):
    """A number without `nan` and `inf`, which JSON lacks: click's range accepts both if it has no maximum."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
