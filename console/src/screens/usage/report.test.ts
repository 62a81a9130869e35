import { describe, expect, it } from 'vitest';
import { periodBefore, chartOf, comparison, costOf, METRICS, nameOf, RANGES, readChoice, stacked, titleOf, tokensOf, writeChoice, type Budget, type Metric, type Series, type Sum } from './report';

const WEEK = RANGES[1];
const metric = (name: string): Metric => METRICS.find(({ value }) => value === name) as Metric;

function sum(more: Partial<Sum> = {}): Sum {
  return {
    calls: 10, errors: {}, error_rate: 0, input_tokens: 100, output_tokens: 50, reasoning_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0,
    cost_usd: 1.5, calls_without_price: 0, calls_without_usage: 0, response_ms: { p50: 1, p95: 2, max: 3 }, peak_concurrency: 1, ...more,
  };
}

function series(names: string[], values: number[] = [1, 2]): Series {
  const group = (name: string, index: number) => ({
    name, calls: values.map((value) => value * (names.length - index)), errors: values.map(() => 0), cost_usd: values, input_tokens: values, output_tokens: values, latency_ms: [null, 5],
  });
  return { since: 0, until: 20, step: 10, by: 'model', groups: names.map(group) };
}

describe('what is shown', () => {
  it('is in the link, without what is usual', () => {
    const choice = readChoice(new URLSearchParams('range=30d&by=client&show=cost'));
    expect([choice.range.value, choice.by, choice.metric.value]).toEqual(['30d', 'client', 'cost']);
    expect(writeChoice(choice)).toEqual({ range: '30d', by: 'client', show: 'cost' });
    expect(writeChoice(readChoice(new URLSearchParams('range=1y&by=day')))).toEqual({});
  });
});

describe('a sum', () => {
  it('says what is not known', () => {
    expect(costOf(sum())).toBe('$1.50');
    expect(costOf(sum({ calls_without_price: 3 }))).toBe('$1.50+');
    expect(costOf(sum({ cost_usd: 0, calls_without_price: 3 }))).toBe('?');
    expect(costOf(sum({ cost_usd: 0 }))).toBe('$0');
    expect(tokensOf(sum({ input_tokens: 12345 }), 'input_tokens')).toBe('12,345');
    expect(tokensOf(sum({ input_tokens: 12345 }), 'all', true)).toBe('12.4K');
    expect(tokensOf(sum({ calls_without_usage: 2 }), 'output_tokens')).toBe('50+');
    expect(tokensOf(sum({ calls_without_usage: 10 }), 'output_tokens')).toBe('?');
    expect(tokensOf(sum({ errors: { AUTH: 10 } }), 'output_tokens')).toBe('0');
  });

  it('is compared with the period before, where that can be known', () => {
    const earlier = periodBefore(sum({ calls: 18, errors: { AUTH: 2 }, input_tokens: 300, cost_usd: 2 }), sum());
    expect(earlier).toEqual({ calls: 8, errors: 2, tokens: 200, cost: 0.5 });
    expect(periodBefore(sum({ calls_without_price: 1 }), sum()).cost).toBeNull();
    expect(comparison(10, 8, WEEK)).toBe('25% more than in the 7 days before');
    expect(comparison(5, 10, WEEK)).toBe('50% less than in the 7 days before');
    expect(comparison(5, 0, WEEK)).toBe('none in the 7 days before');
    expect(comparison(0, 0, WEEK)).toBe('none in the 7 days before either');
    expect(comparison(8, 8, WEEK)).toBe('as many as in the 7 days before');
    expect(comparison(800, 8, WEEK)).toBe('100 times as many as in the 7 days before');
  });
});

describe('a name', () => {
  it.each([['project', '/srv/shop/engine', 'shop/engine'], ['project', '', 'Not known'], ['project', '/', '/'], ['model', 'a/b/c', 'a/b/c'], ['model', null, 'All others']])('of %s %s', (by, name, shown) => {
    expect(nameOf(by, name)).toBe(shown);
  });
});

describe('a chart', () => {
  it('has the largest groups and all others together, and nothing is lost', () => {
    const names = Array.from({ length: 10 }, (_, index) => `m${index}`);
    const chart = chartOf(series(names), metric('calls'));
    expect(chart.lines.map(({ name }) => name)).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm5', '4 others']);
    expect(chart.lines.reduce((total, line) => total + (line.total ?? 0), 0)).toBe(3 * 55);
    expect(chart.times).toEqual([5, 15]);
  });

  it('leaves out groups without a value, and sums no medians', () => {
    expect(chartOf(series(['a']), metric('errors')).lines).toEqual([]);
    expect(chartOf(series(['a']), metric('latency')).lines).toEqual([{ name: 'a', values: [null, 5], total: null }]);
    expect(chartOf(series(['a']), metric('tokens')).lines[0]?.values).toEqual([2, 4]);
  });

  it('puts bars on top of each other', () => {
    const { lines } = chartOf(series(['a', 'b']), metric('calls'));
    expect(stacked(lines)).toEqual([[2, 4], [3, 6]]);
  });
});

it('a budget is named by its period and provider', () => {
  const budget: Budget = { budget: 'day', period: 'day', provider: null, limit_usd: 5, spent_usd: 1, reserved_usd: 0, left_usd: 4, since: '', until: '' };
  expect(titleOf(budget)).toBe('Today');
  expect(titleOf({ ...budget, period: 'month', provider: 'openai' })).toBe('This month, openai');
});
