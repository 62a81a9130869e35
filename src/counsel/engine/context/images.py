"""Images: recognised by their content, limited in bytes and pixels, scaled to what the model accepts.

Pillow is imported with the first image, as its import takes longer than the rest of the start.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from counsel.engine.context import image_cost
from counsel.engine.context.allowed_folders import Folders
from counsel.errors import CounselError, FileTooLarge, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.settings import Settings
from counsel.types import Image, Model

if TYPE_CHECKING:
    from PIL import Image as Pillow

# First bytes, media type, Pillow's name for it.
_MAGIC: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png", "PNG"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg", "JPEG"),
    (re.compile(rb"GIF8[79]a"), "image/gif", "GIF"),
    (re.compile(rb"RIFF(?s:.{4})WEBP"), "image/webp", "WEBP"),
    (re.compile(rb"BM"), "image/bmp", "BMP"),
)
_ALIASES = {"image/jpg": "image/jpeg", "image/x-ms-bmp": "image/bmp", "image/x-png": "image/png"}
_SVG = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*(?:<\?xml|<!--|<!DOCTYPE svg|<svg)", re.IGNORECASE)
_DATA_URL = re.compile(
    r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+=-]+)*),(.*)", re.DOTALL | re.ASCII | re.IGNORECASE
).fullmatch
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]++={0,2}+\s*+").fullmatch
_BASE64_IMAGE = re.compile(  # PNG, JPEG, GIF, WEBP; the shortest image has 35 bytes
    r"\s*+(?:iVBORw0KGgo|/9j/|R0lGOD[dl]h|UklGR)[A-Za-z0-9+/\s]{32,}+={0,2}+\s*+"
).fullmatch
_LONGEST_PATH = 4096
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE).match


def load(value: str, number: int, folders: Folders) -> Image:
    """One entry of `images`: a path, a data URL, or an image in plain base64."""
    if value[:5].lower() == "data:":
        return checked(*_from_data_url(value, f"image {number} (data URL)", folders), folders.caller.settings)
    if _URL(value):
        raise InvalidArgument(
            f"{value[:200]} is a URL. counsel does not fetch URLs, as they could point to a private server.",
            hint="Save the image to a file in your folder, or send a data URL.",
            file=value[:200],
        )
    if _is_base64(value) and not _exists(value, folders):
        return checked(
            *_from_base64(value, f"image {number} (base64)", folders.caller.settings), folders.caller.settings
        )
    limit = folders.caller.settings.max_image_bytes
    with folders.open(value, folders.locate(value)) as file:
        data = b"" if file.size > limit else file.read(limit + 1)
        if file.size > limit or len(data) > limit:
            raise _too_many_bytes(value, limit)
    return replace(checked(data, value, folders.caller.settings), path=file.path)


def _is_base64(value: str) -> bool:
    """Whether this looks like an image in base64. A path can, too: every JPEG begins with `/9j/`."""
    if not _BASE64_IMAGE(value):
        return len(value) > _LONGEST_PATH and bool(_BASE64(value))
    return True


def _exists(value: str, folders: Folders) -> bool:
    if len(value) > _LONGEST_PATH:
        return False
    try:
        return os.path.lexists(folders.locate(value))
    except (CounselError, ValueError):
        return False


def _from_base64(value: str, name: str, settings: Settings) -> tuple[bytes, str]:
    limit = settings.max_image_bytes
    text = "".join(value.split())  # the `base64` command wraps its lines
    if len(text) > (limit + 2) // 3 * 4:
        raise _too_many_bytes(name, limit)
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        kind(data, name)
    except (binascii.Error, ValueError, InvalidArgument):
        raise InvalidArgument(
            f"{name} is neither a file that exists nor a PNG, JPEG, GIF or WEBP image in base64.",
            hint="Send a path, data:image/png;base64,…, or the base64 of the whole image.",
            file=name,
        ) from None
    return data, name


def _from_data_url(value: str, name: str, folders: Folders) -> tuple[bytes, str]:
    match = _DATA_URL(value)
    if not match or not match[2].lower().endswith(";base64"):
        raise InvalidArgument(f"{name} is malformed.", hint="Write data:image/png;base64,…", file=name)
    limit = folders.caller.settings.max_image_bytes
    if len(match[3]) > (limit + 2) // 3 * 4:
        raise _too_many_bytes(name, limit)
    try:
        data = base64.b64decode(match[3], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument(
            f"{name} has malformed base64.", hint="Encode the image again.", file=name
        ) from None
    declared_type = _ALIASES.get((match[1] or "").lower(), (match[1] or "").lower())
    media_type, _ = kind(data, name)
    if declared_type and declared_type != media_type:
        raise InvalidArgument(
            f"{name} is declared as {declared_type} but contains {media_type}.",
            hint=f"Write data:{media_type};base64,…",
            file=name,
        )
    return data, name


def kind(data: bytes, name: str) -> tuple[str, str]:
    """The media type and Pillow's name for the format, from the first bytes alone."""
    for pattern, media_type, pillow in _MAGIC:
        if pattern.match(data):
            return media_type, pillow
    if _SVG.match(data):
        raise InvalidArgument(
            f"{name} is SVG or XML, which models cannot see.",
            hint="Convert it to PNG, or send it as text in `files`.",
            file=name,
        )
    raise InvalidArgument(
        f"{name} is not a PNG, JPEG, GIF, WEBP or BMP image.", hint="Convert it to PNG or JPEG.", file=name
    )


