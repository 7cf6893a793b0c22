import { describe, expect, it } from 'vitest';

import { turnedPoint, type Direction } from '../src/core/model/flow';
import { portAt, portName, portsOf, PORT_REACH, type IPort } from '../src/core/model/ports';
import { buildScene } from '../src/core/model/scene';
import { makeTheme } from '../src/core/render/theme';
import { drawnLines, meetingsOf } from '../src/core/render/meeting';
import { Camera } from '../src/core/render/camera';
import { Detail, type IFrame } from '../src/core/render/frame';
import { paintPorts, type PortState } from '../src/core/render/ports';
import { StubContext } from './canvas';
import { threeOps } from './fixtures';
import { layOut, load } from './scene';

function drawn(direction: Direction) {
  return layOut(load(threeOps()), new Set(), new Map(), direction);
}

describe.each(['down', 'right'] as const)('ports of a graph that runs %s', direction => {
  it.each([0.1, 0.3, 1, 4])('lie on the border, and can be hit at zoom %d', k => {
    const { model, scene } = drawn(direction);
    for (const item of scene.items) {
      const ports = portsOf(model, item, direction, { k, tx: 5, ty: 7 });
      for (const port of ports) {
        // Every port has 16 pixels of its own.
        const others = ports.filter(other => other !== port && other.isResult === port.isResult);
        expect(others.every(other => Math.hypot(other.x - port.x, other.y - port.y) >= 2 * PORT_REACH - 1e-6)).toBe(true);
        for (const [dx, dy] of [[0, 0], [PORT_REACH - 1, 0], [0, 1 - PORT_REACH]] as const) {
          expect(portAt(ports, port.x + dx, port.y + dy)).toBe(port);
        }
        const at = turnedPoint(direction, { x: (port.x - 5) / k, y: (port.y - 7) / k });
        if (direction === 'down') {
          const border = port.isResult ? item.y + item.h : item.y;
          expect(Math.abs(at.y - border) * k).toBeLessThanOrEqual(PORT_REACH);
        }
      }
      // The middle of an item is its own.
      const middle = { x: (item.x + item.w / 2) * k + 5, y: (item.y + item.h / 2) * k + 7 };
      const [size] = direction === 'down' ? [item.h * k] : [item.w * k];
      if (size > 2) {
        expect(portAt(ports, middle.x, middle.y, Math.min(PORT_REACH, size / 2))).toBeNull();
      }
    }
  });
});

describe.each(['down', 'right'] as const)('the edges of a graph that runs %s', direction => {
  it.each([0.5, 1, 3])('meet the ports of what they join at zoom %d', k => {
    const { model, scene } = drawn(direction);
    const edges = scene.root.container?.edges ?? [];
    const meetings = meetingsOf(model, scene, edges);
    expect(meetings.size).toBeGreaterThan(0);
    for (const edge of edges) {
      const [points = new Float32Array(0)] = drawnLines(edge, meetings, k);
      expect(drawnLines(edge, meetings, k)[0]).toBe(points);
      const value = model.values[edge.values[0] ?? -1]?.value.id;
      for (const [item, isResult, at] of [[edge.from, true, 0], [edge.to, false, points.length - 2]] as const) {
        const ports = item === null ? [] : portsOf(model, item, direction, { k, tx: 0, ty: 0 });
        const port = ports.find(one => one.isResult === isResult && one.value === value);
        const end = turnedPoint(direction, { x: (points[at] ?? 0) * k, y: (points[at + 1] ?? 0) * k });
        const across = direction === 'down' ? end.x - (port?.x ?? 0) : end.y - (port?.y ?? 0);
        expect(Math.abs(across)).toBeLessThan(0.01 * k + 0.01);
      }
    }
    const [edge] = edges;
    expect(edge && drawnLines(edge, null, k)[0]).toBe(edge?.points);
  });

  it('are one for each operand that reads the same value', () => {
    const document = threeOps();
    const twice = document.nodes.map(node => ({ ...node, operands: node.operands.map(() => node.operands[0] ?? '') }));
    const model = load({ ...document, nodes: twice });
    const { scene } = layOut(model, undefined, undefined, direction);
    const edges = scene.root.container?.edges ?? [];
    const meetings = meetingsOf(model, scene, edges);
    let several = 0;
    for (const edge of edges) {
      const value = model.values[edge.values[0] ?? -1]?.value.id;
      const ports = edge.to === null ? [] : portsOf(model, edge.to, direction, { k: 1, tx: 0, ty: 0 });
      const read = ports.filter(port => !port.isResult && port.value === value);
      const lines = drawnLines(edge, meetings, 1);
      expect(lines.length).toBe(Math.max(1, read.length));
      several += lines.length > 1 ? 1 : 0;
      for (const port of read) {
        const ends = lines.map(line => turnedPoint(direction, { x: line[line.length - 2] ?? 0, y: line[line.length - 1] ?? 0 }));
        expect(Math.min(...ends.map(end => Math.abs(direction === 'down' ? end.x - port.x : end.y - port.y)))).toBeLessThan(0.1);
      }
    }
    expect(several).toBeGreaterThan(0);
  });
});

