/** Styles of the memory panel. */

import { PARTS_STYLES } from '../parts/css';

export const MEMORY_STYLES = `${PARTS_STYLES}
.jp-MaxLab-memory { height: 100%; min-height: 0; }
.jp-MaxLab-memChart { position: relative; flex: 1 1 auto; min-height: 90px; overflow: hidden; touch-action: none; cursor: default; }
.jp-MaxLab-memChart:focus-visible { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
`;
