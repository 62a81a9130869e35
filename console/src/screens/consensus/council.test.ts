import { beforeEach, describe, expect, it } from 'vitest';
import type { Schema } from '../../lib/api';
import { latest, LiveJob, type JobEvent } from '../../lib/job.svelte';
import { Council, hasAnswer } from './council.svelte';

const MODELS = ['gpt-latest', 'opus-latest', 'gpt-latest'];
let seq = 0;

function event(kind: string, slot: string, data: Record<string, unknown>): JobEvent {
  seq += 1;
  return { seq, at: 1000 + seq, kind, slot, data };
}

function begun(detail: Partial<Schema['Job']> = {}): { council: Council; job: LiveJob } {
  const council = new Council('job_1');
  const job = new LiveJob('job_1');
  council.detail = {
    id: 'consensus_1', job_id: 'job_1', status: 'processing', tool: 'consensus', models: MODELS, progress: { completed: 0, total: 3, percentage: 0 },
    elapsed_seconds: 1, started_at: '2026-11-16T09:00:00Z', status_line: '',
    question: { prompt: 'Which?', models: MODELS, files: [], images: 0, enable_cross_feedback: true, use_websearch: false }, ...detail,
  };
  council.job = job;
  job.apply(event('started', '', { tool: 'consensus', models: MODELS, continuation_id: 'consensus_1' }));
  return { council, job };
}

function say(job: LiveJob, slot: string, phase: string, text: string): void {
  job.apply(event('model_started', slot, { model: MODELS[Number(slot)], phase }));
  job.apply(event('text', slot, { text, offset: 0, phase }));
}

beforeEach(() => {
  seq = 0;
  localStorage.clear();
});

describe('a consensus', () => {
  it('shows failures first, and counts whole answers only', () => {
    const { council, job } = begun();
    say(job, '0', 'initial', 'One');
    say(job, '1', 'initial', 'Two');
    expect(council.columns.map(({ name, state }) => [name, state])).toEqual([['gpt-latest', 'writing'], ['opus-latest', 'writing'], ['gpt-latest#2', 'waiting']]);
    expect(council.answered).toBe(0);
    job.apply(event('model_finished', '0', { model: 'gpt-latest', phase: 'initial', provider: 'openai', ms: 5, length: 3 }));
    job.apply(event('model_failed', '2', { model: 'gpt-latest#2', phase: 'initial', error: { error: 'No.', code: 'TIMEOUT' } }));
    job.apply(event('model_failed', '1', { model: 'opus-latest', phase: 'initial', error: { error: 'Stopped.', code: 'CANCELLED' } }));
    expect(council.columns.map(({ name, state }) => [name, state])).toEqual([['gpt-latest#2', 'failed'], ['opus-latest', 'stopped'], ['gpt-latest', 'done']]);
    expect(council.answered).toBe(1);
  });

  it('keeps the first answer of a model that cannot refine it', () => {
    const { council, job } = begun();
    say(job, '0', 'initial', 'One');
    job.apply(event('model_started', '0', { model: 'gpt-latest', phase: 'refined' }));
    job.apply(event('model_failed', '0', { model: 'gpt-latest', phase: 'refined', error: { error: 'No.', code: 'TIMEOUT' } }));
    job.apply(event('model_failed', '1', { model: 'opus-latest', phase: 'initial', error: { error: 'No.', code: 'TIMEOUT' } }));
    expect(council.columns.map((column) => [column.name, column.state, hasAnswer(column)])).toEqual([['gpt-latest', 'failed', true], ['opus-latest', 'failed', false], ['gpt-latest#2', 'waiting', false]]);
    expect(latest(job.member('0'))?.value).toBe('One');
    expect(latest(job.member('1'))).toBeUndefined();
  });

  it('keeps the first answers when the server restarts in the second round', () => {
    const { council, job } = begun();
    say(job, '0', 'initial', 'First words');
    say(job, '0', 'refined', 'Refi');
    expect([council.columns[0]?.first.text, council.columns[0]?.refined?.text]).toEqual(['First words', 'Refi']);
    job.apply(event('model_started', '0', { model: 'gpt-latest', phase: 'initial' }));
    job.apply(event('model_finished', '0', { model: 'gpt-latest', phase: 'initial', provider: 'openai', ms: 5, length: 3 }));
    job.apply(event('model_started', '0', { model: 'gpt-latest', phase: 'refined' }));
    expect(council.needsReading).not.toBe('');
    council.detail = { ...(council.detail as Schema['Job']), models_status: [{ slot: '0', model: 'gpt-latest', status: 'processing', phase: 'refined', text: '', initial_response: 'First words' }] };
    expect(council.needsReading).toBe('');
    expect(council.columns[0]?.first.text).toBe('First words');
  });

  it('reads the result when it has ended', () => {
    const { council, job } = begun();
    expect(council.needsReading).toBe('');
    job.apply(event('done', '', { status: 'completed' }));
    expect([council.running, council.needsReading]).toEqual([false, 'ended done']);
  });

  it('has the second of three answers', () => {
    const { council } = begun({ status: 'completed' });
    const answer = (response: string): unknown => ({ model: 'opus-latest', response, changed: false });
    const phases = { initial: [], refined: [], failed: [], rounds: [{ round: 2, answers: [answer('In between')] }] };
    council.detail = { ...(council.detail as Schema['Job']), result: { phases, metadata: {} } as unknown as Schema['Consensus'] };
    expect(council.columns.map(({ middle }) => middle)).toEqual(['', 'In between', '']);
  });

  it('hides names and reasons while it is read blind, also after a reload', () => {
    const { council, job } = begun();
    say(job, '0', 'initial', 'I am gpt-latest. ');
    job.apply(event('model_failed', '1', { model: 'opus-latest', phase: 'initial', error: { error: 'Anthropic refused the key.', code: 'AUTHENTICATION_FAILED' } }));
    council.setBlind(true);
    const shown = JSON.stringify(council.columns);
    expect(shown).not.toMatch(/gpt|opus|Anthropic/i);
    expect(shown).toContain('AUTHENTICATION_FAILED');
    expect(council.columns.map(({ name }) => name).sort()).toEqual(['Model A', 'Model B', 'Model C']);
    council.setBlind(false);
    expect(council.columns.map(({ name }) => name)).toContain('opus-latest');
    expect(localStorage.getItem('counsel.consensus.revealed.job_1')).toBe('1');
  });
});