describe('ports', () => {
  it('are one for each operand and each result', () => {
    const { model, scene } = drawn('down');
    for (const item of scene.items) {
      const ports = portsOf(model, item, 'down', { k: 1, tx: 0, ty: 0 });
      const node = item.node?.node;
      const wanted = node === undefined ? 1 : node.operands.length + node.results.length;
      expect(ports).toHaveLength(wanted);
    }
  });

  it('leave chains out', () => {
    const document = threeOps();
    const chained = document.nodes.find(node => node.operands.length === 1);
    document.values.push({ id: 'v9', type: '!mo.chain', dtype: '', shape: [], kind: 'tensor' });
    chained?.operands.push('v9');
    chained?.results.push('v9');
    const model = load(document);
    const scene = buildScene(model, { expanded: new Set(), chips: true });
    const item = scene.byKey.get(chained?.id ?? '');
    expect(item).toBeDefined();
    const ports = item === undefined ? [] : portsOf(model, item, 'down', { k: 1, tx: 0, ty: 0 });
    expect(ports.map(port => port.value)).not.toContain('v9');
    expect(ports).toHaveLength(2);
  });

  it.each([
    [['lhs', 'rhs'], 1, 'rhs'],
    [[], 1, 'operand 1'],
    [['original_vals 0'], 2, 'original_vals 2'],
    [['pred', 'xs 0'], 0, 'pred'],
    [['pred', 'xs 0'], 3, 'xs 2']
  ] as const)('are called by the names %j', (names, number, name) => {
    const port = { op: 'n1', isResult: false, number } as IPort;
    expect(portName(port, names)).toBe(name);
  });
});

describe('the marks of ports', () => {
  const painted = (state: PortState, isNear = false): StubContext => {
    const ctx = new StubContext();
    const frame: IFrame = {
      ctx: ctx.real,
      theme: makeTheme(false, null),
      camera: new Camera(),
      width: 100,
      height: 100,
      dpr: 1,
      isHeat: false,
      direction: 'down',
      edgeAlpha: 1,
      detail: Detail.Full
    };
    paintPorts(frame, { ports: [{ x: 10, y: 10, isResult: false, state, isNear }], line: null, dimmed: [], edge: null });
    return ctx;
  };

  it('differ in shape, not in colour alone', () => {
    const shape = (state: PortState): string => {
      const { calls } = painted(state);
      return calls.map(({ name, args }) => `${name}(${args.join()})`).join(' ');
    };
    const shapes = (['idle', 'fits', 'refused'] as const).map(shape);
    expect(new Set(shapes).size).toBe(3);
    expect(painted('refused').count('lineTo')).toBe(2);
    expect(painted('same').count('arc')).toBe(1);
  });

  it('are larger where a drop would be', () => {
    expect(painted('fits', true).count('arc')).toBe(painted('fits').count('arc') + 1);
  });
});
