// A job's timeline as bars: one lane per model, one row per call, retry, wait or tool.
import type { Schema } from '../../lib/api';

export type Span = Schema['Span'];
export type Timeline = Schema['Timeline'];

export interface Bar {
  key: string;
  kind: Span['kind'];
  title: string; // what it is, in words
  detail: string;
  start: number; // seconds since the job began
  seconds: number;
  left: number; // percent of the whole
  width: number;
  first: number | null; // an answer's first word: percent of the bar
  firstSeconds: number | null;
  open: boolean; // it has not ended
  moment: boolean;
  ok: boolean | null;
}
export interface Lane {
  slot: string;
  name: string;
  bars: Bar[];
}
export interface Tick {
  left: number;
  seconds: number;
}
export interface Waterfall {
  lanes: Lane[];
  ticks: Tick[];
  seconds: number;
}

const TITLES: Record<Span['kind'], string> = {
  queue: 'Queue', first_word: 'First word', answer: 'Answer', round: 'Round', retry: 'Retry', restart: 'Restart', tool: 'Tool', wait: 'Wait',
};
const PHASES: Record<string, string> = { answer: 'Answer', initial: 'First answer', refined: 'Refined answer', refined2: 'Refined answer', verdict: 'Verdict', review: 'Review', check: 'Check' };
const ROUNDS: Record<string, string> = { initial: 'Round 1', refined: 'Round 2', refined2: 'Round 3', verdict: 'Judge', review: 'Review', check: 'Check' };
const MOST_TICKS = 5;

/** The chart of a timeline. `now`: the temporary end of open spans, in seconds since 1970. */
export function waterfall(timeline: Timeline, now: number): Waterfall {
  const begin = Math.min(timeline.started_at, ...timeline.spans.map(({ start }) => start));
  const lastKnown = Math.max(begin, ...timeline.spans.map(({ start, end }) => end ?? start));
  const end = Math.max(lastKnown, timeline.ended_at ?? Math.max(now, lastKnown));
  const whole = Math.max(end - begin, 0.001);
  const firstWords = timeline.spans.filter(({ kind }) => kind === 'first_word');
  const lanes = new Map<string, Lane>();
  timeline.spans.forEach((span, index) => {
    if (span.kind === 'first_word' && timeline.spans.some((other) => other.kind === 'answer' && sameCall(other, span))) return;
    const lane = lanes.get(span.slot) ?? { slot: span.slot, name: '', bars: [] };
    lanes.set(span.slot, lane);
    if (span.model && span.slot !== '') lane.name ||= span.model;
    const word = span.kind === 'answer' ? firstWords.find((other) => sameCall(other, span)) : undefined;
    lane.bars.push(bar(span, index, { begin, end, whole }, word));
  });
  const sorted = [...lanes.values()].sort((a, b) => place(a.slot) - place(b.slot));
  for (const lane of sorted) lane.name ||= lane.slot === '' ? 'Job' : `Model ${Number(lane.slot) + 1}`;
  return { lanes: sorted, ticks: ticks(whole), seconds: whole };
}

/** Sorts the job first, then its models by number, then a judge. */
function place(slot: string): number {
  return slot === '' ? -1 : /^\d+$/.test(slot) ? Number(slot) : Infinity;
}

function sameCall(answer: Span, word: Span): boolean {
  return answer.slot === word.slot && answer.start === word.start;
}

function bar(span: Span, index: number, time: { begin: number; end: number; whole: number }, word: Span | undefined): Bar {
  const end = Math.min(span.end ?? time.end, time.end);
  const seconds = Math.max(0, end - span.start);
  const moment = span.end !== null && span.end === span.start;
  const firstSeconds = word?.end ? Math.max(0, word.end - span.start) : null;
  return {
    key: `${span.kind}${span.slot}${index}`,
    kind: span.kind,
    title: titleOf(span),
    detail: span.kind === 'answer' || span.kind === 'round' || span.label === TITLES[span.kind] ? '' : span.label,
    start: Math.max(0, span.start - time.begin),
    seconds,
    left: percent(span.start - time.begin, time.whole),
    width: percent(seconds, time.whole),
    first: firstSeconds === null || seconds === 0 ? null : percent(firstSeconds, seconds),
    firstSeconds,
    open: span.end === null,
    moment,
    ok: span.ok,
  };
}

function titleOf(span: Span): string {
  if (span.kind === 'answer') return PHASES[span.label] ?? 'Answer';
  if (span.kind === 'round') return ROUNDS[span.label] ?? `Round: ${span.label}`;
  return TITLES[span.kind];
}

function percent(part: number, whole: number): number {
  return Math.max(0, Math.min(100, (100 * part) / whole));
}

/** Round times for the axis: 1, 2 or 5 times a power of ten. */
export function ticks(whole: number): Tick[] {
  const rough = whole / MOST_TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const list: Tick[] = [];
  for (let number = 0; number * step <= whole * 0.96; number += 1) list.push({ seconds: number * step, left: percent(number * step, whole) });
  return list;
}
