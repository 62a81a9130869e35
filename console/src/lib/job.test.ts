import { describe, expect, it } from 'vitest';
import { GrowingText, LiveJob, type JobEvent } from './job.svelte';

function event(seq: number, kind: string, slot: string, data: Record<string, unknown>): JobEvent {
  return { seq, at: 1000 + seq, kind, slot, data };
}

describe('a growing text', () => {
  it('counts code points, as the server does', () => {
    const text = new GrowingText();
    text.put('a😀b', 0);
    text.put('c', 3);
    expect(text.value).toBe('a😀bc');
    text.put('X', 2);
    expect(text.value).toBe('a😀X');
  });

  it('says when text was discarded', () => {
    const text = new GrowingText();
    text.put('abc', 0);
    expect(text.generation).toBe(0);
    text.cut(1);
    expect([text.value, text.generation]).toEqual(['a', 1]);
  });
});

describe('a job', () => {
  it('has the text of each model, by phase', () => {
    const job = new LiveJob('j');
    job.apply(event(1, 'started', '', { tool: 'consensus', models: ['a', 'b'], continuation_id: 'c' }));
    job.apply(event(2, 'model_started', '0', { model: 'a', phase: 'initial' }));
    job.apply(event(3, 'text', '0', { text: 'Hello', offset: 0, phase: 'initial' }));
    job.apply(event(4, 'text', '0', { text: ' you', offset: 5, phase: 'initial' }));
    job.apply(event(5, 'model_failed', '1', { model: 'b', phase: 'initial', error: { error: 'no', code: 'TIMEOUT' } }));
    job.apply(event(6, 'model_started', '0', { model: 'a', phase: 'refined' }));
    job.apply(event(7, 'text', '0', { text: 'Better', offset: 0, phase: 'refined' }));
    expect(job.members.map((member) => [member.model, member.state])).toEqual([['a', 'running'], ['b', 'failed']]);
    expect(job.members[0]?.text('initial').value).toBe('Hello you');
    expect(job.members[0]?.text('refined').value).toBe('Better');
    expect(job.members[1]?.error?.code).toBe('TIMEOUT');
    job.apply(event(8, 'done', '', { status: 'completed' }));
    expect([job.ended, job.members[0]?.state]).toEqual([true, 'finished']);
  });

  it('discards what a restarted model had said', () => {
    const job = new LiveJob('j');
    job.apply(event(1, 'model_started', '0', { model: 'a', phase: 'answer' }));
    job.apply(event(2, 'text', '0', { text: 'wrong', offset: 0, phase: 'answer' }));
    job.apply(event(3, 'restarted', '0', { model: 'a', next: 'b', reason: 'failed', error: 'a failed', offset: 0, phase: 'answer' }));
    expect([job.members[0]?.text('answer').value, job.members[0]?.model]).toEqual(['', 'b']);
  });
});
