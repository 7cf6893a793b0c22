/** A 2D context that draws nothing and remembers what it was asked for. */

export interface IDrawCall {
  name: string;
  args: unknown[];
  fill: string;
}

export class StubContext {
  calls: IDrawCall[] = [];
  fillStyle = '';
  strokeStyle = '';
  font = '';
  textAlign = '';
  textBaseline = '';
  lineWidth = 1;
  lineCap = '';
  lineJoin = '';
  globalAlpha = 1;

  constructor() {
    const names =
      'setTransform fillRect clearRect beginPath roundRect rect fill stroke moveTo lineTo closePath ' +
      'strokeRect strokeText translate rotate bezierCurveTo arcTo fillText save restore clip arc setLineDash createPattern';
    for (const name of names.split(' ')) {
      (this as unknown as Record<string, unknown>)[name] = (...args: unknown[]): void => {
        this.calls.push({ name, args, fill: this.fillStyle });
      };
    }
  }

  measureText(text: string): { width: number } {
    return { width: text.length * 7 };
  }

  texts(): string[] {
    return this.calls.filter(c => c.name === 'fillText').map(c => String(c.args[0]));
  }

  count(name: string): number {
    return this.calls.filter(c => c.name === name).length;
  }

  /** For the drawing functions, which want the real type. */
  get real(): CanvasRenderingContext2D {
    return this as unknown as CanvasRenderingContext2D;
  }
}
