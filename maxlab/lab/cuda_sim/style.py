"""The style of the view of a simulated launch: colours of the front end's theme, no script.

A notebook that is not trusted drops style sheets: then the same HTML is a list of plain tables,
whose coloured cells carry their colours themselves.
"""

from __future__ import annotations

import re

MOST_PANELS = 40
"""Panels that can be chosen from; each has a rule below."""

_CHOSEN = ",\n".join(
    f".mx-cs-choice:has(> label:nth-of-type({n}) > :checked) > .mx-cs-panels > :nth-child({n})"
    for n in range(1, MOST_PANELS + 1)
)

_RULES = f"""
.mx-cs {{
  --cs-bg: var(--jp-layout-color1, var(--vscode-editor-background, #fff));
  --cs-soft: var(--jp-layout-color2, var(--vscode-textBlockQuote-background, #f3f4f6));
  --cs-line: var(--jp-border-color2, var(--vscode-panel-border, #d6d9de));
  --cs-text: var(--jp-content-font-color1, var(--vscode-editor-foreground, #1b1f24));
  --cs-faint: var(--jp-content-font-color2, var(--vscode-descriptionForeground, #59616b));
  --cs-mono: var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace);
  --cs-bad: #d1242f; --cs-other: #b35900; --cs-good: #1a7f37; --cs-mark: #0969da;
  color: var(--cs-text); background: var(--cs-bg); border: 1px solid var(--cs-line);
  border-radius: 6px; overflow: hidden; max-width: 1180px; font-size: 13px; line-height: 1.45;
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
}}
.mx-cs * {{ box-sizing: border-box; }}
.mx-cs code, .mx-cs pre {{
  font-family: var(--cs-mono); font-size: 12px; background: none !important;
  color: inherit; padding: 0;
}}
.mx-cs .mx-cs-head {{
  display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: baseline; padding: 8px 12px;
  border-bottom: 1px solid var(--cs-line); background: var(--cs-soft);
}}
.mx-cs .mx-cs-head code {{ font-size: 13px; font-weight: 600; }}
.mx-cs .mx-cs-faint {{ color: var(--cs-faint); }}
.mx-cs .mx-cs-head .mx-cs-faint {{ color: var(--cs-text); }}
.mx-cs .mx-cs-verdict {{
  font-weight: 600; border-radius: 10px; padding: 0 9px; color: #fff; background: #59616b;
}}
.mx-cs .mx-cs-verdict.mx-cs-good {{ background: var(--cs-good); }}
.mx-cs .mx-cs-verdict.mx-cs-bad {{ background: var(--cs-bad); }}
.mx-cs section {{ padding: 8px 12px 10px; border-top: 1px solid var(--cs-line); }}
.mx-cs h4:first-child {{ margin-top: 0; }}
.mx-cs section:first-of-type {{ border-top: 0; }}
.mx-cs h4 {{ margin: 12px 0 4px; font-size: 13px; font-weight: 600; }}
.mx-cs p {{ margin: 2px 0 6px; }}
.mx-cs .mx-cs-scroll {{ overflow-x: auto; container-type: inline-size; }}

.mx-cs table {{
  border-collapse: collapse; border: 0; margin: 0; font-size: 12px; color: inherit;
  table-layout: auto; width: auto;
}}
.mx-cs thead, .mx-cs thead tr {{ border: 0; }}
.mx-cs table tr, .mx-cs table tbody tr:nth-child(odd), .mx-cs table tbody tr:nth-child(even),
.mx-cs table tbody tr:hover {{ background: none; }}
.mx-cs th, .mx-cs td {{
  border: 0; padding: 1px 8px; text-align: left; vertical-align: baseline; max-width: none;
  font-weight: normal; white-space: nowrap; line-height: inherit;
}}
.mx-cs caption {{ caption-side: top; text-align: left; padding: 0 0 4px; color: var(--cs-faint); }}

.mx-cs .mx-cs-source {{ width: 100%; }}
.mx-cs .mx-cs-source td {{ padding: 0 8px; }}
.mx-cs .mx-cs-source pre {{ margin: 0; white-space: pre; tab-size: 4; }}
.mx-cs .mx-cs-source th {{
  text-align: right; width: 1px; padding: 0 8px; color: var(--cs-faint);
  font-family: var(--cs-mono);
}}
.mx-cs .mx-cs-source .mx-cs-left-out td {{ color: var(--cs-faint); font-size: 11px; }}
.mx-cs .mx-cs-source td.mx-cs-lanes {{ width: 1px; text-align: right; color: var(--cs-faint); }}
.mx-cs .mx-cs-source td.mx-cs-diverged {{ color: var(--cs-text); font-weight: 600; }}
.mx-cs .mx-cs-source td.mx-cs-cost {{ width: 1px; text-align: right; }}
.mx-cs .mx-cs-source thead th {{
  font-family: inherit; font-size: 11px; padding: 0 8px 2px; width: auto;
}}
.mx-cs .mx-cs-source thead th:nth-child(3) {{ text-align: left; width: 99%; }}
.mx-cs table.mx-cs-source tbody tr.mx-cs-at {{
  box-shadow: inset 3px 0 var(--cs-bad);
}}
.mx-cs table.mx-cs-source tbody tr.mx-cs-also {{
  box-shadow: inset 3px 0 var(--cs-other);
}}
.mx-cs tr.mx-cs-at th, .mx-cs tr.mx-cs-also th, .mx-cs tr.mx-cs-at td, .mx-cs tr.mx-cs-also td {{
  color: var(--cs-text) !important;
}}
.mx-cs table.mx-cs-source tr.mx-cs-note td {{ white-space: normal; padding: 4px 8px 6px; }}
.mx-cs .mx-cs-said {{
  border-left: 3px solid var(--cs-bad); padding: 1px 0 1px 10px; margin-left: 2px;
  max-width: min(100ch, calc(100cqw - 96px));
}}
.mx-cs .mx-cs-said.mx-cs-earlier {{ border-color: var(--cs-other); }}
.mx-cs .mx-cs-said b {{ color: inherit; }}
.mx-cs .mx-cs-tag {{
  display: inline-block; min-width: 17px; text-align: center; border-radius: 9px; padding: 0 5px;
  margin-right: 4px; font-size: 11px; font-weight: 600; color: #fff; background: var(--cs-bad);
}}
.mx-cs .mx-cs-earlier .mx-cs-tag {{ background: var(--cs-other); }}

.mx-cs .mx-cs-pill {{
  border-radius: 9px; padding: 0 7px; font-size: 11px; color: #fff; background: var(--cs-good);
}}
.mx-cs .mx-cs-pill.mx-cs-some {{ background: #9a6700; }}
.mx-cs .mx-cs-pill.mx-cs-much {{ background: var(--cs-bad); }}

.mx-cs form {{ margin: 0; }}
.mx-cs .mx-cs-choice > label {{
  display: inline-block; position: relative; min-width: 26px; padding: 0 8px; margin: 0 -2px 6px 0;
  text-align: center; border: 1px solid var(--cs-line); border-radius: 4px; cursor: pointer;
  font-size: 12px; background: var(--cs-soft);
}}
.mx-cs .mx-cs-choice > label > input {{ position: absolute; opacity: 0; margin: 0; }}
.mx-cs .mx-cs-choice > label:hover {{ border-color: var(--cs-mark); }}
.mx-cs .mx-cs-choice > label:has(:checked) {{
  background: var(--cs-mark); border-color: var(--cs-mark); color: #fff;
}}
.mx-cs .mx-cs-choice > label:has(:focus-visible) {{
  outline: 2px solid var(--cs-mark); outline-offset: 1px;
}}
.mx-cs .mx-cs-choice > span {{ margin: 0 4px 0 10px; font-size: 12px; color: var(--cs-faint); }}
.mx-cs .mx-cs-panels > * {{ display: none; }}
{_CHOSEN} {{ display: block; }}

.mx-cs .mx-cs-grid {{ border-collapse: separate; border-spacing: 1px; }}
.mx-cs .mx-cs-grid th {{
  color: var(--cs-faint); font-size: 10px; padding: 0 4px 0 0; text-align: center;
}}
.mx-cs .mx-cs-grid tbody th {{ text-align: right; font-size: 11px; padding-right: 6px; }}
.mx-cs .mx-cs-grid td {{
  min-width: 27px; height: 21px; padding: 0 3px; text-align: center; vertical-align: middle;
  font-size: 10.5px; font-family: var(--cs-mono); border-radius: 3px; cursor: default;
}}
.mx-cs .mx-cs-grid td.mx-cs-none {{
  color: var(--cs-faint); background: repeating-linear-gradient(
    -45deg, transparent 0 4px, var(--cs-soft) 4px 7px);
}}
.mx-cs .mx-cs-grid td:hover {{ outline: 2px solid var(--cs-mark); }}
.mx-cs .mx-cs-legend {{ margin: 6px 0 0; padding: 0; list-style: none; }}
.mx-cs .mx-cs-legend li {{ display: inline-block; margin: 0 14px 0 0; }}
.mx-cs .mx-cs-legend span {{
  display: inline-block; min-width: 20px; text-align: center; border-radius: 3px; padding: 0 4px;
  margin-right: 5px; font-family: var(--cs-mono); font-size: 11px;
}}

.mx-cs .mx-cs-costs thead th {{ color: var(--cs-faint); font-size: 11px; }}
.mx-cs .mx-cs-costs td {{ border-top: 1px solid var(--cs-line); padding: 3px 8px; }}
.mx-cs .mx-cs-costs td.mx-cs-number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.mx-cs .mx-cs-costs th.mx-cs-number {{ text-align: right; }}
.mx-cs .mx-cs-costs tr.mx-cs-drawn td {{ border-top: 0; padding-top: 0; }}
.mx-cs summary {{ cursor: pointer; color: var(--cs-faint); }}
.mx-cs summary:focus-visible {{ outline: 2px solid var(--cs-mark); }}
.mx-cs .mx-cs-strip {{ border-collapse: collapse; margin: 4px 0 2px; }}
.mx-cs .mx-cs-strip th, .mx-cs .mx-cs-strip td {{
  min-width: 6px; height: 15px; padding: 0; text-align: center; font-size: 10px;
}}
.mx-cs .mx-cs-strip caption {{ white-space: nowrap; }}
.mx-cs .mx-cs-strip th {{ color: var(--cs-faint); padding: 0 1px; }}
.mx-cs .mx-cs-strip td {{ background: var(--cs-soft); border: 1px solid var(--cs-line); }}
.mx-cs .mx-cs-strip td.mx-cs-sector {{ border-left: 2px solid var(--cs-faint); }}
.mx-cs .mx-cs-banks td {{ min-width: 24px; }}
@media (forced-colors: active) {{
  .mx-cs .mx-cs-verdict, .mx-cs .mx-cs-tag, .mx-cs .mx-cs-pill, .mx-cs td[style],
  .mx-cs label:has(> :checked) {{ forced-color-adjust: none; }}
}}
"""

# Twice the class: front ends have rules for tables in outputs, which must not win.
CSS = re.sub(r"\.mx-cs(?= )", ".mx-cs.mx-cs", _RULES)
"""The style sheet."""
