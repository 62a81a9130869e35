import { describe, expect, it } from 'vitest';
import { command } from './command';
import { DEFAULTS, membersBody, problemOf, termsBody, termsOf, type Terms } from './request';

const RICH: Terms = {
  refine: 'disagreement', rounds: 3, order: 'sequential', judge: 'auto', choices: 'Monolith\n\n Services \n', most: '0.5',
  parts: { a: { role: 'security reviewer', stance: '' }, 'a#2': { role: '', stance: 'against' } },
};

describe('the terms of a consensus', () => {
  it('are sent only where they differ from the defaults', () => {
    expect(termsBody(DEFAULTS)).toEqual({ enable_cross_feedback: true });
    expect(termsBody({ ...DEFAULTS, refine: 'never', rounds: 3 })).toEqual({ enable_cross_feedback: false });
    expect(termsBody(RICH)).toEqual({ enable_cross_feedback: true, refine: 'disagreement', rounds: 3, order: 'sequential', judge: 'auto', choices: ['Monolith', 'Services'], max_cost_usd: 0.5 });
  });

  it('give members their parts', () => {
    expect(membersBody(['a', 'b', 'a'], ['a', 'b', 'a#2'], RICH.parts)).toEqual([{ model: 'a', role: 'security reviewer' }, 'b', { model: 'a', stance: 'against' }]);
  });

  it('are those of the command', () => {
    expect(command({ prompt: 'Which?', models: ['a', 'a'], terms: RICH })).toBe(
      "counsel consensus -m a,a --role 'a=security reviewer' --stance 'a#2=against' --judge auto --choice Monolith --choice Services --refine disagreement --rounds 3 --order sequential --max-cost 0.5 'Which?'",
    );
  });

  it('come back from an earlier question', () => {
    const asked = { prompt: 'Which?', models: ['a', 'a'], files: [], images: 0, enable_cross_feedback: true, use_websearch: false };
    expect(termsOf(asked, ['a', 'a#2'])).toEqual({ ...DEFAULTS });
    const rich = { ...asked, members: [{ model: 'a', role: 'security reviewer' }, { model: 'a', stance: 'against' }], judge: 'auto', choices: ['Monolith', 'Services'], refine: 'disagreement', rounds: 3, order: 'sequential' };
    expect(termsOf(rich, ['a', 'a#2'])).toEqual({ ...RICH, choices: 'Monolith\nServices', most: '', parts: { a: { role: 'security reviewer', stance: '' }, 'a#2': { role: '', stance: 'against' } } });
  });

  it.each([
    [{ choices: 'one' }, 'at least two'],
    [{ choices: 'one\nOne' }, 'the same'],
    [{ choices: Array.from({ length: 21 }, (_, index) => `c${index}`).join('\n') }, 'at most 20'],
    [{ refine: 'disagreement' as const }, 'judge'],
    [{ most: 'much' }, 'amount'],
    [{ most: '-1' }, 'amount'],
  ])('are refused before anything is sent: %j', (change, words) => {
    expect(problemOf({ ...DEFAULTS, ...change })).toContain(words);
  });
});
