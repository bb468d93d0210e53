// Creates elements from text only, so that no query and no text of the index is ever read as HTML.

export const at = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function report(element, text, wrong = false) {
  element.textContent = text;
  element.classList.toggle("wrong", wrong);
}

export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// A word of a command line, as a shell reads it.
export const quoted = (word) => (/^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);

export function later(wait, work) {
  let timer = 0;
  return (...inputs) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...inputs), wait);
  };
}
