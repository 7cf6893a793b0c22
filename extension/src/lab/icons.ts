/** The icons of maxlab: four operations of a graph, a chart, a grid of numbers, and a box with a graph in it. */

import { LabIcon } from '@jupyterlab/ui-components';

const GRAPH_SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M10.2 6.5h1.6v3h4.7v3.3h-1.6v-1.7H7.1v1.7H5.5V9.5h4.7z"/>
    <rect x="7" y="2" width="8" height="5" rx="1.4"/>
    <rect x="2" y="12" width="8" height="5" rx="1.4"/>
    <rect x="12" y="12" width="8" height="5" rx="1.4"/>
  </g>
</svg>`;

const DASHBOARD_SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M3 3h1.7v14.3H19V19H3z"/>
    <path d="M6.2 14.2l3.4-5 3 2.6 4.6-7 1.4 1-5.6 8.5-3-2.7-2.4 3.6z"/>
  </g>
</svg>`;

export const dashboardIcon = new LabIcon({ name: 'maxlab:dashboard', svgstr: DASHBOARD_SVG });

export const graphIcon = new LabIcon({ name: 'maxlab:graph', svgstr: GRAPH_SVG });

const WEIGHTS_SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M3 3h16v16H3zm1.6 1.6v12.8h12.8V4.6z" fill-rule="evenodd"/>
    <path d="M6 6h2.9v2.9H6zM13.1 6H16v2.9h-2.9zM9.55 9.55h2.9v2.9h-2.9zM6 13.1h2.9V16H6zM13.1 13.1H16V16h-2.9z"/>
  </g>
</svg>`;

export const weightsIcon = new LabIcon({ name: 'maxlab:weights', svgstr: WEIGHTS_SVG });

const MODEL_SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M11 1.5l8 4v11l-8 4-8-4v-11zm0 1.9L5.6 6.1 11 8.8l5.4-2.7zM4.7 7.6v7.8l5.4 2.7v-7.8zm12.6 0l-5.4 2.7v7.8l5.4-2.7z" fill-rule="evenodd"/>
  </g>
</svg>`;

export const modelIcon = new LabIcon({ name: 'maxlab:model', svgstr: MODEL_SVG });
