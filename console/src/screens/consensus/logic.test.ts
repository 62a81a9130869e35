import { describe, expect, it } from 'vitest';
import { families, letter, masker, shuffled } from './blind';
import { asMarkdown, command, labels } from './command';
import { DEFAULTS } from './request';
import { differences, shareOfDifferentWords, verdict } from './difference';

describe('the measure of a change of mind', () => {
  it('is the share of words that only one answer has', () => {
    expect(shareOfDifferentWords('', '')).toBe(0);
    expect(shareOfDifferentWords('a monolith', 'A monolith.')).toBe(0);
    expect(shareOfDifferentWords('use a monolith', 'use a service')).toBeCloseTo(1 / 3);
    expect(shareOfDifferentWords('yes', 'no')).toBe(1);
    expect(shareOfDifferentWords('so so so', 'so')).toBeCloseTo(0.5);
  });

  it('does not depend on the order of words, and takes any length', () => {
    const long = Array.from({ length: 200_000 }, (_, index) => `w${index % 5000}`).join(' ');
    expect(shareOfDifferentWords(long, `${long} more`)).toBeLessThan(0.001);
    expect(shareOfDifferentWords('first second', 'second first')).toBe(0);
  });

  it('names its rule', () => {
    expect(verdict('Use a monolith.', 'Use a monolith, then split it.')).toMatchObject({ changed: false, text: 'kept its answer' });
    const other = verdict('Use a monolith.', 'Services are better here.');
    expect(other).toMatchObject({ changed: true, text: 'changed its mind' });
    expect(other.reason).toContain('100% of the words');
    expect(other.reason).toContain('not meaning');
  });
});

describe('differences', () => {
  it('are words', async () => {
    const found = await differences('Use a monolith now.', 'Use two services now.');
    expect(found?.by).toBe('words');
    expect(found?.parts.filter(({ kind }) => kind !== 'added').map(({ text }) => text).join('')).toBe('Use a monolith now.');
    expect(found?.parts.filter(({ kind }) => kind !== 'removed').map(({ text }) => text).join('')).toBe('Use two services now.');
  });

  it('of long texts are lines, of huge ones none', async () => {
    const long = Array.from({ length: 3000 }, (_, index) => `line ${index}`).join('\n');
    expect((await differences(long, `${long}\nmore`))?.by).toBe('lines');
    expect(await differences('x'.repeat(300_000), 'y'.repeat(300_000))).toBeNull();
  });
});

describe('blind reading', () => {
  it('shuffles by the job, the same each time', () => {
    expect(shuffled(5, 'job_1')).toEqual(shuffled(5, 'job_1'));
    expect([...shuffled(20, 'job_2')].sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, index) => index));
    const orders = new Set(Array.from({ length: 50 }, (_, index) => shuffled(3, `job_${index}`).join('')));
    expect(orders.size).toBe(6);
  });

  it('names by letters', () => {
    expect([0, 1, 25, 26, 27].map(letter)).toEqual(['A', 'B', 'Z', 'AA', 'AB']);
  });

  it('hides names, ids, vendors and families, but not words that contain them', () => {
    const hide = masker(
      [
        { names: ['gpt-latest', 'gpt-6.1-sol'], label: 'Model B' },
        { names: ['opus-latest', 'claude-opus-5-5'], label: 'Model A' },
      ],
      ['openai', 'anthropic', ...families(['gpt-6.1-sol', 'claude-opus-5-5'])],
    );
    expect(hide('gpt-6.1-sol says: as Opus-Latest wrote, Claude and OpenAI …')).toBe('Model B says: as Model A wrote, ▒▒▒ and ▒▒▒ …');
    expect(hide('a solution of Egpts, latest and best')).toBe('a solution of Egpts, latest and best');
  });

  it('hides the same, however a text grows', () => {
    const hide = masker([{ names: ['gpt-5'], label: 'Model A' }], []);
    const whole = Array.from({ length: 60 }, (_, index) => `${index}: gpt-5 says so, and gpt-50 does not.`).join('\n');
    for (let end = 1; end <= whole.length; end += 7) expect(hide(whole.slice(0, end), true)).not.toMatch(/gpt-5\b(?!0)/);
    expect(hide(whole)).toBe(whole.replaceAll(/gpt-5\b(?!0)/g, 'Model A'));
    const other = whole.replace('59: gpt-5', '59: neither');
    expect(hide(other)).toBe(other.replaceAll(/gpt-5\b(?!0)/g, 'Model A'));
  });

  it('holds back the beginning of a name while text grows', () => {
    const hide = masker([{ names: ['gpt-5'], label: 'Model A' }], []);
    expect(hide('I am gp', true)).toBe('I am ');
    expect(hide('I am gp')).toBe('I am gp');
    expect(hide('I am gpt-5', true)).toBe('I am ');
    expect(hide('I am gpt-5.', true)).toBe('I am Model A.');
  });
});

describe('the command', () => {
  it('says what the page asks', () => {
    expect(command({ prompt: "What's best?", models: ['a', 'b'] })).toBe(`counsel consensus -m a,b 'What'\\''s best?'`);
    expect(command({ prompt: 'x', models: ['auto'], terms: { ...DEFAULTS, refine: 'never' }, effort: 'low', web: true, files: ['a b.md'] })).toBe(`counsel consensus --no-feedback --effort low --web -f 'a b.md' x`);
  });

  it('numbers models of the same name', () => {
    expect(labels(['a', 'b', 'a', 'a'])).toEqual(['a', 'b', 'a#2', 'a#3']);
  });

  it('copies all answers as Markdown', () => {
    const text = asMarkdown('Which?', [
      { name: 'b', first: '', refined: null, error: { error: 'No key.', code: 'KEY' }, mark: null },
      { name: 'a', first: 'one', refined: 'two', error: null, mark: 'changed its mind' },
    ]);
    expect(text).toBe('# Which?\n\n## b\n\n> Failed: No key. (KEY)\n\n## a\n\n*Refined answer: changed its mind*\n\ntwo\n\n### First answer\n\none\n');
  });
});
