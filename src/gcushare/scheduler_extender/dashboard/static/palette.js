// Colours: each namespace one of twelve, the same on every visit as long as no other took it first.

const HUES = 12;
// The first ones are distinguished most easily; the others serve clusters with many namespaces.
const FIRST_HUES = 9;
const taken = new Map();

/** The number of a namespace's colour: chosen by its name, the next free one where two names meet. */
export function hueOf(namespace) {
  let hue = taken.get(namespace);
  if (hue === undefined) {
    hue = hash(namespace) % FIRST_HUES;
    const used = new Set(taken.values());
    for (let step = 0; step < HUES && used.has(hue); step += 1) hue = (hue + 1) % HUES;
    taken.set(namespace, hue);
  }
  return hue;
}

/** Give colours to namespaces in the order of their use, so that the largest never share one. */
export function assignHues(byNamespace) {
  // In days a page sees more namespaces than there are colours: those that hold nothing any more give theirs back.
  const seen = new Set([...taken.keys(), ...byNamespace.keys()]);
  if (seen.size > HUES) for (const namespace of seen) if (!byNamespace.has(namespace)) taken.delete(namespace);
  const order = [...byNamespace].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  for (const [namespace] of order) hueOf(namespace);
}

function hash(text) {
  // FNV-1a, 32 bits.
  let value = 0x811c9dc5;
  for (const char of text) value = Math.imul(value ^ char.codePointAt(0), 0x01000193);
  return value >>> 0;
}

/** The colours that the style sheet names, for the canvas; read again when the theme changes. */
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    hues: Array.from({ length: HUES }, (_, number) => get(`--ns-${number}`)),
    tile: get("--tile"), well: get("--well"), ink: get("--ink"), dim: get("--dim"), onColour: get("--on-colour"),
    faded: get("--faded"), sick: get("--sick"), cordoned: get("--cordoned"),
    freeSteps: Array.from({ length: 5 }, (_, step) => get(`--free-${step}`)), fits: get("--fits"), over: get("--over"), mark: get("--mark"),
  };
}
