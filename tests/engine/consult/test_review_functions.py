"""A reviewer reads the whole function around a change, in any language."""

from __future__ import annotations

import pytest

from counsel.engine.consult.review import diff, functions
from counsel.engine.consult.review.diff import FileDiff, Hunk

PYTHON = """
import os

LIMIT = 3

class Store:
    \"\"\"Docs.\"\"\"

    size = 1
    {filler}

    # why
    @property
    async def total(
        self,
    ) -> int:
        result = 0

        for price in self.prices:
            if price:
                > result += price
        return result

    def other(self):
        pass
"""
JAVASCRIPT = """
import x from "y";

export class Store {{
  {filler}

  /** why */
  async total(prices) {{
    for (const price of prices) {{
      if (price) {{
        > sum(price);
      }}
    }}
    return result;
  }}

  other() {{
  }}
}}
"""
GO = """
package store

// Total adds.
func (s *Store) Total(
\tprices []int,
) (int, error) {{
\tif len(prices) == 0 {{
\t\treturn 0, nil
\t}}
\tfor _, price := range prices {{
\t\t> sum += price
\t}}
#label
\treturn sum, nil
}}

func other() {{
}}
"""
C_SHARP = """
namespace Shop
{{
    public class Store
    {{
        {filler}

        [Pure]
        public int Total(int[] prices)
        {{
            foreach (var price in prices)
            {{
                > sum += price;
            }}
            return sum;
        }}

        int other;
    }}
}}
"""
RUBY = """
class Store
  {filler}

  # why
  def total(prices)
    prices.each do |price|
      > sum += price
    end
    sum
  end

  def other
  end
end
"""


def lines_of(code: str) -> tuple[str, ...]:
    """`>` marks the changed line. The class is too long to be sent as a whole."""
    filler = code.split("{filler}", maxsplit=1)[0].rpartition("\n")[2] if "{filler}" in code else ""
    source = code.format(filler=f"\n{filler}".join(f"x{number} = 1;" for number in range(200)))
    return tuple(
        "+" + line.replace("> ", "", 1) if line.strip().startswith("> ") else " " + line
        for line in source.strip("\n").split("\n")
    )


@pytest.mark.parametrize(
    ("code", "first", "last", "outside"),
    [
        (PYTHON, "    # why", "        return result", "class Store:"),
        (JAVASCRIPT, "  /** why */", "  }", "export class Store {"),
        (GO, "// Total adds.", "}", None),
        (C_SHARP, "        [Pure]", "        }", "    public class Store"),
        (RUBY, "  # why", "  end", "class Store"),
    ],
)
def test_the_function_around_a_change_is_shown(code: str, first: str, last: str, outside: str | None) -> None:
    lines = lines_of(code)
    file = FileDiff(path="a", hunks=(Hunk(1, 1, lines),))
    excerpt = file.narrowed(0, whole_functions=True)
    *around, block = excerpt.hunks
    assert (block.lines[0][1:], block.lines[-1][1:]) == (first, last)
    assert "other" not in str(excerpt)
    assert "x3 = 1" not in str(excerpt)
    if outside:
        assert outside in [line[1:] for hunk in around for line in hunk.lines]
    assert (excerpt.changed, excerpt.counts) == (file.changed, file.counts)
    assert diff.parse(excerpt.unified()) == [excerpt]


def test_only_the_first_line_of_a_long_function_is_shown() -> None:
    body = [f"     line({number})" for number in range(functions.LONGEST)]
    lines = (" def long():", *body[:100], "+    new()", *body[100:])
    excerpt = FileDiff(path="a.py", hunks=(Hunk(1, 1, lines),)).narrowed(1, whole_functions=True)
    assert [hunk.lines for hunk in excerpt.hunks] == [(lines[0],), lines[100:103]]


@pytest.mark.parametrize(
    "lines",
    [
        (" {", '   "a": [', "+    1,", "     2", "   ]", " }"),
        (" if x:", "     y", "+    z", " a"),
        (" text", "+more text", " the function of this class"),
        ("-def gone():", "-    pass", " x = 1"),
    ],
)
def test_text_that_is_not_a_function_adds_nothing(lines: tuple[str, ...]) -> None:
    assert functions.around_changes(lines) <= {at for at, line in enumerate(lines) if line[0] != " "}


def test_a_large_data_file_takes_no_time() -> None:
    """Only a limited number of lines before each change is searched."""
    lines = [f" {'  ' * (number % 40)}- {number}" for number in range(20_000)]
    lines[::10] = [f"+{line[1:]}" for line in lines[::10]]
    assert len(functions.around_changes(lines)) < len(lines)
