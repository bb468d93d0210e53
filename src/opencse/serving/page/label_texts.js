// The texts of a query with their marks; each can be marked by buttons or keys.

import { ask } from "./api.js";
import { make, report } from "./dom.js";

const MARKS = [["Right", "mark-right", 2], ["Partly", "mark-partly", 1], ["Not right", "mark-not", 0]];
const NEXT = new Map([[null, 2], [2, 1], [1, 0], [0, null]]);
const KEYS = 9;

export class Texts {
  constructor(element, mark) {
    this.element = element;
    this.mark = mark;
    this.list = [];
    this.index = 0;
  }

  // The first of the nine texts that the keys 1 to 9 mark.
  get first() {
    return KEYS * Math.floor(this.index / KEYS);
  }

  show(list) {
    this.list = list.map((text) => ({ ...text, gone: text.text === "" }));
    this.index = 0;
    this.element.replaceChildren(...this.list.map((text, index) => this.item(text, index)));
    this.list.forEach((text, index) => { // what is not shown completely has a button that shows it
      const body = this.element.children[index].querySelector(".text");
      const more = this.element.children[index].querySelector(".more");
      if (more !== null) more.hidden = !text.is_part && body.scrollHeight <= body.clientHeight + 1;
    });
    this.paint();
  }

  showAll(index) {
    const more = this.element.children[index]?.querySelector(".more");
    if (more !== null && more !== undefined && !more.hidden) more.click();
  }

  focus(index) {
    if (this.list.length === 0) return;
    this.index = Math.max(0, Math.min(this.list.length - 1, index));
    this.paint();
    this.element.children[this.index].focus();
  }

  following(index) {
    return NEXT.get(this.list[index]?.level ?? null);
  }

  setLevel(index, level) {
    const text = this.list[index];
    text.level = level;
    if (!text.gone) text.note = "";
    this.paint();
  }

  paint() {
    this.list.forEach((text, index) => {
      const item = this.element.children[index];
      const key = index - this.first;
      item.querySelector(".key").replaceChildren(...(key >= 0 && key < KEYS ? [make("kbd", { "aria-hidden": "true" }, String(key + 1))] : []));
      for (const [, name, level] of MARKS) item.querySelector(`.${name}`)?.setAttribute("aria-pressed", String(text.level === level));
      report(item.querySelector(".note"), text.note);
    });
  }

  item(text, index) {
    const facts = Object.entries(text.metadata).map(([name, value]) => make("span", {}, `${name}: ${value}`));
    const body = make("div", { className: "text", dir: "auto" }, text.text);
    const buttons = MARKS.map(([label, name, level]) => {
      const button = make("button", { type: "button", className: name }, label);
      button.addEventListener("click", () => {
        this.focus(index);
        this.mark(index, this.list[index].level === level ? null : level);
      });
      return button;
    });
    buttons.push(this.more(text, body));
    const item = make(
      "li",
      { tabIndex: -1, "aria-label": `Text ${index + 1} of ${this.list.length}` },
      make("div", { className: "key" }),
      make(
        "div",
        {},
        text.title === "" ? null : make("div", { className: "title", dir: "auto" }, text.title),
        body,
        make("div", { className: "about" }, make("span", { className: "id" }, text.id), ...facts, make("span", { className: "note" })),
        text.gone ? null : make("div", { className: "marks", role: "group", "aria-label": `Text ${index + 1} is` }, ...buttons),
      ),
    );
    item.addEventListener("focusin", () => {
      if (this.index === index) return;
      this.index = index;
      this.paint();
    });
    return item;
  }

  more(text, body) {
    const button = make("button", { type: "button", className: "more" }, "Show all");
    button.addEventListener("click", async () => {
      try {
        if (text.is_part) body.textContent = (await ask(`labels/text?id=${encodeURIComponent(text.id)}&digest=${text.digest}`)).text;
        body.classList.add("all");
        body.tabIndex = 0;
        body.focus();
        button.remove();
      } catch (error) {
        button.textContent = error.message;
      }
    });
    return button;
  }
}
