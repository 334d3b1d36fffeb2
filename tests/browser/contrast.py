"""How well the texts of the page are distinguished from what they stand on, as WCAG 2 counts it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.browser.tab import Tab

_COUNTING = """
  const dot = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  // The browser reads every way of writing a colour, color-mix() too; what comes back is as exact as the screen is.
  const read = (colour) => {
    dot.clearRect(0, 0, 1, 1);
    dot.fillStyle = colour;
    dot.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = dot.getImageData(0, 0, 1, 1).data;
    return { rgb: [r, g, b], alpha: a / 255 };
  };
  const over = (upper, lower, alpha) => upper.map((value, at) => value * alpha + lower[at] * (1 - alpha));
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const brightness = (rgb) => {
    const [r, g, b] = rgb.map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [brightness(one), brightness(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
"""

_ELEMENTS = f"""(() => {{ {_COUNTING}
  const groundOf = (element) => {{
    const chain = [];
    for (let each = element; each; each = each.parentElement) chain.unshift(getComputedStyle(each));
    let ground = [255, 255, 255], shown = 1;
    for (const style of chain) {{
      shown *= Number(style.opacity);
      const own = read(style.backgroundColor);
      ground = over(own.rgb, ground, own.alpha * shown);
    }}
    return {{ ground, shown }};
  }};
  const measure = (element, pseudo, words) => {{
    const {{ ground, shown }} = groundOf(element);
    const style = getComputedStyle(element, pseudo);
    const ink = read(style.color);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const painted = over(ink.rgb, ground, ink.alpha * shown);
    const where = element.className || element.id || element.tagName;
    return {{ words: words.trim().slice(0, 40), ratio: ratio(painted, ground), needed: isLarge ? 3 : 4.5, where }};
  }};
  const isSeen = (element) => {{
    const box = element.getBoundingClientRect();
    const isShown = element.checkVisibility({{ visibilityProperty: true }}) && box.width > 2 && box.height > 2;
    return isShown && !element.closest(".unseen, .skip, [inert]");
  }};
  const found = [];
  for (const element of [...document.querySelectorAll("body *")].filter(isSeen)) {{
    const own = [...element.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE);
    const words = own.map((each) => each.data).join(" ").trim();
    if (words) found.push(measure(element, null, words));
    if (element.placeholder && !element.value) found.push(measure(element, "::placeholder", element.placeholder));
  }}
  return found;
}})()"""

_LISTEN = f"""(() => {{ {_COUNTING}
  window.written = [];
  window.words = [];
  const canvas = document.querySelector("#canvas");
  const painting = canvas.getContext("2d");
  const copy = new OffscreenCanvas(1, 1).getContext("2d", {{ willReadFrequently: true }});
  const page = read(getComputedStyle(document.documentElement).backgroundColor).rgb;
  const write = painting.fillText.bind(painting);
  // The colours below a text, before it is written: what it must be distinguished from.
  const groundsBelow = (words, x, y) => {{
    const box = painting.measureText(words);
    const scale = painting.getTransform().a;
    const left = (x - (painting.textAlign === "right" ? box.width : 0)) * scale;
    const width = Math.max(1, Math.round(box.width * scale)), height = Math.ceil(box.actualBoundingBoxAscent * scale);
    copy.canvas.width = width;
    copy.canvas.height = height;
    copy.drawImage(canvas, left, y * scale - height, width, height, 0, 0, width, height);
    const pixels = copy.getImageData(0, 0, width, height).data;
    const grounds = new Map();
    for (let at = 0; at < pixels.length; at += 4) {{
      const ground = over([...pixels.slice(at, at + 3)], page, pixels[at + 3] / 255);
      grounds.set(ground.join(), ground);
    }}
    return grounds.values();
  }};
  painting.fillText = (words, x, y) => {{
    const ink = read(painting.fillStyle);
    window.words.push(words);
    for (const ground of groundsBelow(words, x, y)) {{
      const painted = over(ink.rgb, ground, ink.alpha * painting.globalAlpha);
      window.written.push({{ words, ratio: ratio(painted, ground), needed: 4.5, where: "map" }});
    }}
    write(words, x, y);
  }};
}})()"""


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the page. ``ratio`` of its brightness to that of its ground, and which WCAG AA asks for at its size."""

    words: str
    ratio: float
    needed: float
    where: str

    @property
    def is_faint(self) -> bool:
        return self.ratio < self.needed


async def texts_of(tab: Tab) -> list[Text]:
    """Every visible text of the page's elements, with its placeholders."""
    return [Text(**each) for each in await tab.evaluate(_ELEMENTS)]


async def texts_of_the_map(tab: Tab) -> list[Text]:
    """Every text that the map writes when it is drawn again, once for each colour found beneath it."""
    await tab.evaluate(_LISTEN)
    await tab.evaluate("window.dispatchEvent(new Event('resize'))")
    await tab.until("window.written.length > 0")
    await tab.settle()
    return [Text(**each) for each in await tab.evaluate("window.written")]


async def words_of_the_map(tab: Tab) -> list[str]:
    """Every text that the map writes when it is drawn again, as often as it writes it."""
    await texts_of_the_map(tab)
    return list(await tab.evaluate("window.words"))