def checked(data: bytes, name: str, settings: Settings) -> Image:
    """The image in these bytes. Raises if they are not an image, or if it is too large."""
    if len(data) > settings.max_image_bytes:
        raise _too_many_bytes(name, settings.max_image_bytes)
    media_type, pillow = kind(data, name)
    limit = settings.max_image_pixels
    if image_cost.has_too_many_parts(data, pillow):
        raise _too_costly(name, f"made of more than {image_cost.MOST_PARTS:,} parts")
    with _pillow_errors(name), _open(data, pillow) as image:
        width, height = image.size
        if width * height > limit:
            raise _too_many_pixels(name, f"{width} by {height}", limit)
        if excess := image_cost.excess(data, pillow, width * height):
            raise _too_costly(name, excess)
        if media_type == "image/bmp":  # no vendor accepts it
            media_type, data = "image/png", _encoded(image.convert("RGB"), "image/png")
        elif media_type == "image/png":
            image.verify()
        else:  # no checksums: only decoding shows whether the end is missing
            image.draft("L", (1, 1))  # makes Pillow decode a JPEG at an eighth of its size
            image.load()
    return Image(media_type, data, name, width=width, height=height)


def _too_many_bytes(name: str, limit: int) -> CounselError:
    hint = "Send a smaller image, or raise COUNSEL_MAX_IMAGE_BYTES."
    return FileTooLarge(f"{name} is larger than {limit:,} bytes.", hint=hint, file=name, limit=limit)


def _too_many_pixels(name: str, size: str, limit: int) -> CounselError:
    hint = "Send a smaller image, or raise COUNSEL_MAX_IMAGE_PIXELS."
    return FileTooLarge(f"{name} has too many pixels ({size}; {limit:,} allowed).", hint=hint, file=name)


def _too_costly(name: str, reason: str) -> CounselError:
    hint = "Open it in an image editor, save it again and retry."
    return FileTooLarge(f"{name} is {reason}: opening it would take too long.", hint=hint, file=name)


@contextlib.contextmanager
def _pillow_errors(name: str) -> Iterator[None]:
    """Turn whatever Pillow raises into one error: on a hostile image that is nearly any exception."""
    from PIL import Image as Pillow  # see the module's first lines

    try:
        yield
    except CounselError:
        raise
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning):
        raise _too_many_pixels(name, "over Pillow's own limit", Pillow.MAX_IMAGE_PIXELS or 0) from None
    except Exception:  # noqa: BLE001 — see above
        raise InvalidArgument(
            f"{name} is a damaged image.",
            hint="Open it in an image editor, save it again and retry.",
            file=name,
        ) from None


def _open(data: bytes, pillow: str) -> Pillow.Image:
    from PIL import Image as Pillow  # see the module's first lines

    return Pillow.open(io.BytesIO(data), formats=[pillow])


