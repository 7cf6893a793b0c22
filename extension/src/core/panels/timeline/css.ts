/** Style rules of the timeline panel. */

import { PANEL_STYLES } from '../styles';

export const TIMELINE_STYLES = `${PANEL_STYLES}
.jp-MaxLab-timeline { position: absolute; inset: 0; display: flex; flex-direction: column; }
.jp-MaxLab-timelineStage { flex: 1 1 auto; min-height: 0; cursor: grab; }
`;
