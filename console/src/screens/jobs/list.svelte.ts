// The list of jobs: loaded page by page, then kept up to date by the live stream.
import { api, type Query, type Schema } from '../../lib/api';
import type { JobState } from './states';

export type Summary = Schema['JobSummary'];
export interface Row extends Summary {
  began: number; // ms since 1970 by this browser's clock, so that a running clock agrees with the server
}
export interface Filters {
  status: JobState | '';
  tool: string;
  model: string;
  q: string;
}
type Fetch = (query: Query) => Promise<Schema['Jobs']>;

const PAGE = 100;
const LARGEST_PAGE = 1000;
const STATUSES = new Set<string>(['processing', 'completed', 'completed_with_errors', 'failed', 'cancelled']);
export const TOOLS = ['chat', 'consensus', 'review', 'askModel'];

export function readFilters(query: URLSearchParams): Filters {
  const status = query.get('status') ?? '';
  const tool = query.get('tool') ?? '';
  return {
    status: STATUSES.has(status) ? (status as JobState) : '',
    tool: TOOLS.includes(tool) ? tool : '',
    model: query.get('model') ?? '',
    q: query.get('q') ?? '',
  };
}

/** The query of a link, with only the filters that are set. */
export function writeFilters(filters: Filters): Record<string, string> {
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ''));
}

/** Whether the server would list the job: it compares the same fields. */
export function matches(job: Summary, filters: Filters): boolean {
  if (filters.status && job.status !== filters.status) return false;
  if (filters.tool && job.tool !== filters.tool) return false;
  if (filters.model && !job.models.includes(filters.model)) return false;
  const text = `${job.title ?? ''} ${job.summary ?? ''} ${job.job_id} ${job.id}${JSON.stringify(job.models)}`.toLowerCase();
  return filters.q.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function row(job: Summary, now: number): Row {
  return { ...job, began: now - job.elapsed_seconds * 1000 };
}

export class JobList {
  rows = $state.raw<Row[]>([]);
  next = $state<string | null>(null);
  state = $state<'new' | 'loading' | 'ready'>('new');
  loadingMore = $state(false);
  error = $state.raw<unknown>(null);
  filters: Filters = { status: '', tool: '', model: '', q: '' };
  models = $state.raw<string[]>([]); // of all jobs listed so far, with any filters
  active = $state(-1); // the row with the focus
  scroll = 0; // the scroll position when the list was left
  private readonly fetch: Fetch;
  private generation = 0; // of requests: responses to older ones are ignored
  private reading = false;
  private meanwhile: Summary[] = []; // changes that arrived while a page was being read

  constructor(fetch: Fetch = (query) => api.get('/api/jobs', query)) {
    this.fetch = fetch;
  }

  /** Loads the first page with these filters. */
  async load(filters: Filters): Promise<void> {
    const same = this.state !== 'new' && JSON.stringify(filters) === JSON.stringify(this.filters);
    if (same) return;
    this.filters = filters;
    this.active = -1;
    this.scroll = 0;
    this.state = 'loading';
    await this.read(PAGE);
  }

  /** Reads all listed jobs again: after a lost connection, any of them may have changed. */
  async refresh(): Promise<void> {
    if (this.state === 'new') return;
    await this.read(Math.min(LARGEST_PAGE, Math.max(PAGE, this.rows.length)));
  }

  private async read(limit: number): Promise<void> {
    this.generation += 1;
    const generation = this.generation;
    this.reading = true;
    this.meanwhile = [];
    try {
      const page = await this.fetch({ ...this.filters, limit });
      if (generation !== this.generation) return;
      this.rows = page.jobs.map((job) => row(job, Date.now()));
      this.noteModels(page.jobs);
      this.next = page.next;
      this.error = null;
    } catch (error) {
      if (generation !== this.generation) return;
      this.error = error;
    }
    this.reading = false;
    this.loadingMore = false;
    this.state = 'ready';
    this.merge(this.meanwhile);
  }

  async more(): Promise<void> {
    if (this.next === null || this.loadingMore || this.state !== 'ready') return;
    const generation = this.generation;
    this.loadingMore = true;
    try {
      const page = await this.fetch({ ...this.filters, limit: PAGE, cursor: this.next });
      if (generation !== this.generation) return;
      const known = new Set(this.rows.map(({ job_id }) => job_id));
      this.rows = [...this.rows, ...page.jobs.filter(({ job_id }) => !known.has(job_id)).map((job) => row(job, Date.now()))];
      this.noteModels(page.jobs);
      this.next = page.next;
      this.error = null;
    } catch (error) {
      if (generation === this.generation) this.error = error;
    }
    if (generation === this.generation) this.loadingMore = false;
  }

  /** Inserts new jobs and updates changed ones; jobs that no longer match leave the list. */
  merge(updates: Summary[]): void {
    if (this.state === 'new' || updates.length === 0) return;
    if (this.reading) this.meanwhile.push(...updates);
    this.noteModels(updates);
    const focusedJob = this.rows[this.active]?.job_id;
    const changes = new Map(updates.map((job) => [job.job_id, job]));
    const rows: Row[] = [];
    for (const known of this.rows) {
      const change = changes.get(known.job_id);
      changes.delete(known.job_id);
      if (!change) rows.push(known);
      else if (matches(change, this.filters)) rows.push(row(change, Date.now()));
    }
    const oldest = this.rows.at(-1)?.started_at ?? '';
    for (const job of [...changes.values()].reverse()) {
      const onLaterPage = this.next !== null && job.started_at < oldest;
      if (!onLaterPage && matches(job, this.filters)) insert(rows, row(job, Date.now()));
    }
    this.rows = rows;
    this.keepFocus(focusedJob);
  }

  remove(job: string): void {
    const focusedJob = this.rows[this.active]?.job_id;
    this.rows = this.rows.filter(({ job_id }) => job_id !== job);
    this.keepFocus(focusedJob);
  }

  private noteModels(jobs: Summary[]): void {
    const models = new Set([...this.models, ...jobs.flatMap((job) => job.models)]);
    if (models.size > this.models.length) this.models = [...models];
  }

  private keepFocus(job: string | undefined): void {
    if (job === undefined) return;
    const index = this.rows.findIndex(({ job_id }) => job_id === job);
    this.active = index >= 0 ? index : Math.min(this.active, this.rows.length - 1);
  }
}

/** Inserts a row, newest first. ISO times in UTC sort as text. */
function insert(rows: Row[], job: Row): void {
  const at = rows.findIndex(({ started_at }) => started_at <= job.started_at);
  if (at < 0) rows.push(job);
  else rows.splice(at, 0, job);
}
