// The wire: one snapshot, then changes as they come, over one connection, which is opened again if it breaks.
// Not EventSource: that cannot send a token, and a token in an address or a cookie would end up in logs or at others.

const TOKEN = "gcushare-token";
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const SILENT_MS = 45_000;

/** The extender refuses or cannot answer; `status` 0 means that it was not reached, or that its answer broke off. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Where the token of this tab is kept: gone with the tab, and never sent to another host. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (text) => sessionStorage.setItem(TOKEN, text),
  drop: () => sessionStorage.removeItem(TOKEN),
};

/** Do `work(signal, heard)`, where `heard()` is called for each sign of life; a silence ends it. Throws a Refusal and nothing else. */
async function unlessSilent(work) {
  const control = new AbortController();
  let silence = 0;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => control.abort(), SILENT_MS);
  };
  heard();
  try {
    return await work(control.signal, heard);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal(0, String(error.message ?? error));
  } finally {
    clearTimeout(silence);
    control.abort();
  }
}

async function ask(path, signal, headers = {}) {
  const held = token.get();
  const sent = held ? { ...headers, Authorization: `Bearer ${held}` } : headers;
  const answer = await fetch(`api/${path}`, { signal, headers: sent, cache: "no-store" });
  if (!answer.ok) throw new Refusal(answer.status, await reasonOf(answer));
  return answer;
}

/** Ask for a document, all of it: an extender that ends while it sends one is as good as not reached. */
function askDocument(path) {
  return unlessSilent(async (signal, heard) => {
    const answer = await ask(path, signal);
    let text = "";
    for await (const piece of pieces(answer.body, heard)) text += piece;
    return JSON.parse(text);
  });
}

async function reasonOf(answer) {
  try {
    return String((await answer.json()).error ?? answer.statusText);
  } catch {
    return answer.statusText;
  }
}

/** Ask why a pod waits, or where it is. */
export function explain(vendor, ns, name) {
  return askDocument(["explain", vendor, ns, name].map(encodeURIComponent).join("/"));
}

/**
 * Follow the cluster without end. `on` has: state(word), snapshot(document), changes(document), replica(document),
 * refused(refusal): a token is needed or not enough; following goes on after `resume()`.
 */
export function follow(on) {
  let wait = FIRST_WAIT_MS;
  let resume = () => {};
  const refused = (refusal) => {
    on.refused(refusal);
    return new Promise((resolve) => { resume = resolve; });
  };
  const run = async () => {
    for (;;) {
      try {
        on.state("connecting");
        const snapshot = await askDocument("cluster");
        on.snapshot(snapshot);
        await read(snapshot.mark, on, () => { wait = FIRST_WAIT_MS; });
        // A stream that ended in order: the extender restarts, or has another snapshot for us.
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (error.status === 401 || error.status === 403) {
          await refused(error);
          continue;
        }
        on.state(error.status === 503 && /not read yet/.test(error.message) ? "syncing" : "reconnecting", error);
        await pause(wait * (0.7 + 0.6 * Math.random()));
        wait = Math.min(LONGEST_WAIT_MS, wait * 2);
      }
    }
  };
  const running = run();
  return { resume: () => resume(), running };
}

function pause(ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms); });
}

/** Read one stream, and after a cut the next from where it ended, until a whole new snapshot is needed. */
async function read(mark, on, worked) {
  let at = mark;
  for (let failures = 0; ;) {
    let failure = null;
    try {
      const ended = await readOnce(at, on, (id) => { at = id; failures = 0; worked(); });
      if (ended === "reset") return;
    } catch (error) {
      if (!(error instanceof Refusal) || error.status === 401 || error.status === 403) throw error;
      failure = error;
    }
    failures += 1;
    if (failures >= 3) throw failure ?? new Refusal(0, "the stream of changes ends again and again");
    on.state("reconnecting", failure);
    await pause(FIRST_WAIT_MS * failures);
  }
}

function readOnce(mark, on, marked) {
  return unlessSilent(async (signal, heard) => {
    const answer = await ask("changes", signal, { "Last-Event-ID": mark });
    on.state("live");
    for await (const event of events(answer.body, heard)) {
      if (event.name === "reset") return "reset";
      if (event.name === "refused") throw new Refusal(403, JSON.parse(event.data).error);
      if (event.name === "changes" || event.name === "replica") on[event.name](JSON.parse(event.data));
      if (event.id) marked(event.id);
    }
    return "ended";
  });
}

/** Server-sent events from a body: `{name, data, id}`, as the HTML standard cuts them. */
async function* events(body, heard) {
  let rest = "";
  for await (const piece of pieces(body, heard)) {
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) yield parseEvent(block);
  }
}

/** A body's text as it comes. */
async function* pieces(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseEvent(block) {
  const event = { name: "message", data: "", id: "" };
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    const field = line.slice(0, at);
    const value = line.slice(at + 2);
    if (field === "event") event.name = value;
    else if (field === "data") event.data = value;
    else if (field === "id") event.id = value;
  }
  return event;
}
