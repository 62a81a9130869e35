import { describe, expect, it } from 'vitest';
import { ticks, waterfall, type Span, type Timeline } from './waterfall';

function span(kind: Span['kind'], slot: string, start: number, end: number | null, more: Partial<Span> = {}): Span {
  return { kind, slot, model: slot === '' ? '' : `model-${slot}`, label: '', start, end, ok: null, ...more };
}

function timeline(spans: Span[], ended: number | null = null): Timeline {
  return { job_id: 'job_1', started_at: 100, ended_at: ended, spans };
}

describe('a waterfall', () => {
  it('has the job first, then each model, and a bar for each span', () => {
    const shown = waterfall(
      timeline([
        span('queue', '', 100, 101), span('round', '', 101, 105, { label: 'initial' }),
        span('answer', '1', 101, 105, { label: 'initial', ok: true }), span('answer', '0', 101, 103, { label: 'initial', ok: false }),
      ], 110), 0);
    expect(shown.lanes.map(({ name }) => name)).toEqual(['Job', 'model-0', 'model-1']);
    expect(shown.seconds).toBe(10);
    expect(shown.lanes[0]?.bars.map(({ title, left, width }) => [title, left, width])).toEqual([['Queue', 0, 10], ['Round 1', 10, 40]]);
    expect(shown.lanes[1]?.bars[0]).toMatchObject({ title: 'First answer', ok: false, seconds: 2 });
  });

  it('shows the first word inside its answer', () => {
    const shown = waterfall(timeline([span('answer', '0', 100, 110, { label: 'answer' }), span('first_word', '0', 100, 104)], 110), 0);
    expect(shown.lanes[0]?.bars).toHaveLength(1);
    expect(shown.lanes[0]?.bars[0]).toMatchObject({ title: 'Answer', first: 40, firstSeconds: 4 });
  });

  it('grows while the job runs, also with a clock that is behind the server', () => {
    const running = timeline([span('answer', '0', 101, null)]);
    expect(waterfall(running, 105).lanes[0]?.bars[0]).toMatchObject({ open: true, seconds: 4, width: 80 });
    expect(waterfall(running, 5).lanes[0]?.bars[0]).toMatchObject({ seconds: 0 });
  });

  it('ends nothing behind the end of the job', () => {
    const shown = waterfall(timeline([span('retry', '0', 101, 102), span('tool', '0', 103, 103, { label: 'files: read' })], 104), 999);
    expect(shown.seconds).toBe(4);
    expect(shown.lanes[0]?.bars.map(({ title, moment, detail }) => [title, moment, detail])).toEqual([['Retry', false, ''], ['Tool', true, 'files: read']]);
  });

  it('has the judge last, by its work', () => {
    const shown = waterfall(
      timeline([
        span('answer', 'judge', 106, 107, { label: 'verdict', ok: true }), span('round', '', 106, 107, { label: 'verdict' }),
        span('answer', '1', 101, 105, { label: 'initial' }), span('answer', '0', 101, 105, { label: 'refined2' }),
        span('round', '', 101, 105, { label: 'refined2' }),
      ], 107), 0);
    expect(shown.lanes.map(({ slot }) => slot)).toEqual(['', '0', '1', 'judge']);
    expect(shown.lanes[3]?.bars[0]?.title).toBe('Verdict');
    expect(shown.lanes[0]?.bars.map(({ title }) => title)).toEqual(['Judge', 'Round 3']);
    expect(shown.lanes[1]?.bars[0]?.title).toBe('Refined answer');
  });

  it('works without a single span', () => {
    expect(waterfall(timeline([], 100), 0).lanes).toEqual([]);
  });
});

describe('the axis', () => {
  it.each([[10, [0, 2, 4, 6, 8]], [0.3, [0, 0.1, 0.2]], [61, [0, 20, 40]]])('of %s seconds has round times', (whole, expected) => {
    expect(ticks(whole).map(({ seconds }) => Number(seconds.toFixed(6)))).toEqual(expected);
  });
});
