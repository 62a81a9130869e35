from __future__ import annotations

import base64
import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from counsel import settings
from counsel.caller import Caller
from counsel.engine.context import build, images
from counsel.errors import FileNotAllowed, FileTooLarge, InvalidArgument
from counsel.requests import Question
from counsel.types import Image, Model


def make_image(form: str = "PNG", size: Any = (8, 6), mode: str = "RGB", **options: Any) -> bytes:
    out = io.BytesIO()
    Pillow.new(mode, size, "red").save(out, form, **options)
    return out.getvalue()


def noise(form: str, size: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    Pillow.effect_noise(size, 90).convert("RGB").save(out, form, **options)
    return out.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


def url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


@pytest.fixture
def caller(tmp_path: Path) -> Callable[..., Caller]:
    def make(**env: str) -> Caller:
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        home = {"HOME": str(tmp_path), "COUNSEL_HOME": str(tmp_path / "counsel")}
        return Caller(cwd=project, settings=settings.load({**home, **env}))

    return make


def see(caller: Caller, *names: str) -> tuple[Image, ...]:
    return build.build(Question(prompt="Q", images=names), caller).images


@pytest.mark.parametrize(
    ("form", "media_type"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp")],
)
def test_the_type_is_found_by_content_and_the_bytes_stay(
    caller: Callable[..., Caller], form: str, media_type: str
) -> None:
    data = make_image(form)
    path = caller().cwd / "picture.txt"
    path.write_bytes(data)
    (image,) = see(caller(), "picture.txt")
    assert (image.media_type, image.data, image.path, image.width, image.height) == (
        media_type,
        data,
        path,
        8,
        6,
    )
    (image,) = see(caller(), url(data, media_type))
    assert (image.media_type, image.data, image.path) == (media_type, data, None)


def test_bmp_becomes_png(caller: Callable[..., Caller]) -> None:
    (image,) = see(caller(), url(make_image("BMP"), "image/bmp"))
    assert image.media_type == "image/png"
    assert Pillow.open(io.BytesIO(image.data)).size == (8, 6)


def test_the_same_image_is_sent_once_and_named_in_the_sources(caller: Callable[..., Caller]) -> None:
    (caller().cwd / "a.png").write_bytes(make_image())
    context = build.build(Question(prompt="Q", images=("a.png", url(make_image()))), caller())
    assert len(context.images) == 1
    assert context.sources[0].to_json() == {"name": "a.png", "size": len(make_image())}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("https://example.com/a.png", "does not fetch"),
        ("HTTP://169.254.169.254/latest", "does not fetch"),
        ("file:///etc/passwd", "does not fetch"),
        ("data:image/png;base64,@@@@", "base64"),
        ("data:image/png;base64," + base64.b64encode(make_image()).decode()[:-3], "base64"),
        ("data:image/png;base64,iVBO\nRw0K", "base64"),
        ("data:image/png,rawtext", "malformed"),
        ("data:,", "malformed"),
        (url(make_image("JPEG"), "image/png"), "declared as image/png but contains image/jpeg"),
        (url(b"<svg xmlns='x'/>", "image/svg+xml"), "SVG"),
        (url(b"<?xml version='1.0'?><svg/>", "image/svg+xml"), "SVG"),
        (url(b"%PDF-1.7"), "not a PNG"),
        (url(b""), "not a PNG"),
        ("DATA:IMAGE/PNG;BASE64,AAAA", "not a PNG"),
        (url(make_image()[:40]), "damaged"),
        *(
            (url(make_image(form, (200, 200))[:-40], f"image/{form.lower()}"), "damaged")
            for form in ("PNG", "JPEG", "GIF", "WEBP", "BMP")
        ),
        (url(b"\x89PNG\r\n\x1a\n" + b"junk" * 9), "damaged"),
    ],
)
def test_files_that_are_not_images_are_refused(caller: Callable[..., Caller], value: Any, words: Any) -> None:
    with pytest.raises(InvalidArgument, match=words) as excinfo:
        see(caller(), value)
    assert excinfo.value.hint
    assert len(str(excinfo.value)) < 500  # a data URL is not echoed


@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP"]), st.data())
@hypothesis_settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_damaged_image_is_refused(
    caller: Callable[..., Caller], form: str, data: st.DataObject
) -> None:
    original = bytearray(make_image(form, (20, 20)))
    for _ in range(data.draw(st.integers(1, 6))):
        original[data.draw(st.integers(0, len(original) - 1))] = data.draw(st.integers(0, 255))
    damaged_data = bytes(original[: data.draw(st.integers(1, len(original)))])
    try:
        (image,) = see(caller(), f"data:;base64,{base64.b64encode(damaged_data).decode()}")
        images.fit(image, model(image_max_edge=10))
    except (InvalidArgument, FileTooLarge):
        pass


