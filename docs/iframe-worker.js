// Search runs in a worker, which browsers refuse to pages that are opened from the disk. There it runs in a
// hidden frame instead. The name tells Material's offline plugin not to load another such script from a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.loaded = new Promise((resolve) => {
        const script = inside.document.createElement("script");
        script.src = new URL(url, location.href);
        script.onload = () => resolve(inside);
        inside.document.body.append(script);
      });
    }
    postMessage(data) {
      this.loaded.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
