// Colours: each namespace one of twelve, the same on every visit as long as no other took it first; each pod one of
// them where all pods are of one namespace. Their values are in app.css.

const HUES = 12;
// The first ones are distinguished most easily; the others serve clusters with many namespaces.
const FIRST_HUES = 9;
const taken = new Map();
let isByPod = false;

/** Whether colours tell pods apart rather than namespaces. */
export function areByPod() {
  return isByPod;
}

/** The colour of a pod as a style names it. */
export function colourOf(pod) {
  return `var(--ns-${hueOf(pod)})`;
}

/** The colour of all pods of a namespace. */
export function colourOfSpace(namespace) {
  return isByPod ? "var(--granted)" : `var(--ns-${spaceHue(namespace)})`;
}

/** The number of a pod's colour. */
export function hueOf(pod) {
  if (!isByPod) return spaceHue(pod.ns);
  pod.hue ??= hash(pod.uid) % HUES;
  return pod.hue;
}

/** Choose the colours of a node's pods so that those on one card differ, as long as there are colours. */
export function spreadHues(cards) {
  for (const { held } of cards) {
    const used = new Set(held.map(({ pod }) => pod.hue));
    for (const { pod } of held) {
      if (pod.hue !== undefined) continue;
      pod.hue = firstFree(hash(pod.uid) % HUES, used);
      used.add(pod.hue);
    }
  }
}

function firstFree(hue, used) {
  for (let step = 0; step < HUES; step += 1) if (!used.has((hue + step) % HUES)) return (hue + step) % HUES;
  return hue;
}

/** The number of a namespace's colour: chosen by its name, the next free one where two names meet. */
function spaceHue(namespace) {
  let hue = taken.get(namespace);
  if (hue === undefined) {
    hue = firstFree(hash(namespace) % FIRST_HUES, new Set(taken.values()));
    taken.set(namespace, hue);
  }
  return hue;
}

/** Give colours to namespaces in the order of their use, so that the largest never share one. Returns whether what colours tell has changed. */
export function assignHues(byNamespace) {
  const wasByPod = isByPod;
  isByPod = byNamespace.size <= 1;
  // In days a page sees more namespaces than there are colours: those that hold nothing any more give theirs back.
  const seen = new Set([...taken.keys(), ...byNamespace.keys()]);
  if (seen.size > HUES) for (const namespace of seen) if (!byNamespace.has(namespace)) taken.delete(namespace);
  const order = [...byNamespace].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  for (const [namespace] of order) spaceHue(namespace);
  return isByPod !== wasByPod;
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
    free: get("--free"), sliver: get("--sliver"), fits: get("--fits"), over: get("--over"), mark: get("--mark"),
  };
}
