/** The graph view, free of any notebook: what the widget, JupyterLab and exported pages mount. */

export { GraphView } from './view/view';
export { INSERT_CODE } from './view/inserting';
export { plainFault } from './view/fault';
export type { IGraphViewEvents, IGraphViewOptions } from './view/types';
export { PREFERENCES, type IPreferences } from './view/preferences';
export { isLook, lookOf, takeLook, type ILook } from './view/look';
export { PANELS } from './view/panels';
export { addStyles } from './view/styles';
export { WorkRow } from './view/working';
export { WORK_STYLES } from './view/working-css';
export type { ICommand } from './view/commands';
export { placeOf, pointAt, type MenuPlace } from './view/pointing';
export type { ITestNode, ITestView } from './view/registry';
export type { ThemeName } from './render/theme';
export { parseDocument, type ParseResult } from '../proto/parse';
export { LayoutClient } from './layout/client';
export { inflate, fromBase64 } from './inflate';
export { WRITE_CELL, type IWriteCell, type IWroteCell } from './view/writing';
export { textEdits } from './view/lines';
export { fits, messageOf } from './narrow';
export * from './dashboard';
export * from './files';
export { prose } from './view/prose';
export { formatShare, formatTime } from './model/format';
export { TokenButtons } from './tokens';
