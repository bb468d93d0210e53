// Sends requests to the server with the API key, if one is needed; tries again while the server is busy.

const STORED = "opencse-key";
let askForKey = async () => {};

export class Failure extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

export function whenKeyIsNeeded(ask) {
  askForKey = ask;
}

export function keepKey(key) {
  sessionStorage.setItem(STORED, key);
}

export async function ask(path, body = null, signal = null) {
  for (let turn = 0; ; turn += 1) {
    const answer = await send(path, body, signal);
    const content = await answer.json().catch(() => null);
    if (answer.ok) return content;
    const error = content?.error ?? {};
    if (answer.status === 401) {
      await askForKey(sessionStorage.getItem(STORED) === null ? "" : "This key is not valid.");
    } else if (answer.status === 503 && turn < 3) {
      const seconds = Math.min(10, Number(answer.headers.get("Retry-After")) || 1);
      await new Promise((go) => setTimeout(go, 1000 * seconds));
      signal?.throwIfAborted();
    } else {
      throw new Failure(error.message ?? `The server answered ${answer.status}.`, error.code);
    }
  }
}

async function send(path, body, signal) {
  const headers = {};
  const key = sessionStorage.getItem(STORED);
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (body !== null) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method: body === null ? "GET" : "POST", headers, signal, body: body === null ? null : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server does not answer; it may have been stopped.", "no_answer");
  }
}
