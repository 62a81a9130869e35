import { describe, expect, it } from 'vitest';
import { JobList, matches, readFilters, writeFilters, type Filters, type Summary } from './list.svelte';

const NONE: Filters = { status: '', tool: '', model: '', q: '' };

function job(number: number, more: Partial<Summary> = {}): Summary {
  return {
    id: `conv_${number}`, job_id: `job_${number}`, status: 'completed', tool: 'chat', models: ['gpt-5'], elapsed_seconds: 1,
    progress: { completed: 1, total: 1, percentage: 100 }, started_at: `2026-01-01T00:00:${String(number).padStart(2, '0')}.000Z`, title: `question ${number}`, ...more,
  };
}

async function listed(jobs: Summary[], next: string | null = null, filters: Filters = NONE): Promise<JobList> {
  const list = new JobList(() => Promise.resolve({ jobs, next }));
  await list.load(filters);
  return list;
}

const ids = (list: JobList): string[] => list.rows.map(({ job_id }) => job_id);

describe('filters', () => {
  it('are the same after a reload', () => {
    const filters: Filters = { status: 'failed', tool: 'consensus', model: 'gpt-5', q: 'is it safe' };
    expect(readFilters(new URLSearchParams(writeFilters(filters)))).toEqual(filters);
    expect(writeFilters(NONE)).toEqual({});
  });

  it('of a link that someone edited are ignored if they mean nothing', () => {
    expect(readFilters(new URLSearchParams('status=nonsense&tool=x'))).toEqual(NONE);
  });

  it('find a job as the server does: all words, in title, models and ids', () => {
    const summary = job(1, { models: ['gpt-5', 'o3'], title: 'Ducks and geese' });
    expect(matches(summary, { ...NONE, q: 'GEESE o3' })).toBe(true);
    expect(matches(summary, { ...NONE, q: 'geese swans' })).toBe(false);
    expect(matches(summary, { ...NONE, model: 'o3' })).toBe(true);
    expect(matches(summary, { ...NONE, model: 'o' })).toBe(false);
    expect(matches(summary, { ...NONE, status: 'failed' })).toBe(false);
    expect(matches(summary, { ...NONE, tool: 'consensus' })).toBe(false);
  });
});

describe('the list of jobs', () => {
  it('gets a new job at its place and a changed one where it is', async () => {
    const list = await listed([job(3), job(1)]);
    list.merge([job(4), job(2), job(1, { status: 'failed' })]);
    expect(ids(list)).toEqual(['job_4', 'job_3', 'job_2', 'job_1']);
    expect(list.rows[3]?.status).toBe('failed');
  });

  it('leaves out what the filters leave out, and drops what no longer matches', async () => {
    const list = await listed([job(1, { status: 'processing' })], null, { ...NONE, status: 'processing' });
    list.merge([job(2)]);
    expect(ids(list)).toEqual(['job_1']);
    list.merge([job(1)]);
    expect(ids(list)).toEqual([]);
  });

  it('has no job twice when it came by the stream before its page', async () => {
    const pages = [{ jobs: [job(9)], next: 'c' }, { jobs: [job(8), job(7)], next: null }];
    const list = new JobList(() => Promise.resolve(pages.shift() ?? { jobs: [], next: null }));
    await list.load(NONE);
    list.merge([job(8), job(10)]);
    expect(ids(list)).toEqual(['job_10', 'job_9']); // job_8 is on a later page
    await list.more();
    expect(ids(list)).toEqual(['job_10', 'job_9', 'job_8', 'job_7']);
    await list.more();
    expect(list.rows).toHaveLength(4);
  });

  it('keeps the focus on its job while others come and go', async () => {
    const list = await listed([job(3), job(2), job(1)]);
    list.active = 1;
    list.merge([job(4)]);
    expect(list.rows[list.active]?.job_id).toBe('job_2');
    list.remove('job_4');
    expect(list.rows[list.active]?.job_id).toBe('job_2');
    list.remove('job_2');
    list.remove('job_1');
    expect(list.active).toBe(0);
  });

  it('ignores the answer to filters that are no longer set', async () => {
    const answers: ((page: { jobs: Summary[]; next: null }) => void)[] = [];
    const list = new JobList(() => new Promise((resolve) => answers.push(resolve)));
    const first = list.load({ ...NONE, q: 'a' });
    const second = list.load({ ...NONE, q: 'ab' });
    answers[1]?.({ jobs: [job(2)], next: null });
    await second;
    answers[0]?.({ jobs: [job(1)], next: null });
    await first;
    expect(ids(list)).toEqual(['job_2']);
  });

  it('does not lose a job that came while the page was on its way', async () => {
    let answer: (page: { jobs: Summary[]; next: null }) => void = () => undefined;
    const list = new JobList(() => new Promise((resolve) => (answer = resolve)));
    const loaded = list.load(NONE);
    list.merge([job(2)]);
    answer({ jobs: [job(1)], next: null });
    await loaded;
    expect(ids(list)).toEqual(['job_2', 'job_1']);
  });

  it('keeps what it has when reading it again fails, and says so', async () => {
    let fail = false;
    const list = new JobList(() => (fail ? Promise.reject(new Error('away')) : Promise.resolve({ jobs: [job(1)], next: null })));
    await list.load(NONE);
    fail = true;
    await list.refresh();
    expect(ids(list)).toEqual(['job_1']);
    expect(list.error).toBeInstanceOf(Error);
  });
});
