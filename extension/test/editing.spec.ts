// @vitest-environment jsdom
import { describe, expect, it, vi } from 'vitest';

import { ChangeForm } from '../src/core/view/change-form';
import { found } from '../src/core/view/palette';
import type { IChangeField, IOfferedOp } from '../src/proto/changes';

const offer = (name: string, family: string, says: string): IOfferedOp => ({
  name,
  family,
  says,
  fields: [],
  needs: [],
  result: 'float32[n]'
});

const OFFERS = [
  offer('exp', 'elementwise', 'e to the power of each element.'),
  offer('logsumexp', 'reduction', 'The logarithm of the sum of the exponentials.'),
  offer('softmax', 'reduction', 'Probabilities along axis: exp(x - max) over their sum.'),
  offer('tanh', 'elementwise', 'The hyperbolic tangent of each element.'),
  offer('nn.Linear', 'layer', 'A product with weights.')
];

const field = (name: string, text: string, needed = false): IChangeField => ({
  name,
  kind: 'data',
  text,
  needed,
  choices: [],
  hint: 'write a number'
});

describe('the palette', () => {
  it.each([
    ['', ['exp', 'logsumexp', 'softmax', 'tanh', 'nn.Linear']],
    ['exp', ['exp', 'logsumexp', 'softmax']],
    ['SOFT', ['softmax']],
    ['nn.lin', ['nn.Linear']],
    ['nn.Linear', ['nn.Linear']],
    ['reduction', ['logsumexp', 'softmax']],
    ['tangent', ['tanh']],
    ['nothing', []]
  ])('finds %j by name, family and words', (query, names) => {
    expect(found(OFFERS, query).map(({ name }) => name)).toEqual(names);
  });

  it('begins with what was chosen last', () => {
    const names = found(OFFERS, '', ['tanh', 'gone', 'softmax']).map(({ name }) => name);
    expect(names).toEqual(['tanh', 'softmax', 'exp', 'logsumexp', 'nn.Linear']);
  });
});

describe('a form', () => {
  const open = (fields: IChangeField[]): { form: ChangeForm; applied: ReturnType<typeof vi.fn>; inputs: HTMLInputElement[] } => {
    const form = new ChangeForm({ values: () => [{ name: 'input0', type: 'f32[n]' }], left: () => undefined });
    document.body.append(form.element);
    const applied = vi.fn();
    form.open('Change softmax', fields, applied);
    return { form, applied, inputs: [...form.element.querySelectorAll('input')] };
  };
  const submit = (form: ChangeForm): boolean =>
    form.element.dispatchEvent(new Event('submit', { cancelable: true }));

  it('hands over what was changed, and needed fields that are empty', () => {
    const { form, applied, inputs } = open([field('axis', '-1'), field('k', '', true), field('name', 'x')]);
    submit(form);
    expect(applied).toHaveBeenLastCalledWith({ k: '' });
    const [axis] = inputs;
    if (axis !== undefined) {
      axis.value = '0';
    }
    submit(form);
    expect(applied).toHaveBeenLastCalledWith({ axis: '0', k: '' });
  });

  it('gives the keyboard to the first field that needs something', () => {
    const { inputs } = open([field('axis', '-1'), field('k', '', true)]);
    expect(document.activeElement).toBe(inputs[1]);
  });

  it('says which field is wrong, and stays open', () => {
    const { form, inputs } = open([field('axis', '-1'), field('k', '', true)]);
    form.wrong([{ name: 'axis', says: "'one' cannot be read" }]);
    expect(inputs.map(input => input.getAttribute('aria-invalid'))).toEqual(['true', 'false']);
    expect(form.element.querySelector('[role="alert"]')?.textContent).toBe("axis: 'one' cannot be read");
    expect(document.activeElement).toBe(inputs[0]);
    expect(form.isOpen).toBe(true);
    form.wrong([]);
    expect(inputs[0]?.getAttribute('aria-invalid')).toBe('false');
  });

  it('takes script in names as text', () => {
    const { form } = open([field('<img src=x onerror=alert(1)>', '<b>')]);
    expect(form.element.querySelector('img, b')).toBeNull();
  });
});