def _encoded(image: Pillow.Image, media_type: str, quality: int = 90) -> bytes:
    out = io.BytesIO()
    if media_type == "image/jpeg":
        image.save(out, "JPEG", quality=quality, optimize=True)
    else:
        image.save(out, "PNG")
    return out.getvalue()


# ── limits of vendors ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Limits:
    edge: int = 2048  # pixels; the vendor scales larger images down, or refuses them
    bytes: int = 5 * 1024 * 1024 * 3 // 4  # Anthropic counts its 5 MiB in base64
    types: tuple[str, ...] = ("image/png", "image/jpeg", "image/gif", "image/webp")


_PNG_JPEG = ("image/png", "image/jpeg")
# Sources: the vendors' vision pages. Anthropic refuses edges above 8000 pixels, or above 2000 with more than 20 images
# in a request; Gemini scales to 3072 and does not list GIF; xAI lists JPEG and PNG only.
VENDOR_LIMITS: dict[str, Limits] = {
    "anthropic": Limits(edge=2000),
    "google": Limits(edge=3072, bytes=7 * 1024 * 1024, types=(*_PNG_JPEG, "image/webp")),
    "openai": Limits(edge=2048, bytes=10 * 1024 * 1024),
    "xai": Limits(edge=2048, bytes=10 * 1024 * 1024, types=_PNG_JPEG),
}


def limits(model: Model) -> Limits:
    """The model's limits: `image_max_edge`, `image_max_bytes` and `image_types` of its row, else its vendor's."""
    base = VENDOR_LIMITS.get(model.provider, Limits())
    return Limits(
        edge=int(model.options.get("image_max_edge", base.edge)),
        bytes=int(model.options.get("image_max_bytes", base.bytes)),
        types=tuple(model.options.get("image_types", base.types)),
    )


def fit(image: Image, model: Model) -> Image:
    """The image in a form that the model accepts, with its bytes unchanged where possible. Blocks."""
    limit = limits(model)
    with _pillow_errors(image.name), _open(image.data, _pillow_name(image)) as picture:
        width, height = picture.size
        if (
            max(width, height) <= limit.edge
            and len(image.data) <= limit.bytes
            and image.media_type in limit.types
        ):
            return image if image.width else replace(image, width=width, height=height)
        for media_type, shrunk in _smaller(picture, image.media_type, limit):
            data = _encoded(shrunk, media_type)
            if len(data) <= limit.bytes:
                width, height = shrunk.size
                return replace(image, media_type=media_type, data=data, width=width, height=height)
    raise FileTooLarge(
        f"{image.name} cannot be made small enough for {model.id}.",
        hint="Send a smaller image.",
        file=image.name,
    )


def _pillow_name(image: Image) -> str:
    return next(pillow for _, media_type, pillow in _MAGIC if media_type == image.media_type)


def _smaller(image: Pillow.Image, media_type: str, limit: Limits) -> Iterator[tuple[str, Pillow.Image]]:
    """Candidates, best first: PNG stays PNG, then JPEG, then fewer and fewer pixels.

    Animations: only the first frame.
    """
    from PIL import ImageOps  # see the module's first lines

    image.thumbnail((limit.edge, limit.edge))  # before decoding, so that a JPEG is decoded at a reduced size
    shrunk = ImageOps.exif_transpose(image)
    lossless = media_type != "image/jpeg" or "image/jpeg" not in limit.types
    while True:
        if lossless and "image/png" in limit.types:
            yield "image/png", shrunk.convert("RGBA" if shrunk.has_transparency_data else "RGB")
        if "image/jpeg" in limit.types:
            yield "image/jpeg", _flattened(shrunk)
        edge = max(shrunk.size) * 3 // 4
        if edge < 64:
            return
        shrunk.thumbnail((edge, edge))


def _flattened(image: Pillow.Image) -> Pillow.Image:
    from PIL import Image as Pillow  # see the module's first lines

    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Pillow.alpha_composite(Pillow.new("RGBA", layer.size, "white"), layer).convert("RGB")
