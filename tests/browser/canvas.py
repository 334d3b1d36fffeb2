"""What is painted on the map: colours by name, and where they are, as a person would point at them."""

from __future__ import annotations

from tests.browser.tab import Tab

_PIXELS = """
  const canvas = document.querySelector("#canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
  const colourAt = (at) => "#" + [0, 1, 2].map((i) => pixels[at + i].toString(16).padStart(2, "0")).join("");
"""


async def variable(tab: Tab, name: str) -> str:
    """A colour of the style sheet, in the theme shown now."""
    return str(await tab.evaluate("getComputedStyle(document.documentElement).getPropertyValue($0).trim()", name))


async def colour_of(tab: Tab, namespace: str) -> str:
    """The colour of a namespace."""
    script = "document.querySelector(`[data-id='space-${$0}'] i`).style.background"
    number = str(await tab.evaluate(script, namespace)).removeprefix("var(--ns-").removesuffix(")")
    return await variable(tab, f"--ns-{number}")


async def painted(tab: Tab, least: int = 30) -> set[str]:
    """The colours that cover at least so many of the map's pixels."""
    script = f"""(() => {{ {_PIXELS}
      const counts = new Map();
      for (let at = 0; at < pixels.length; at += 4) {{
        if (pixels[at + 3] === 255) counts.set(colourAt(at), (counts.get(colourAt(at)) ?? 0) + 1);
      }}
      return [...counts].filter((each) => each[1] >= {least}).map((each) => each[0]);
    }})()"""
    return set(await tab.evaluate(script))


async def until_painted(tab: Tab, *colours: str, least: int = 30) -> None:
    """Wait until the map shows all of these colours."""
    while True:
        frames = await tab.evaluate("document.querySelector('#canvas').dataset.frames")
        if set(colours) <= await painted(tab, least):
            return
        await tab.until("document.querySelector('#canvas').dataset.frames !== $0", frames)


async def _box(tab: Tab, condition: str) -> list[float]:
    """Left, top, right and bottom, in the window, of the pixels that meet a condition."""
    script = f"""(() => {{ {_PIXELS}
      const box = {{left: Infinity, right: -1, top: Infinity, bottom: -1}};
      for (let at = 0; at < pixels.length; at += 4) {{
        if (!({condition})) continue;
        const x = (at / 4) % canvas.width, y = Math.floor(at / 4 / canvas.width);
        box.left = Math.min(box.left, x); box.right = Math.max(box.right, x);
        box.top = Math.min(box.top, y); box.bottom = Math.max(box.bottom, y);
      }}
      if (box.right < 0) return null;
      const frame = canvas.getBoundingClientRect(), scale = canvas.width / frame.width;
      return [box.left, box.top, box.right, box.bottom].map((at, side) => (side % 2 ? frame.y : frame.x) + at / scale);
    }})()"""
    place = await tab.evaluate(script)
    assert place is not None, f"there is no pixel with {condition}"
    return [float(each) for each in place]


async def box_of(tab: Tab, colour: str) -> list[float]:
    """Left, top, right and bottom in the window of what is painted in a colour."""
    return await _box(tab, f"pixels[at + 3] === 255 && colourAt(at) === '{colour}'")


async def find(tab: Tab, colour: str) -> tuple[float, float]:
    """The middle of what is painted in a colour, in the window."""
    left, top, right, bottom = await box_of(tab, colour)
    return (left + right) / 2, (top + bottom) / 2


async def covered(tab: Tab) -> tuple[float, float]:
    """Which share of the map's width and height the tiles reach over."""
    left, top, right, bottom = await _box(tab, "pixels[at + 3] > 0")
    size = "(({width, height}) => [width, height])(document.querySelector('#map').getBoundingClientRect())"
    width, height = await tab.evaluate(size)
    return (right - left) / width, (bottom - top) / height
