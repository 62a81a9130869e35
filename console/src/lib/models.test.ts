import { describe, expect, it } from 'vitest';
import { matching, options, price, type Agent, type Model } from './models';

function model(id: string, more: Partial<Model> = {}): Model {
  return {
    id, provider: 'openai', wire_id: id, label: '', aliases: [], superseded_by: null, available: true, reason: '', context: 400_000, output: 1, price_per_million: { input: 1.25, output: 10 },
    vision: true, web_search: true, tools: true, verbosity: false, media_resolution: false, temperature: null, efforts: { low: 'low' }, listed: true, ...more,
  };
}
const agent: Agent = { agent: 'codex', label: 'Codex', installed: true, path: null, version: null, logged_in: true, usable: true, reason: null, install: '', login: '', config_files: [], servers: 0, skills: 0 };

describe('what can be asked', () => {
  const all = options(
    [model('grok-4', { available: false, reason: 'Set XAI_API_KEY.' }), model('gpt-5', { superseded_by: 'gpt-6' }), model('gpt-6', { aliases: ['gpt-latest'] }), model('hidden', { listed: false })],
    [agent, { ...agent, agent: 'gemini', usable: false, reason: 'not installed' }],
  );

  it('is auto, models, agents, older models, then what is not available', () => {
    expect(all.map(({ value }) => value)).toEqual(['auto', 'gpt-6', 'codex', 'gpt-5', 'grok-4', 'gemini']);
    expect(all.map(({ reason }) => reason)).toEqual([null, null, null, null, 'Set XAI_API_KEY.', 'not installed']);
  });
  it('has price and window, and says when a price is unknown', () => {
    expect(all[1]?.detail).toBe('$1.25 / $10 per 1M · 400K window');
    expect(price(model('x', { price_per_million: null }))).toBe('price unknown');
    expect(price(model('x', { price_per_million: { input: 0, output: 0 } }))).toBe('free');
    expect(price(model('x', { price_per_million: { input: 0.079, output: 100 } }))).toBe('$0.079 / $100 per 1M');
  });
  it('is found by the words of its name, vendor or alias', () => {
    expect(matching(all, 'latest').map(({ value }) => value)).toEqual(['gpt-6']);
    expect(matching(all, 'GPT 5').map(({ value }) => value)).toEqual(['gpt-5']);
    expect(matching(all, 'gpt').map(({ value }) => value)).toEqual(['gpt-6', 'gpt-5']);
    expect(matching(all, 'gpt-5').map(({ value }) => value)[0]).toBe('gpt-5');
    expect(matching(all, 'nothing at all')).toEqual([]);
    expect(matching(all, ' ')).toBe(all);
  });
  it('has no usable auto without any model', () => {
    expect(options([model('grok-4', { available: false })], [])[0]?.reason).toBe('No model is available yet.');
  });
});
