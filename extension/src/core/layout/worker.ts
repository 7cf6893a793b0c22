/** Entry of the layout worker: answers each request with the layouts of its containers. */

import { layoutHierarchy, type ILayoutRequest, type ILayoutResult, type LayoutCache } from './hierarchy';

/** A question to the worker. */
export interface IWorkerRequest {
  id: number;
  request: ILayoutRequest;
}

/** Its answer: results and the milliseconds that they took, or what went wrong. */
export type WorkerAnswer =
  | { id: number; results: ILayoutResult[]; ms: number }
  | { id: number; error: string };

const cache: LayoutCache = new Map();

const answer = (message: WorkerAnswer): void => self.postMessage(message);

self.onmessage = (event: MessageEvent<IWorkerRequest>): void => {
  const { id, request } = event.data;
  const started = performance.now();
  try {
    const results = layoutHierarchy(request, cache, () => performance.now());
    answer({ id, results, ms: performance.now() - started });
  } catch (error) {
    answer({ id, error: String(error) });
  }
};
