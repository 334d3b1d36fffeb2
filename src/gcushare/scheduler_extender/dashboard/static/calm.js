// Drawing waits while a button is held down: what was pressed must still be there when it is released, or the click is
// lost, and in a busy cluster something changes several times a second.

const LONGEST_MS = 2000;
const postponed = new Set();
let held = 0;

/** Draw now, or once nothing is pressed; the same function waits once. */
export function whenCalm(draw) {
  if (held === 0) draw();
  else postponed.add(draw);
}

function release() {
  if (held === 0) return;
  clearTimeout(held);
  held = 0;
  // After the click, which follows the release in the same turn.
  requestAnimationFrame(() => {
    for (const draw of [...postponed]) {
      postponed.delete(draw);
      whenCalm(draw);
    }
  });
}

window.addEventListener("pointerdown", (event) => {
  if (!(event.target instanceof Element) || event.target.closest("button") === null) return;
  clearTimeout(held);
  // A release outside the window may never be reported.
  held = setTimeout(release, LONGEST_MS);
}, true);
for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, release, true);
// The window's own; not that of an element which loses the focus to the button.
window.addEventListener("blur", release);
