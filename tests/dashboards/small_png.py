"""Screenshots as PNGs of 256 colours: a third of the size, and as good for pages with few colours."""

import base64
import struct
import zlib
from typing import Any

from playwright.async_api import Page

from tests.dashboards.theme import COLORS, PALETTE

# Runs in the browser, which can decode its screenshots: takes the colours that have a meaning, then the most common
# ones, and maps each pixel to the nearest.
_REDUCED = """async ([screenshot, meant]) => {
  const picture = new Image();
  picture.src = "data:image/png;base64," + screenshot;
  await picture.decode();
  const {width, height} = picture, canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(picture, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer), counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) || 0) + 1);
  const common = [...counts].sort((one, other) => other[1] - one[1]).map(each => each[0]);
  const palette = [...new Set([...meant, ...common])].slice(0, 256);
  const apart = (one, other) => [0, 8, 16].reduce((sum, at) => sum + ((one >> at & 255) - (other >> at & 255)) ** 2, 0);
  const nearest = new Map(), indices = new Uint8Array(pixels.length);
  for (const pixel of counts.keys()) {
    let best = 0;
    for (let place = 1; place < palette.length; place++)
      if (apart(palette[place], pixel) < apart(palette[best], pixel)) best = place;
    nearest.set(pixel, best);
  }
  pixels.forEach((pixel, place) => indices[place] = nearest.get(pixel));
  let text = "";
  for (let at = 0; at < indices.length; at += 32768) text += String.fromCharCode(...indices.subarray(at, at + 32768));
  return {width, height, palette, indices: btoa(text)};
}"""


async def small_screenshot(page: Page) -> bytes:
    taken = base64.b64encode(await page.screenshot()).decode()
    return _png(await page.evaluate(_REDUCED, [taken, _palette_colors()]))


def _palette_colors() -> list[int]:
    """Return a colour as a canvas pixel: red, green, blue, opaque."""
    colors = dict.fromkeys([*COLORS.values(), *PALETTE])
    return [int.from_bytes(bytes.fromhex(each[1:]) + b"\xff", "little") for each in colors]


def _png(reduced: dict[str, Any]) -> bytes:
    width, height = reduced["width"], reduced["height"]
    indices = base64.b64decode(reduced["indices"])
    lines = b"".join(b"\0" + indices[at : at + width] for at in range(0, width * height, width))
    colors = b"".join(struct.pack("<I", color)[:3] for color in reduced["palette"])
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", colors), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
