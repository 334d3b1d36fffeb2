// Elements from values. Text only ever becomes text: there is no way from a string to markup in here.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: `props` are attributes, `on` handlers by event name, `data` dataset entries; children are nodes or text. */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

function fill(node, { on = {}, data = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [name, value] of Object.entries(data)) node.dataset[name] = value;
  for (const [name, handler] of Object.entries(on)) node.addEventListener(name, handler);
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Find the one element with this id. */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element #${id}`);
  return found;
}

/** Replace an element's content, keeping the reader's place: focus by data-id, and scrolling. */
export function replaceContent(node, ...children) {
  const focused = node.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
  const scrolled = node.scrollTop;
  node.replaceChildren();
  append(node, children);
  node.scrollTop = scrolled;
  if (focused !== undefined) {
    const again = [...node.querySelectorAll("[data-id]")].find((each) => each.dataset.id === focused);
    again?.focus({ preventScroll: true });
  }
}

/** Set text only where it differs, so that screen readers announce changes and nothing else. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** An icon from the page's own set of paths, hidden from screen readers. */
export function icon(name) {
  const path = fill(document.createElementNS(SVG, "path"), { d: ICONS[name] }, []);
  return fill(document.createElementNS(SVG, "svg"), { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, [path]);
}

const ICONS = {
  waiting: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M8 4.8V8l2.2 1.6",
  sick: "M8 2.2L14.3 13.4H1.7zM8 6.4v3.4m0 1.6v.2",
  cordoned: "M2.6 8h10.8M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2",
  overuse: "M2.5 13.2h11M8 11V3m-3.2 3L8 2.8 11.2 6",
  corrected: "M2.5 6.2h8.2L8.2 3.4m5.3 6.4H5.3l2.5 2.8",
  unreadable: "M5.6 6a2.4 2.4 0 1 1 3.6 2c-.8.5-1.2 1-1.2 1.9m0 2v.2",
  uncounted: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M5.6 10.4l4.8-4.8",
  unready: "M4 4l8 8M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2",
  fits: "M3 8.6l3.3 3.2L13 4.6",
};
