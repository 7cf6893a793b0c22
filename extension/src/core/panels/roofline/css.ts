/** Style rules of the roofline panel. */

import { PANEL_STYLES } from '../styles';

export const ROOFLINE_STYLES = `${PANEL_STYLES}
.jp-MaxLab-roofline { position: absolute; inset: 0; display: flex; flex-direction: column; }
.jp-MaxLab-rooflineStage { flex: 1 1 auto; min-height: 0; cursor: grab; }
.jp-MaxLab-roofline .jp-MaxLab-panelStatus { margin-left: 0; margin-right: auto; }
`;
