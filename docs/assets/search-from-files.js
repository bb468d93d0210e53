// A page opened from a file may not start a worker: its search then runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, next) => before.then(() => load(inside.document, next, address)), Promise.resolve());
      this.ready = load(inside.document, address, location.href);
      this.inside = inside;
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };

  function load(page, address, base) {
    return new Promise((done, failed) => {
      const script = page.createElement("script");
      script.src = new URL(address, base);
      script.onload = done;
      script.onerror = failed;
      page.body.append(script);
    });
  }
}
