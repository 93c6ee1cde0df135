/* A front end in few lines: it shows what a kernel sends as another front end would, with what that one can and lacks.
 *
 * can.widgets: it has a widget manager (one of its own: models from comms, modules from `_esm`, custom messages).
 * can.updates: it changes what was displayed under a display_id. can.html: "whole", or "clean" (no style sheet, no class).
 * can.frame: how the page holds a cell's outputs: "vscode" (one page for all cells) or "colab" (a page a cell). */
window.host = (() => {
  const models = new Map();

  class Model {
    constructor(id, state) {
      Object.assign(this, { id, state, heard: new Map(), widget_manager: {} });
    }
    get(name) { return this.state[name]; }
    set(name, value) { this.state[name] = value; }
    save_changes() {}
    send(content) { (window.sent ??= []).push(content); }
    on(names, does) { for (const n of names.split(" ")) this.heard.set(n, [...(this.heard.get(n) ?? []), does]); }
    off(name, does) { this.heard.set(name, (this.heard.get(name) ?? []).filter((one) => one !== does)); }
    tell(name, ...words) { for (const does of this.heard.get(name) ?? []) does(...words); }
    async start() {
      const url = URL.createObjectURL(new Blob([this.state._esm], { type: "text/javascript" }));
      const made = (await import(url)).default;
      this.widget = typeof made === "function" ? await made() : made;
      await this.widget.initialize?.({ model: this });
      return this.widget;
    }
  }

  function comm(type, content) {
    if (type === "comm_open" && content.data.state?._esm !== undefined) {
      const model = new Model(content.comm_id, content.data.state);
      model.ready = model.start();
      models.set(content.comm_id, model);
    } else if (type === "comm_msg") {
      const model = models.get(content.comm_id);
      if (model === undefined) return;
      if (content.data.method === "custom") model.tell("msg:custom", content.data.content, []);
      if (content.data.method === "update") {
        Object.assign(model.state, content.data.state);
        for (const name of Object.keys(content.data.state)) model.tell(`change:${name}`);
      }
    }
  }

  const made = (tag, name, parent) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    parent.append(element);
    return element;
  };

  function cell(frame) {
    if (frame === "colab") {
      const area = made("div", "", document.body);
      area.id = "output-area";
      const body = made("div", "", area);
      body.id = "output-body";
      return body;
    }
    return made("div", "cell_container", document.body);
  }

  const place = (frame, holder) =>
    frame === "colab"
      ? made("div", "output_subarea", made("div", "display_data", holder))
      : made("div", "output", made("div", "output_container", holder));

  async function fill(element, data, can, clean) {
    const view = data["application/vnd.jupyter.widget-view+json"];
    element.replaceChildren();
    if (view !== undefined && can.widgets) {
      const model = models.get(view.model_id);
      const widget = await model.ready;
      await widget.render({ model, el: made("div", "", element) });
    } else if (view !== undefined && data["text/plain"] === undefined) element.textContent = "Widgets are not supported.";
    else if (data["text/html"] !== undefined && view === undefined)
      element.innerHTML = can.html === "whole" ? data["text/html"] : clean[data["text/html"]];
    else made("pre", "plain", element).textContent = data["text/plain"] ?? "";
  }

  /** Show one cell's messages; `clean` maps HTML to what a strict front end leaves of it. */
  async function play(messages, can, clean) {
    const holder = cell(can.frame);
    const named = new Map();
    let stream;
    for (const { type, content } of messages) {
      if (type.startsWith("comm_") && can.widgets) comm(type, content);
      else if (type === "stream") {
        stream ??= made("pre", "stream", place(can.frame, holder));
        stream.textContent += content.text;
      } else if (type === "display_data") {
        stream = undefined;
        const element = place(can.frame, holder);
        if (content.transient?.display_id) named.set(content.transient.display_id, element);
        await fill(element, content.data, can, clean);
      } else if (type === "update_display_data" && can.updates)
        await fill(named.get(content.transient.display_id), content.data, can, clean);
      if (can.pause) await new Promise(requestAnimationFrame);
    }
  }
  return { play };
})();
