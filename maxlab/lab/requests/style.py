"""The style of requests, contexts and distributions: colours of the front end's theme, no script.

A notebook that is not trusted drops style sheets: then the same HTML is plain text and tables,
whose tokens carry their colours themselves.
"""

from __future__ import annotations

import re

from maxlab.markup import escape

_RULES = """
.mx-rq {
  --rq-page: var(--jp-layout-color0, var(--vscode-editor-background, #fff));
  --rq-soft: var(--jp-layout-color2, var(--vscode-textBlockQuote-background, #f3f4f6));
  --rq-line: var(--jp-border-color2, var(--vscode-panel-border, #d6d9de));
  --rq-text: var(--jp-content-font-color1, var(--vscode-editor-foreground, #1b1f24));
  --rq-faint: var(--jp-content-font-color2, var(--vscode-descriptionForeground, #59616b));
  --rq-mono: var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace);
  --rq-mark: #4c8dd6;
  background: var(--rq-page); color: var(--rq-text);
  border: 1px solid var(--rq-line); border-radius: 6px; overflow: hidden;
  max-width: 1180px; font-size: 13px; line-height: 1.45;
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
}
.mx-rq * { box-sizing: border-box; }
.mx-rq .mx-rq-head {
  padding: 6px 12px; border-bottom: 1px solid var(--rq-line); background: var(--rq-soft);
  font-weight: 600; overflow-wrap: anywhere;
}
.mx-rq section { padding: 8px 12px; border-top: 1px solid var(--rq-line); }
.mx-rq section:first-of-type { border-top: 0; }
.mx-rq h4 { margin: 0 0 4px; font-size: 13px; font-weight: 600; }
.mx-rq p { margin: 2px 0 6px; }
.mx-rq .mx-rq-faint { color: var(--rq-faint); }
.mx-rq .mx-rq-scroll { overflow-x: auto; }
.mx-rq .mx-rq-scroll:focus-visible, .mx-rq summary:focus-visible {
  outline: 2px solid var(--rq-mark); outline-offset: -2px;
}
.mx-rq details { margin: 0; }
.mx-rq summary { cursor: pointer; }

.mx-rq table {
  border-collapse: collapse; border: 0; margin: 0; font-size: 12px; color: inherit;
  table-layout: auto; width: auto;
}
.mx-rq thead, .mx-rq thead tr { border: 0; }
.mx-rq tbody tr, .mx-rq tbody tr:nth-child(odd), .mx-rq tbody tr:hover { background: none; }
.mx-rq th, .mx-rq td {
  text-align: left; vertical-align: top; padding: 2px 14px 2px 0; white-space: normal;
  max-width: none; border: 0;
}
.mx-rq tbody td, .mx-rq tbody th { border-top: 1px solid var(--rq-line); }
.mx-rq thead th { color: var(--rq-faint); font-weight: 500; font-size: 11px; }
.mx-rq tbody th { font-weight: 400; white-space: nowrap; font-family: var(--rq-mono); }
.mx-rq td.mx-rq-number, .mx-rq th.mx-rq-number {
  text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
}
.mx-rq .mx-rq-value { font-family: var(--rq-mono); overflow-wrap: anywhere; white-space: pre-wrap; }
.mx-rq tr.mx-rq-set > th { font-weight: 700; }
.mx-rq tr.mx-rq-set > .mx-rq-value { font-weight: 700; }
.mx-rq table table tbody th { font-size: 11px; }

.mx-rq .mx-rq-tokens { line-height: 2.1; max-height: 22em; overflow: auto; padding: 2px; }
.mx-rq .mx-rq-token {
  display: inline-block; position: relative; min-width: 12px; margin: 0 1px; padding: 0 3px;
  border-radius: 3px; line-height: 1.5; text-align: center; white-space: pre;
  font-family: var(--rq-mono); font-size: 12px; vertical-align: middle;
}
.mx-rq .mx-rq-token:hover { outline: 2px solid var(--rq-mark); }
.mx-rq .mx-rq-button { cursor: pointer; }
.mx-rq .mx-rq-button:focus-visible { outline: 2px solid var(--rq-mark); outline-offset: 1px; }
.mx-rq .mx-rq-button[aria-pressed="true"] {
  outline: 2px solid var(--rq-text); outline-offset: 1px; font-weight: 700;
}
.mx-rq .mx-rq-about h4 code { font-size: inherit; background: none; color: inherit; }
.mx-rq .mx-rq-said { margin: 8px 0 0; font-weight: 600; }
.mx-rq .mx-rq-said:empty { display: none; }
.mx-rq .mx-rq-p {
  position: absolute; left: 1px; right: 1px; bottom: -6px; height: 4px; text-align: left;
  background: var(--rq-soft); border: 1px solid var(--rq-line); border-radius: 1px;
}
.mx-rq .mx-rq-p > span { display: block; height: 100%; background: var(--rq-mark); }
.mx-rq .mx-rq-room {
  background: repeating-linear-gradient(-45deg, transparent 0 4px, var(--rq-line) 4px 6px);
}
.mx-rq details.mx-rq-fold { display: inline-block; vertical-align: middle; }
.mx-rq details.mx-rq-fold[open] { display: block; }
.mx-rq details.mx-rq-fold > summary {
  padding: 0 6px; border: 1px solid var(--rq-line); border-radius: 3px; font-size: 12px;
  line-height: 1.5; color: var(--rq-text); background: var(--rq-soft);
}
.mx-rq details.mx-rq-fold > pre {
  max-height: 14em; overflow: auto; margin: 2px 0; font-family: var(--rq-mono); font-size: 12px;
  line-height: 1.4; color: inherit; background: none; white-space: pre-wrap;
  overflow-wrap: anywhere;
}
.mx-rq .mx-rq-legend { margin: 8px 0 0; padding: 0; list-style: none; font-size: 12px; }
.mx-rq .mx-rq-legend li { display: inline-block; margin: 0 16px 2px 0; }

.mx-rq .mx-rq-places { display: flex; width: 110px; height: 13px; margin-top: 2px;
  border: 1px solid var(--rq-line); }
.mx-rq .mx-rq-places > span { display: block; height: 100%; border-width: 0 0 3px !important; }

.mx-rq audio, .mx-rq .mx-rq-wave, .mx-rq .mx-rq-time {
  display: block; width: 100%; max-width: 640px;
}
.mx-rq audio { height: 40px; margin-bottom: 6px; }
.mx-rq .mx-rq-wave { border: 1px solid var(--rq-line); border-radius: 3px; }
.mx-rq .mx-rq-time { display: flex; justify-content: space-between; font-size: 11px;
  color: var(--rq-faint); font-variant-numeric: tabular-nums; }

.mx-rq .mx-rq-bars td, .mx-rq .mx-rq-bars th { vertical-align: middle; padding-right: 10px; }
.mx-rq .mx-rq-bars { width: 100%; }
.mx-rq .mx-rq-bars td.mx-rq-bar { width: 45%; min-width: 90px; padding-right: 10px; }
.mx-rq .mx-rq-bar div { height: 7px; border-radius: 1px; }
.mx-rq .mx-rq-bar .mx-rq-before { background: #8b949e; margin-bottom: 1px; }
.mx-rq .mx-rq-bar .mx-rq-after { background: #2f9e44; }
.mx-rq tr.mx-rq-cut > th { text-decoration: line-through; }
.mx-rq .mx-rq-rule {
  display: inline-block; border-radius: 8px; padding: 0 7px; font-size: 11px; white-space: nowrap;
}
.mx-rq .mx-rq-numbers { display: flex; flex-wrap: wrap; gap: 2px 22px; margin: 0 0 6px; }
.mx-rq .mx-rq-numbers b { font-variant-numeric: tabular-nums; }

.mx-rq .mx-rq-controls {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 6px 22px;
}
.mx-rq .mx-rq-control { display: grid; grid-template-columns: 1fr auto; gap: 0 8px; margin: 0; }
.mx-rq .mx-rq-control label { font-size: 12px; align-self: center; }
.mx-rq .mx-rq-control input[type="range"] {
  grid-column: 1 / 3; width: 100%; margin: 0; accent-color: #1f6feb;
}
.mx-rq .mx-rq-control input[type="number"], .mx-rq .mx-rq-control input[type="text"] {
  width: 6em; font: inherit; font-size: 12px; padding: 0 4px; color: inherit;
  background: var(--jp-input-background, transparent); border: 1px solid var(--rq-faint);
  border-radius: 2px;
}
.mx-rq .mx-rq-control.mx-rq-wide input[type="text"] { grid-column: 1 / 3; width: 100%; }
.mx-rq .mx-rq-buttons { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 8px; }
.mx-rq .mx-rq-buttons button {
  font: inherit; font-size: 12px; padding: 2px 10px; color: inherit; background: var(--rq-soft);
  border: 1px solid var(--rq-faint); border-radius: 3px; cursor: pointer;
}
.mx-rq .mx-rq-every code { white-space: pre; background: none; color: inherit; padding: 0; }
.mx-rq .mx-rq-every td:nth-child(4) { min-width: 26em; }
.mx-rq .mx-rq-every .mx-rq-scroll { max-height: 28em; overflow: auto; }
.mx-rq .mx-rq-steps { display: flex; width: max-content; }
.mx-rq .mx-rq-steps > svg { flex: none; display: block; }
.mx-rq .mx-rq-steps > svg:first-child { position: sticky; left: 0; background: var(--rq-page); }
.mx-rq.mx-rq-board { margin-bottom: 6px; }
.mx-rq section.mx-rq-buttons { align-items: center; margin: 0; }
.mx-rq .mx-rq-buttons button[aria-pressed="true"] {
  font-weight: 700; border-color: var(--rq-text);
}
.mx-rq .mx-rq-slider { flex: 1 1 90px; min-width: 80px; margin: 0 4px; accent-color: #1f6feb; }
.mx-rq.mx-rq-board > .mx-rq-problem { margin: 0; padding: 0 12px 8px; }
.mx-rq button:focus-visible, .mx-rq input:focus-visible {
  outline: 2px solid var(--rq-mark); outline-offset: 1px;
}
.mx-rq button:disabled, .mx-rq input:disabled { opacity: .6; cursor: default; }
.mx-rq .mx-rq-problem { margin: 6px 0 0; font-weight: 600; }
.mx-rq .mx-rq-problem:empty { display: none; }
@media (forced-colors: active) {
  .mx-rq .mx-rq-token, .mx-rq .mx-rq-rule, .mx-rq .mx-rq-bar div, .mx-rq .mx-rq-p > span,
  .mx-rq .mx-rq-places > span { forced-color-adjust: none; }
}
"""

# Twice the class: front ends have rules for tables in outputs, which must not win.
CSS = re.sub(r"\.mx-rq(?= )", ".mx-rq.mx-rq", _RULES)
"""The style sheet."""


def page(label: str, body: str) -> str:
    """A view with the heading ``label``, and its style sheet.

    Args:
        label: A text.
        body: HTML.
    """
    name = escape(label, quote=True)
    return (
        f'<style>{CSS}</style><div class="mx-rq" role="group" aria-label="{name}">'
        f'<div class="mx-rq-head">{escape(label)}</div>{body}</div>'
    )


def scrolled(label: str, inner: str) -> str:
    """HTML that is scrolled sideways where the page is narrow, also by keyboard.

    Args:
        label: Its name for screen readers.
        inner: HTML.
    """
    name = escape(label, quote=True)
    return f'<div class="mx-rq-scroll" role="region" tabindex="0" aria-label="{name}">{inner}</div>'


__all__ = ["CSS", "page", "scrolled"]
