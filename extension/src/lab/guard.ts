/**
 * Keeps the notebook's command mode away from what is focused inside a view of maxlab.
 *
 * JupyterLab binds letters, arrows and pairs such as `0 0` to whatever has the focus in a notebook, unless
 * the notebook's element says that text is being typed there (`jp-mod-readWrite`). For a key that is
 * pressed in a view the notebook is made to say so, just before its shortcuts are looked up. Shortcuts of
 * the page itself, and everything with Ctrl or Meta, stay as they are. The notebook sets the class anew
 * with each change of the focus, so that nothing has to be undone.
 */

const VIEWS = '.jp-MaxLab-view, .jp-MaxLab-dash, .mx-cs';
const TYPING_CLASS = 'jp-mod-readWrite';

function guard(event: KeyboardEvent): void {
  const { target } = event;
  const view = target instanceof Element ? target.closest(VIEWS) : null;
  const notebook = view?.closest('.jp-Notebook') ?? null;
  if (!(target instanceof Element) || view === null || notebook === null) {
    return;
  }
  const isPlain = !event.ctrlKey && !event.metaKey;
  notebook.classList.toggle(TYPING_CLASS, isPlain || target.matches(':read-write'));
  if (isPlain && event.shiftKey && event.key === 'Enter' && !view.matches('.jp-MaxLab-view')) {
    // It would run the cell and take the focus to the next. Graph views have a use for it.
    event.stopPropagation();
  }
}

/** Starts to guard the views of `page`. */
export function guardKeys(page: Document): void {
  page.addEventListener('keydown', guard, { capture: true });
}
