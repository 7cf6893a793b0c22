/** What the browser remembers for all views of this page's origin: small choices of how they look. */

import { fits, type Shape } from '../../proto/shape';

/** What was kept under `name`; null where nothing was, it is something else, or nothing can be kept. */
export function readKept<T>(name: string, shape: Shape<T>): T | null {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(`maxlab:${name}`) ?? 'null');
    return fits(shape, found) ? found : null;
  } catch {
    return null;
  }
}

export function keep(name: string, value: unknown): void {
  try {
    localStorage.setItem(`maxlab:${name}`, JSON.stringify(value));
  } catch {
    // A page in a frame without storage: the choice lasts as long as the view.
  }
}
