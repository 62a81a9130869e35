import { describe, expect, it } from 'vitest';
import { rowsToDraw, visible } from './window';

describe('a long list', () => {
  it('draws what is in view and a few rows around', () => {
    expect(visible(1000, 50, { top: 5000, height: 500 })).toEqual([95, 115]);
    expect(visible(1000, 50, { top: -200, height: 500 })).toEqual([0, 11]);
    expect(visible(3, 50, { top: 0, height: 500 })).toEqual([0, 3]);
    expect(visible(1000, 50, { top: 1_000_000, height: 500 })).toEqual([1000, 1000]);
  });

  it('keeps the row that has the focus', () => {
    const view = { top: 5000, height: 100 };
    expect(rowsToDraw(1000, 50, view, 3)[0]).toBe(3);
    expect(rowsToDraw(1000, 50, view, 900).at(-1)).toBe(900);
    expect(rowsToDraw(1000, 50, view, -1)).toHaveLength(12);
    expect(rowsToDraw(1000, 50, view, 100)).toHaveLength(12);
  });
});
