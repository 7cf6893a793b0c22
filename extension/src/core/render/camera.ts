/** The window onto the world: screen = world × k + (tx, ty). */

export const MIN_ZOOM = 0.002;
export const MAX_ZOOM = 4;

export interface IRect {
  x: number;
  y: number;
  w: number;
  h: number;
}

export class Camera {
  k = 1;
  tx = 0;
  ty = 0;

  set(k: number, tx: number, ty: number): void {
    this.k = k;
    this.tx = tx;
    this.ty = ty;
  }

  worldX(screenX: number): number {
    return (screenX - this.tx) / this.k;
  }

  worldY(screenY: number): number {
    return (screenY - this.ty) / this.k;
  }

  /** Scales about a point of the screen, which keeps its place. */
  zoomAt(factor: number, x: number, y: number): void {
    // What was fitted may be further out than hands can go.
    const k = Math.min(MAX_ZOOM, Math.max(Math.min(MIN_ZOOM, this.k), this.k * factor));
    const ratio = k / this.k;
    this.tx = x - (x - this.tx) * ratio;
    this.ty = y - (y - this.ty) * ratio;
    this.k = k;
  }

  /** The camera that shows `rect` whole in a window of `w × h`, no larger than `maxZoom`. */
  static fit(rect: IRect, w: number, h: number, margin: number, maxZoom: number): Camera {
    const camera = new Camera();
    const k = Math.min(
      maxZoom,
      (w - 2 * margin) / Math.max(1, rect.w),
      (h - 2 * margin) / Math.max(1, rect.h)
    );
    // All of it, however far out that is: the limit is for hands.
    camera.k = Math.min(MAX_ZOOM, Math.max(1e-5, k));
    camera.tx = w / 2 - (rect.x + rect.w / 2) * camera.k;
    camera.ty = h / 2 - (rect.y + rect.h / 2) * camera.k;
    return camera;
  }
}
