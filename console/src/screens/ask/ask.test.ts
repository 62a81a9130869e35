import { describe, expect, it } from 'vitest';
import { imageProblem, LARGEST_IMAGE } from './attachments.svelte';
import { parseChoice } from './choice.svelte';
import { command } from './command';
import { remarksOf, sourcesOf, turnsOf, type Conversation, type Message } from './turns';

const about = (details: object): NonNullable<Message['metadata']> => details as NonNullable<Message['metadata']>;
const asking = { prompt: 'Is it needed?', model: 'auto', effort: '', web: false, conversation: null, files: [], images: [] };

describe('the command of a question', () => {
  it('has what differs from the defaults', () => {
    expect(command(asking)).toBe('counsel ask "Is it needed?"');
    expect(command({ ...asking, model: 'gpt-5', effort: 'high', web: true, conversation: 'conv_1', files: ['a b.txt'], images: ['p.png'] })).toBe(
      `counsel ask -m gpt-5 -c conv_1 --effort high --web -f 'a b.txt' -i p.png "Is it needed?"`,
    );
  });
  it('runs nothing that is in the question', () => {
    expect(command({ ...asking, prompt: "it's $(rm -rf ~) `x`" })).toBe(`counsel ask 'it'\\''s $(rm -rf ~) \`x\`'`);
  });
});

function conversation(more: Partial<Conversation>): Conversation {
  return { id: 'c', title: null, tool: 'chat', model: null, provider: null, messages: 0, project: '/', client: 'console', tag: null, created_at: '', updated_at: '', expires_in_days: 1, history: [], unfinished: [], running: [], ...more };
}

describe('turns of a conversation', () => {
  const job = { title: null, models: ['gpt-5'], image_ids: [], files: [] };
  it('are in the order of the questions, whatever became of them', () => {
    const turns = turnsOf(
      conversation({
        history: [
          { role: 'user', content: 'one', at: '2026-01-01T00:00:01Z', job_id: 'j1' },
          { role: 'assistant', content: 'first', at: '2026-01-01T00:00:02Z', job_id: 'j1', metadata: about({ model: 'gpt-5' }) },
          { role: 'user', content: 'three', at: '2026-01-01T00:00:05Z', job_id: 'j3' },
          { role: 'assistant', content: 'third', at: '2026-01-01T00:00:06Z', job_id: 'j3' },
        ],
        unfinished: [{ ...job, job_id: 'j2', status: 'failed', prompt: 'two', started_at: '2026-01-01T00:00:03Z', error: { error: 'no', code: 'TIMEOUT' } }],
        running: [{ ...job, job_id: 'j4', status: 'processing', prompt: 'four', started_at: '2026-01-01T00:00:07Z' }],
      }),
    );
    expect(turns.map(({ question, status }) => [question.text, status])).toEqual([['one', 'done'], ['two', 'failed'], ['three', 'done'], ['four', 'running']]);
    expect(turns[0]?.answers[0]?.text).toBe('first');
    expect(turns[1]?.error?.code).toBe('TIMEOUT');
  });
  it('tell a job once that ended while the page asked', () => {
    const turns = turnsOf(
      conversation({
        history: [{ role: 'user', content: 'one', at: '1', job_id: 'j1' }, { role: 'assistant', content: 'first', at: '2', job_id: 'j1' }],
        running: [{ ...job, job_id: 'j1', status: 'processing', prompt: 'one', started_at: '1' }],
      }),
    );
    expect(turns.map(({ status }) => status)).toEqual(['done']);
  });
  it('name files without images', () => {
    const [turn] = turnsOf(
      conversation({ history: [{ role: 'user', content: 'look', at: '1', image_ids: ['a b'], metadata: about({ sources: [{ name: '/home/u/.local/share/counsel/uploads/f5e7691322e1e3d8cd90cbdefa209b78/a.txt' }, { name: 'image 1 (data URL)' }] }) }] }),
    );
    expect(turn?.question.files).toEqual(['a.txt']);
    expect(turn?.question.images).toEqual(['/api/images/a%20b']);
  });
});

describe('beside an answer', () => {
  it('sources are named once and remarks are sentences', () => {
    const details = { notices: [{ kind: 'source', url: 'https://a.example' }, { kind: 'source', url: 'https://a.example' }, { kind: 'retry', text: 'Tried again.' }], finish_reason: 'length', passed_over: [{ model: 'gpt-5', code: 'TIMEOUT' }] };
    expect(sourcesOf(details)).toHaveLength(1);
    expect(remarksOf(details)).toEqual(['Tried again.', 'The answer was cut off at the maximum length. Ask it to continue.', 'gpt-5 failed (TIMEOUT), so another model answered.']);
  });
});

describe('what cannot be sent', () => {
  it('is said before it is sent', () => {
    const none = { count: 0, size: 0 };
    expect(imageProblem('image/png', 10, none)).toBeNull();
    expect(imageProblem('image/svg+xml', 10, none)).toBe('Models read PNG, JPEG, GIF and WebP, not svg+xml.');
    expect(imageProblem('image/png', LARGEST_IMAGE + 1, none)).toBe('10.0 MB: an image may have up to 10.0 MB.');
    expect(imageProblem('image/png', 10, { count: 20, size: 0 })).toContain('up to 20 images');
  });
});

describe('the last choice', () => {
  it.each([[null, 'auto'], ['{', 'auto'], ['{"model": 5, "effort": "loud"}', 'auto'], ['{"model": "gpt-5", "effort": "low"}', 'gpt-5']])('is read from %s', (text, model) => {
    expect(parseChoice(text).model).toBe(model);
    expect(['', 'low']).toContain(parseChoice(text).effort);
  });
});
