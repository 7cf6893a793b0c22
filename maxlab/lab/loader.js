// Stored with every view of a saved notebook, so it is small: it fetches the view's code once a page.
const version = "__VERSION__", page = globalThis, loads = (page.__maxlabLoads ??= {});
function code(model) {
  if (page.__maxlab?.version === version) return page.__maxlab;
  const load = (loads[version] ??= {});
  load.code ??= new Promise(done => (load.done = done));
  const hear = (message, buffers) => {
    if (message.type !== "bundle") return;
    load.done(import(URL.createObjectURL(new Blob(buffers, { type: "text/javascript" }))));
  };
  const ask = () => model.send({ type: "need_bundle" });
  model.on("msg:custom", hear);
  // Whoever comes later asks too when the first was not answered: its kernel may be gone.
  const again = load.asked ? setTimeout(ask, 3000) : ask();
  load.asked = true;
  return load.code.finally(() => (clearTimeout(again), model.off("msg:custom", hear)));
}
export default { render: async context => (await code(context.model)).render(context) };
