// Usage: ranges, comparisons, and the series of a chart.
import type { Schema } from '../../lib/api';
import { cost, count, duration } from '../../lib/format';

export type Report = Schema['UsageReport'];
export type Budget = Schema['BudgetReport'];

/** `Today`, `This month, openai`. */
export const titleOf = ({ period, provider, person, group }: Budget): string => [period === 'day' ? 'Today' : 'This month', provider, person, group && `group ${group}`].filter(Boolean).join(', ');
export type Sum = Schema['UsageSum'];
export type Series = Schema['UsageSeries'];
export type By = 'model' | 'provider' | 'project' | 'client';
export type MetricName = 'calls' | 'cost' | 'tokens' | 'latency' | 'errors';

export const RANGES = [
  { value: '24h', title: '24 hours', seconds: 86_400, parts: 24 },
  { value: '7d', title: '7 days', seconds: 7 * 86_400, parts: 28 },
  { value: '30d', title: '30 days', seconds: 30 * 86_400, parts: 30 },
  { value: '90d', title: '90 days', seconds: 90 * 86_400, parts: 30 },
] as const;
export type Range = (typeof RANGES)[number];

export const GROUPINGS: { value: By; title: string }[] = [
  { value: 'model', title: 'Model' },
  { value: 'provider', title: 'Provider' },
  { value: 'project', title: 'Project' },
  { value: 'client', title: 'Caller' },
];

export interface Metric {
  value: MetricName;
  title: string;
  stacked: boolean; // groups add up to a total, unlike latencies
  format: (value: number) => string;
}
export const METRICS: Metric[] = [
  { value: 'calls', title: 'Calls', stacked: true, format: (value) => count(value) },
  { value: 'cost', title: 'Cost', stacked: true, format: cost },
  { value: 'tokens', title: 'Tokens', stacked: true, format: (value) => count(value) },
  { value: 'latency', title: 'Latency', stacked: false, format: duration },
  { value: 'errors', title: 'Errors', stacked: true, format: (value) => count(value) },
];

export interface Choice {
  range: Range;
  by: By;
  metric: Metric;
}

export function readChoice(query: URLSearchParams): Choice {
  return {
    range: RANGES.find(({ value }) => value === query.get('range')) ?? RANGES[1],
    by: GROUPINGS.find(({ value }) => value === query.get('by'))?.value ?? 'model',
    metric: METRICS.find(({ value }) => value === query.get('show')) ?? (METRICS[0] as Metric),
  };
}

/** The query of a link, with only what differs from the default view. */
export function writeChoice({ range, by, metric }: Choice): Record<string, string> {
  return {
    ...(range.value !== '7d' && { range: range.value }),
    ...(by !== 'model' && { by }),
    ...(metric.value !== 'calls' && { show: metric.value }),
  };
}

export function errorsOf(sum: { errors: Record<string, number> }): number {
  return Object.values(sum.errors).reduce((total, number) => total + number, 0);
}

/** The cost: `?` if no price is known, `$0.01+` for at least that much. */
export function costOf(sum: Sum): string {
  if (!sum.calls_without_price) return cost(sum.cost_usd);
  return sum.cost_usd === 0 ? '?' : `${cost(sum.cost_usd)}+`;
}

/** Tokens as `counsel usage` counts them: `?` if no call reported them, `+` if some did not. */
export function tokensOf(sum: Sum, way: 'input_tokens' | 'output_tokens' | 'all', brief = false): string {
  const answered = sum.calls - errorsOf(sum);
  const known = answered - sum.calls_without_usage;
  if (known <= 0) return answered ? '?' : '0';
  const tokens = way === 'all' ? sum.input_tokens + sum.output_tokens : sum[way];
  return `${brief ? count(tokens) : tokens.toLocaleString('en')}${known < answered ? '+' : ''}`;
}

/** A display name: a folder's last two parts, and words for an empty name. */
export function nameOf(by: string, name: string | null): string {
  if (name === null) return 'All others';
  if (name === '') return 'Not known';
  if (by !== 'project') return name;
  return name.split('/').filter(Boolean).slice(-2).join('/') || name;
}

/** The sums of the previous period: those of both periods minus this one's. Medians cannot be subtracted. */
export function periodBefore(both: Sum, now: Sum): { calls: number; errors: number; tokens: number; cost: number | null } {
  const unpriced = both.calls_without_price > 0;
  return {
    calls: Math.max(0, both.calls - now.calls),
    errors: Math.max(0, errorsOf(both) - errorsOf(now)),
    tokens: Math.max(0, both.input_tokens + both.output_tokens - now.input_tokens - now.output_tokens),
    cost: unpriced ? null : Math.max(0, both.cost_usd - now.cost_usd),
  };
}

/** `12% more than in the 7 days before` */
export function comparison(now: number, earlier: number, range: Range): string {
  const period = `in the ${range.title} before`;
  if (earlier === 0) return now === 0 ? `none ${period} either` : `none ${period}`;
  const percent = Math.round((100 * (now - earlier)) / earlier);
  if (percent === 0) return `as many as ${period}`;
  if (percent >= 1000) return `${Math.round(now / earlier)} times as many as ${period}`;
  return `${Math.abs(percent)}% ${percent > 0 ? 'more' : 'less'} than ${period}`;
}

export interface Line {
  name: string;
  values: (number | null)[];
  total: number | null; // of the whole period; null for values that cannot be added
}
export interface Chart {
  times: number[]; // the middle of each part, in seconds since 1970
  step: number;
  lines: Line[];
}

export const MOST_LINES = 6;

/** A chart of the largest groups, with all others as one line if values can be added. */
export function chartOf(series: Series, metric: Metric): Chart {
  const parts = Math.max(1, Math.round((series.until - series.since) / series.step));
  const times = Array.from({ length: parts }, (_, index) => series.since + (index + 0.5) * series.step);
  const lines = series.groups.map((group) => line(nameOf(series.by, group.name), valuesOf(group, metric.value), metric.stacked));
  if (metric.stacked) lines.sort((a, b) => (b.total ?? 0) - (a.total ?? 0));
  const visible = lines.filter(({ total, values }) => (metric.stacked ? total : values.some((value) => value !== null)));
  if (visible.length <= MOST_LINES + 1) return { times, step: series.step, lines: visible };
  const rest = visible.slice(MOST_LINES);
  const top = visible.slice(0, MOST_LINES);
  if (!metric.stacked) return { times, step: series.step, lines: top };
  const sums = times.map((_, index) => rest.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  return { times, step: series.step, lines: [...top, line(`${rest.length} others`, sums, true)] };
}

function line(name: string, values: (number | null)[], summed: boolean): Line {
  return { name, values, total: summed ? values.reduce<number>((sum, value) => sum + (value ?? 0), 0) : null };
}

function valuesOf(group: Schema['UsageSeriesGroup'], metric: MetricName): (number | null)[] {
  switch (metric) {
    case 'calls': return group.calls;
    case 'errors': return group.errors;
    case 'cost': return group.cost_usd;
    case 'latency': return group.latency_ms;
    case 'tokens': return group.input_tokens.map((number, index) => number + (group.output_tokens[index] ?? 0));
  }
}

/** Cumulated values for stacked bars: the last line is drawn first and reaches the top. */
export function stacked(lines: Line[]): number[][] {
  const sums: number[][] = [];
  lines.forEach(({ values }, index) => sums.push(values.map((value, part) => (value ?? 0) + (sums[index - 1]?.[part] ?? 0))));
  return sums;
}
