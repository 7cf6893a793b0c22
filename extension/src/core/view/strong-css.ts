/**
 * Styles where contrast is all that counts: in high-contrast themes, and where the system forces its own
 * colours on every page. What shows data keeps its colours, what is chosen takes the colours of a choice,
 * and what was told apart by a pale surface gets a line. `Theming` sets the class and the variables.
 */

/** Backgrounds that say something: without them there is nothing to see. */
const DATA = [
  'legendBar', 'legendHatch', 'meterBar', 'hotBar', 'barFill', 'adviceBar', 'adviceGauge > span', 'swatch',
  'swatchBox', 'phase', 'line', 'dot', 'changesSwatch', 'workingBar', 'forest', 'minimapFrame', 'weights-scale',
  'dashState::before'
].map(name => `.jp-MaxLab-${name}`);

/** What they lie on. */
const TRACKS = ['meterTrack', 'barTrack', 'adviceGauge', 'workingTrack'].map(name => `.jp-MaxLab-${name}`);

const CHOSEN = [
  "button[aria-pressed='true']", "[role='tab'][aria-selected='true']", "[role='row'][aria-selected='true']",
  "[role='option'][aria-selected='true']", "button[aria-expanded='true']", '[aria-current]',
  'tr.jp-mod-selected', 'tr.jp-mod-selected > *', '.jp-mod-current'
];

const of = (names: readonly string[], after = ''): string => `.jp-mod-strong :is(${names.join(', ')})${after}`;

/** Pseudo-elements may not stand in `:is`. */
const data = DATA.map(name => `.jp-mod-strong ${name}`).join(', ');

export const STRONG_STYLES = `
${data}, .jp-mod-strong .jp-MaxLab-forest * { forced-color-adjust: none; }
${of(TRACKS)} { background: none; outline: 1px solid var(--mx-text); outline-offset: -1px; }
.jp-mod-strong :is(.jp-MaxLab-legendBar, .jp-MaxLab-legendHatch, .jp-MaxLab-swatch, .jp-MaxLab-swatchBox, .jp-MaxLab-phaseBar) { outline: 1px solid var(--mx-text); }
.jp-mod-strong .jp-MaxLab-minimapFrame { border-width: 2.5px; opacity: 1; background: none; }
${of(CHOSEN)} { forced-color-adjust: none; background: var(--mx-chosen) !important; color: var(--mx-chosen-text) !important; }
${of(CHOSEN, ' :is(*, .jp-MaxLab-icon)')}:not(:is(${DATA.filter(name => !name.includes('::')).join(', ')})) { color: inherit !important; }
${of(CHOSEN, ' :is(.jp-MaxLab-hotBar, .jp-MaxLab-barFill)')} { outline: 1px solid var(--mx-chosen-text); }
.jp-mod-strong [aria-disabled='true'] { opacity: 1; color: GrayText; }
.jp-mod-strong :is(.jp-MaxLab-button, .jp-MaxLab-dashButton.jp-mod-primary, .jp-MaxLab-tooltip, .jp-MaxLab-plainButton) { border: 1px solid var(--mx-text); }
.jp-mod-strong :is(.jp-MaxLab-problem, .jp-MaxLab-error, .jp-MaxLab-fault) { border-width: 2px; }
.jp-mod-strong :is(button, .jp-MaxLab-foundRow, .jp-MaxLab-menuItem):hover { outline: 2px solid var(--mx-accent); outline-offset: -2px; }
.jp-mod-strong .jp-MaxLab-link { text-decoration: underline; }
.jp-mod-strong :is(.jp-MaxLab-searchInput, input)::placeholder { opacity: 1 !important; }
`;
