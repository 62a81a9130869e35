import { describe, expect, it } from 'vitest';
import { ago, bytes, cost, count, duration, plural, shell, took } from './format';
import { link, parse } from './router.svelte';
import { keyOf } from './session.svelte';

describe('what people read', () => {
  it.each([[null, '?'], [0, '$0'], [0.00001, '<$0.0001'], [0.0042, '$0.0042'], [0.123, '$0.123'], [12.5, '$12.50'], [0.009999, '$0.010'], [0.9999, '$1.00']])('a cost of %s is %s', (usd, text) => {
    expect(cost(usd)).toBe(text);
  });
  it.each([[950, '950'], [12_345, '12.3K'], [2_500_000, '2.5M'], [99_970, '100K'], [999_700, '1.0M']])('%s tokens are %s', (number, text) => {
    expect(count(number)).toBe(text);
  });
  it.each([[320, '320 ms'], [4200, '4.2 s'], [61_000, '1 min 1 s'], [3_700_000, '1 h 1 min'], [999.6, '1.0 s'], [9_960, '10 s'], [59_700, '1 min 0 s'], [119_700, '2 min 0 s'], [3_599_700, '1 h 0 min']])('%s ms are %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });
  it.each([[0, '<0.1 s'], [0.1, '100 ms'], [4.2, '4.2 s']])('a job of %s s took %s', (seconds, text) => {
    expect(took(seconds)).toBe(text);
  });
  it('times are relative while they are near', () => {
    expect(ago(1_000_000, 1_030_000)).toBe('30 s ago');
    expect(ago(1_000_000, 1_000_000 + 3 * 3600_000)).toBe('3 h ago');
    expect(ago(1_000_000, 1_000_000 + 3_590_000)).toBe('1 h ago');
    expect(ago(1_000_000, 1_000_000 + 86_000_000)).toBe('1 d ago');
  });
  it('plurals and sizes are right', () => {
    expect([plural(1, 'job'), plural(2, 'job'), bytes(2048)]).toEqual(['1 job', '2 jobs', '2.0 KB']);
  });
  it('arguments of commands are quoted where that is needed', () => {
    expect([shell('gpt-5'), shell("it's"), shell('')]).toEqual(['gpt-5', `'it'\\''s'`, "''"]);
  });
});

describe('routes', () => {
  it('survive ids with any characters', () => {
    expect(parse(link('servers', 'a b/c?d#e%')).id).toBe('a b/c?d#e%');
  });
  it('that nobody knows lead to the first screen', () => {
    expect([parse('#/nothing').screen, parse('').screen, parse('#/jobs/%').id]).toEqual(['ask', 'ask', null]);
  });
});

describe('a pasted key', () => {
  it.each([['http://127.0.0.1:3157/login#abc', 'abc'], [' abc ', 'abc'], ['a#b', 'a#b']])('%s is %s', (pasted, key) => {
    expect(keyOf(pasted)).toBe(key);
  });
});
