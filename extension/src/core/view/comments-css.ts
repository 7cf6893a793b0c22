/** The look of comments on the canvas. */

export const COMMENT_STYLES = `
.jp-MaxLab-comments { position: absolute; inset: 0; z-index: 2; overflow: hidden; pointer-events: none; }
.jp-MaxLab-commentGroup { position: absolute; left: 0; top: 0; transform-origin: 0 0; display: flex; flex-direction: column; gap: 4px; width: max-content; max-width: 190px; }
.jp-MaxLab-comment { position: relative; pointer-events: auto; padding: 4px 8px; border: 1px solid var(--mx-comment-line, var(--mx-line)); border-left: 3px solid var(--mx-accent); border-radius: 3px 6px 6px 3px;
  background: var(--mx-surface); color: var(--mx-text); font: 11.5px/1.4 var(--mx-font-ui); white-space: pre-wrap; overflow-wrap: anywhere; cursor: default; user-select: text; box-shadow: 0 1px 5px rgba(0, 0, 0, 0.14); max-height: 130px; overflow: hidden auto; }
.jp-MaxLab-comment:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-comment.jp-mod-dragged { cursor: grabbing; user-select: none; }
.jp-MaxLab-view .jp-MaxLab-commentRemove { position: absolute; right: 2px; top: 2px; display: none; align-items: center; justify-content: center; width: 18px; height: 18px; padding: 0; border: 0; border-radius: 4px; background: var(--mx-surface); color: var(--mx-muted); }
.jp-MaxLab-comment:hover .jp-MaxLab-commentRemove, .jp-MaxLab-comment:focus-within .jp-MaxLab-commentRemove { display: inline-flex; }
.jp-MaxLab-view .jp-MaxLab-commentRemove:hover { color: var(--mx-error); }
.jp-MaxLab-commentRemove .jp-MaxLab-icon { width: 11px; height: 11px; }
.jp-MaxLab-view .jp-MaxLab-commentField { pointer-events: auto; width: 190px; padding: 4px 8px; border: 1px solid var(--mx-accent); border-radius: 5px; background: var(--mx-bg); color: var(--mx-text); font: 11.5px/1.4 var(--mx-font-ui); resize: none; outline: 1px solid var(--mx-accent); box-shadow: 0 4px 16px rgba(0, 0, 0, 0.2); }
.jp-MaxLab-view .jp-MaxLab-commentField::placeholder { color: var(--mx-muted); opacity: 1; }
.jp-MaxLab-comments.jp-mod-far .jp-MaxLab-comment { width: 12px; height: 10px; padding: 0; overflow: hidden; }
.jp-MaxLab-comments.jp-mod-far .jp-MaxLab-commentText { display: none; }
@media (forced-colors: active) { .jp-MaxLab-comment { border-color: CanvasText; } }
`;
