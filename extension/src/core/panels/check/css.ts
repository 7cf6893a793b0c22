/** Styles of the panel Check. */

import { PANEL_STYLES } from '../styles';
import { PARTS_STYLES } from '../parts/css';

export const CHECK_STYLES = `${PARTS_STYLES}${PANEL_STYLES}
.jp-MaxLab-checkPanel { height: 100%; min-height: 0; }
.jp-MaxLab-checkResult { flex: none; padding: 6px 12px; font-size: 12.5px; overflow-wrap: anywhere; }
.jp-MaxLab-checkResult:empty { display: none; }
.jp-MaxLab-checkResult p + p { margin-top: 4px; }
.jp-MaxLab-checkResult .jp-mod-bad, .jp-MaxLab-view .jp-MaxLab-bad { color: var(--mx-error); font-weight: 600; }
.jp-MaxLab-checkMain .jp-MaxLab-panelBar { flex-wrap: wrap; row-gap: 4px; }
.jp-MaxLab-view .jp-MaxLab-checkMain .jp-MaxLab-plainButton { flex: none; white-space: nowrap; }
.jp-MaxLab-view .jp-MaxLab-checkMain td:nth-child(-n + 2), .jp-MaxLab-view .jp-MaxLab-checkMain td:nth-child(4) { white-space: nowrap; }
.jp-MaxLab-checkMain .jp-MaxLab-sideColumn { flex-basis: min(320px, 44%); }
.jp-MaxLab-histogram { height: 96px; background: none; }
.jp-MaxLab-heatMap { min-height: 24px; max-height: 168px; background: none; }
.jp-MaxLab-cornerRoom { overflow-x: auto; }
.jp-MaxLab-cornerRoom:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: 1px; }
.jp-MaxLab-view .jp-MaxLab-corner { border-collapse: collapse; font: 11px var(--mx-font-mono); color: var(--mx-text); }
.jp-MaxLab-view .jp-MaxLab-corner tr { background: none; }
.jp-MaxLab-view .jp-MaxLab-corner td { padding: 1px 8px 1px 0; border: 0; text-align: right; white-space: nowrap; }
`;
