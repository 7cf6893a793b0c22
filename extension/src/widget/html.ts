/** Elements of the views whose HTML the kernel draws. */

/** Parts that scroll, whose places stay when what is in them is drawn anew. */
const SCROLLED = '.mx-rq-scroll, .mx-rq-tokens';

/** A new last child of `parent`. */
export function child<K extends keyof HTMLElementTagNameMap>(
  parent: Element,
  tag: K,
  className: string,
  text = ''
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  parent.append(made);
  return made;
}

/** Scrolls a part to its right end, where the latest steps are, as soon as it has its size. */
function scrollToEnd(part: HTMLElement): void {
  const observer = new ResizeObserver(() => {
    if (part.clientWidth > 0) {
      part.scrollLeft = part.scrollWidth;
      observer.disconnect();
    }
  });
  observer.observe(part);
}

/**
 * Shows HTML of the kernel in `place`. No script of it runs, and its texts were escaped. Parts that are
 * scrolled stay so, and one that has the focus keeps it.
 */
export function showHtml(place: Element, html: string): void {
  const parts = (): HTMLElement[] => [...place.querySelectorAll<HTMLElement>(SCROLLED)];
  const before = parts().map(part => ({
    left: part.scrollLeft,
    canScroll: part.scrollWidth > part.clientWidth,
    isAtEnd: part.scrollLeft > 0 && part.scrollLeft + part.clientWidth >= part.scrollWidth - 4,
    top: part.scrollTop,
    hasFocus: part === document.activeElement
  }));
  const page = new DOMParser().parseFromString(html, 'text/html');
  place.replaceChildren(...page.head.childNodes, ...page.body.childNodes);
  parts().forEach((part, n) => {
    const was = before[n];
    if (was?.hasFocus === true) {
      part.focus({ preventScroll: true });
    }
    if (was?.canScroll === true) {
      part.scrollLeft = was.isAtEnd ? part.scrollWidth : was.left;
      part.scrollTop = was.top;
    } else if (part.querySelector('.mx-rq-steps') !== null) {
      scrollToEnd(part);
    }
  });
}
