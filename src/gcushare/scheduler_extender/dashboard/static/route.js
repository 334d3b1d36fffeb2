// What the page shows is in its address, behind the #: a link leads back to the same node, filter and size.

const FIELDS = ["node", "pod", "list", "q", "ns", "model", "label", "sort", "view", "size"];

/** The address as a plain object; what is not said is "". */
export function readRoute() {
  const said = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(FIELDS.map((name) => [name, said.get(name) ?? ""]));
}

/** Change parts of the address. Opening something is a step that Back undoes; typing in a filter is not. */
export function goTo(changes, { step = false } = {}) {
  const next = { ...readRoute(), ...changes };
  const said = new URLSearchParams();
  for (const name of FIELDS) if (next[name]) said.set(name, next[name]);
  // Slashes and commas stay as they are: people read these addresses.
  const text = said.toString().replaceAll("%2F", "/").replaceAll("%3D", "=").replaceAll("%2C", ",");
  const address = text ? `#${text}` : location.pathname + location.search;
  if (address === (location.hash || location.pathname + location.search)) return;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  window.dispatchEvent(new Event("route"));
}

/** Call `listener` after every change of the address, ours or the reader's. */
export function onRoute(listener) {
  for (const name of ["route", "popstate", "hashchange"]) window.addEventListener(name, listener);
}
