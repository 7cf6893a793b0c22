/** Styles of the compile panel. */

import { PARTS_STYLES } from '../parts/css';

export const COMPILE_STYLES = `${PARTS_STYLES}
.jp-MaxLab-compile { display: flex; flex-direction: column; height: 100%; min-height: 0; }
.jp-MaxLab-phases { flex: none; padding: 8px 12px 4px; }
.jp-MaxLab-phaseBar { display: flex; gap: 1px; height: 14px; margin: 3px 0 6px; border-radius: 4px; overflow: hidden; }
.jp-MaxLab-phase { flex: 1 1 0; min-width: 2px; }
.jp-MaxLab-unit { white-space: nowrap; }
.jp-MaxLab-unit.jp-mod-hit { color: var(--mx-muted); }
.jp-MaxLab-unit.jp-mod-miss { font-weight: 600; }
`;