def test_the_folder_rules_apply_to_images_too(caller: Callable[..., Caller], tmp_path: Path) -> None:
    (tmp_path / "outside.png").write_bytes(make_image())
    (caller().cwd / "link.png").symlink_to(tmp_path / "outside.png")
    (caller().cwd / ".env").write_bytes(make_image())
    for name in ("../outside.png", "link.png", str(tmp_path / "outside.png"), ".env"):
        with pytest.raises(FileNotAllowed):
            see(caller(), name)


def test_bytes_are_limited_before_they_are_decoded(caller: Callable[..., Caller]) -> None:
    data = noise("PNG", (64, 64))
    small_limit = caller(COUNSEL_MAX_IMAGE_BYTES=str(len(data) - 1))
    (small_limit.cwd / "a.png").write_bytes(data)
    for value in ("a.png", url(data)):
        with pytest.raises(FileTooLarge, match="bytes"):
            see(small_limit, value)
    assert see(caller(COUNSEL_MAX_IMAGE_BYTES=str(len(data))), "a.png", url(data))


@pytest.mark.parametrize("size", [(8_000, 8_000), (60_000, 60_000)])
def test_a_decompression_bomb_is_refused_unopened(caller: Callable[..., Caller], size: Any) -> None:
    with pytest.raises(FileTooLarge, match="pixels"):
        see(caller(), url(bomb(*size)))


def test_the_number_of_images_is_limited(caller: Callable[..., Caller]) -> None:
    with pytest.raises(InvalidArgument, match="COUNSEL_MAX_IMAGES"):
        see(caller(COUNSEL_MAX_IMAGES="1"), "a", "b")


def model(provider: str = "openai", **options: Any) -> Model:
    return Model("m", provider, "m", vision=True, options=options)


def test_an_image_that_fits_is_unchanged() -> None:
    image = Image("image/png", make_image(), width=8, height=6)
    assert images.fit(image, model()) is image
    result = images.fit(
        Image("image/png", make_image()), model()
    )  # from a conversation: its size is not known
    assert (result.data, result.width, result.height) == (image.data, 8, 6)


def test_a_large_image_is_scaled_to_the_models_limit() -> None:
    image = Image("image/png", make_image(size=(4000, 1000)))
    result = images.fit(image, model(image_max_edge=1000))
    assert (result.media_type, result.width, result.height) == ("image/png", 1000, 250)
    assert Pillow.open(io.BytesIO(result.data)).size == (1000, 250)


def test_every_vendor_gets_at_most_its_edge() -> None:
    image = Image("image/jpeg", make_image("JPEG", (4000, 40)))
    for vendor, limit in images.VENDOR_LIMITS.items():
        result = images.fit(image, model(vendor))
        assert (result.media_type, result.width) == ("image/jpeg", limit.edge)


def test_anthropic_counts_its_limit_in_base64() -> None:
    """ "image exceeds 5 MB maximum: 6275800 bytes > 5242880 bytes" for a file of 4.7 MB."""
    assert len(base64.b64encode(bytes(images.limits(model("anthropic")).bytes))) <= 5_242_880


def test_bytes_are_brought_under_the_limit() -> None:
    data = noise("PNG", (300, 300))
    result = images.fit(Image("image/png", data), model(image_max_bytes=9_000))
    assert result.media_type == "image/jpeg"
    assert len(result.data) <= 9_000


def test_an_image_that_cannot_be_made_small_enough_is_refused() -> None:
    with pytest.raises(FileTooLarge):
        images.fit(Image("image/png", noise("PNG", (200, 200))), model(image_max_bytes=100))


@pytest.mark.parametrize(("vendor", "form"), [("google", "GIF"), ("xai", "GIF"), ("xai", "WEBP")])
def test_a_type_that_the_vendor_does_not_take_becomes_png(vendor: str, form: str) -> None:
    result = images.fit(Image(f"image/{form.lower()}", make_image(form)), model(vendor))
    assert result.media_type == "image/png"


def test_transparency_is_kept_in_png_and_becomes_white_in_jpeg() -> None:
    image = Image("image/png", make_image(size=(300, 300), mode="RGBA"))
    clear = io.BytesIO()
    Pillow.new("RGBA", (300, 300), (0, 0, 0, 0)).save(clear, "PNG")
    image = Image("image/png", clear.getvalue())
    small = images.fit(image, model(image_max_edge=100))
    assert Pillow.open(io.BytesIO(small.data)).getpixel((5, 5)) == (0, 0, 0, 0)
    jpeg = images.fit(image, model(image_max_edge=100, image_types=["image/jpeg"]))
    assert Pillow.open(io.BytesIO(jpeg.data)).getpixel((5, 5)) == (255, 255, 255)


def test_a_photo_is_turned_upright_when_it_is_made_smaller() -> None:
    rotation = Pillow.Exif()
    rotation[0x0112] = 6
    image = Image("image/jpeg", make_image("JPEG", (400, 200), exif=rotation))
    result = images.fit(image, model(image_max_edge=100))
    assert (result.width, result.height) == (50, 100)


def test_pillow_is_not_imported_before_the_first_image() -> None:
    code = "import counsel.engine.context.build, sys; print('PIL' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "False"
