/** Keeps the theme of a view current: its own setting, JupyterLab's theme, or the system's. */

import { readTheme, type ITheme, type ThemeName } from '../render/theme';
import { Disposables } from './dom';

/** What the system may be asked for, by which a theme is chosen. */
const WISHES = ['(prefers-color-scheme: dark)', '(prefers-contrast: more)', '(forced-colors: active)'];

export class Theming {
  theme: ITheme;
  private readonly _disposables = new Disposables();

  constructor(
    private readonly _element: HTMLElement,
    private _name: ThemeName,
    private readonly _changed: (theme: ITheme) => void
  ) {
    this.theme = readTheme(_element, _name);
    const apply = (): void => this.apply();
    if (typeof MutationObserver !== 'undefined') {
      const observer = new MutationObserver(apply);
      for (const target of [document.body, document.documentElement]) {
        observer.observe(target, {
          attributes: true,
          attributeFilter: ['data-jp-theme-light', 'data-jp-theme-name', 'data-theme', 'class', 'style']
        });
      }
      this._disposables.add(() => observer.disconnect());
    }
    if (typeof matchMedia === 'function') {
      for (const query of WISHES) {
        this._disposables.hear(matchMedia(query), 'change', apply);
      }
    }
  }

  setName(name: ThemeName): void {
    this._name = name;
    this.apply();
  }

  /** Reads the theme again and hands it to the style sheet and to the view. */
  apply(): void {
    const t = readTheme(this._element, this._name);
    this.theme = t;
    this._element.classList.toggle('jp-mod-dark', t.isDark);
    this._element.classList.toggle('jp-mod-strong', t.isStrong);
    const variables: Record<string, string> = {
      bg: t.background,
      surface: t.surface,
      text: t.text,
      muted: t.muted,
      line: t.line,
      accent: t.accent,
      'accent-soft': t.accentSoft,
      chosen: t.chosen,
      'chosen-text': t.chosenText,
      change: t.change,
      differs: t.differs,
      error: t.error,
      'error-fill': t.errorFill,
      hot: t.ramp[Math.floor(t.ramp.length * 0.7)] ?? t.accent,
      'font-ui': t.fontUi,
      'font-mono': t.fontMono
    };
    for (const [name, value] of Object.entries(variables)) {
      this._element.style.setProperty(`--mx-${name}`, value);
    }
    this._changed(t);
  }

  dispose(): void {
    this._disposables.dispose();
  }
}

/** Calls `set` now and whenever the wish for less motion changes; returns how to stop. */
export function watchMotion(set: (isReduced: boolean) => void): () => void {
  const disposables = new Disposables();
  if (typeof matchMedia === 'function') {
    const motion = matchMedia('(prefers-reduced-motion: reduce)');
    set(motion.matches);
    disposables.hear(motion, 'change', () => set(motion.matches));
  }
  return () => disposables.dispose();
}
