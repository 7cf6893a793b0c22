/** The icon of maxlab: four operations of a graph. */

import { LabIcon } from '@jupyterlab/ui-components';

const GRAPH_SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <g class="jp-icon3" fill="#616161">
    <path d="M10.2 6.5h1.6v3h4.7v3.3h-1.6v-1.7H7.1v1.7H5.5V9.5h4.7z"/>
    <rect x="7" y="2" width="8" height="5" rx="1.4"/>
    <rect x="2" y="12" width="8" height="5" rx="1.4"/>
    <rect x="12" y="12" width="8" height="5" rx="1.4"/>
  </g>
</svg>`;

export const graphIcon = new LabIcon({ name: 'maxlab:graph', svgstr: GRAPH_SVG });
