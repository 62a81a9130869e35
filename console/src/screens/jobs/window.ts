// Which rows of a long list are drawn: those in view and a few around them, so that 1,000 jobs cost as little as 30.

export interface View {
  top: number; // pixels of the list above the view; negative while something is above the list
  height: number;
}

const AROUND = 5; // rows above and below the view

export function visible(count: number, rowHeight: number, view: View): [number, number] {
  const first = Math.floor(view.top / rowHeight) - AROUND;
  const last = Math.ceil((view.top + view.height) / rowHeight) + AROUND;
  return [clamp(first, 0, count), clamp(last, 0, count)];
}

/** The indexes to draw: rows in view, and the row with the focus, which must not disappear. */
export function rowsToDraw(count: number, rowHeight: number, view: View, focusedRow: number): number[] {
  const [first, last] = visible(count, rowHeight, view);
  const indexes = Array.from({ length: last - first }, (_, index) => first + index);
  if (focusedRow >= 0 && focusedRow < first) indexes.unshift(focusedRow);
  if (focusedRow >= last && focusedRow < count) indexes.push(focusedRow);
  return indexes;
}

function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, value));
}
