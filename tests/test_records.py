"""Records: frozen values with named fields."""

import copy
import pickle

import pytest

from counsel.records import Record


class Point(Record):
    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


class Named(Point):
    name: str = ""


@pytest.mark.parametrize("point", [Point(1), Point(1, 2), Point(x=1), Point(1, y=2), Point(y=2, x=1)])
def test_fields_come_by_place_by_name_or_by_default(point: Point) -> None:
    assert (point.x, point.y, point.sum) == (1, 2, 3)
    assert point == Point(1)
    assert hash(point) == hash(Point(1))
    assert repr(point) == "Point(x=1, y=2)"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((1, 2, 3), {}),
        ((1,), {"x": 2}),
        ((1, 2), {"y": 2}),
        ((1,), {"z": 2}),
        ((), {"y": 1}),
        ((1, 2), {"z": 3}),
    ],
)
def test_other_fields_are_refused(args: tuple[int, ...], kwargs: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*args, **kwargs)


def test_a_record_does_not_change() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match=r"Point\.x cannot be changed"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Point\.x cannot be changed"):
        del point.x
    assert point.replaced(x=5) == Point(5)
    assert point == Point(1)
    with pytest.raises(TypeError):
        point.replaced(z=1)


def test_records_of_two_kinds_are_not_equal() -> None:
    assert Named(1) != Point(1)
    assert Named(1, name="a") == Named(1, 2, "a")
    assert Point(1) != (1, 2)


def test_records_can_be_copied_and_sent() -> None:
    assert copy.copy(Point(1)) == pickle.loads(pickle.dumps(Point(1))) == Point(1)


def test_a_subclass_without_fields_has_its_parents() -> None:
    class Same(Point):
        """Nothing new."""

    assert Same(1).y == 2
