// The open conversation: its turns, and the answers that are being written.
import { untrack } from 'svelte';
import { api, ApiError, part, request, type Schema } from '../../lib/api';
import { blob, dataUrl } from '../../lib/blobs';
import type { LiveJob } from '../../lib/job.svelte';
import { follow } from '../../lib/live.svelte';
import { replace, router } from '../../lib/router.svelte';
import { shortName, turnsOf, type Answer, type Conversation, type Details, type Question, type StoredTurn } from './turns';

export interface Ask {
  prompt: string;
  model: string;
  effort: string;
  web: boolean;
  files: { name: string; path: string }[];
  images: string[]; // data URLs
}

export type TurnStatus = 'sending' | 'unsent' | 'running' | 'done' | 'failed' | 'cancelled';
const TRIES = 6; // of a request whose connection was lost; a question has a key, so it is asked once

export class Turn {
  readonly key: string; // of the list item
  readonly question: Question;
  job = $state<string | null>(null);
  status = $state<TurnStatus>('sending');
  answers = $state.raw<Answer[]>([]);
  error = $state.raw<unknown>(null);
  partial = $state.raw(''); // the text of an unfinished answer that was not seen live
  live = $state.raw<LiveJob | null>(null);
  private release: (() => void) | null = null;
  private settling = false;

  constructor(key: string, question: Question) {
    this.key = key;
    this.question = question;
  }

  get running(): boolean {
    return this.status === 'sending' || this.status === 'running';
  }

  get member() {
    return this.live?.members[0] ?? null;
  }

  /** The text to show for a job with one model. */
  get text(): string {
    return this.answers[0]?.text ?? this.member?.texts.answer?.value ?? this.partial;
  }

  get generation(): number {
    return this.member?.texts.answer?.generation ?? 0;
  }

  take(stored: StoredTurn): void {
    this.job = stored.job;
    if (stored.status === 'running') {
      this.follow();
      return;
    }
    this.answers = stored.answers;
    this.error = stored.error;
    this.status = stored.status;
  }

  follow(): void {
    if (this.live || !this.job) return;
    this.status = 'running';
    [this.live, this.release] = follow(this.job);
  }

  /** Loads the result of an ended job: it has the cost and other facts that events lack. */
  async settle(): Promise<void> {
    if (this.settling || !this.job || !this.live) return;
    this.settling = true;
    try {
      if (this.live.state === 'gone') {
        this.status = 'failed';
        this.error = new ApiError('This job was deleted.', 'NOT_FOUND', null, 404);
      } else this.ended(await withRetries(() => api.get<Schema['Job']>(`/api/jobs/${part(this.job ?? '')}`)));
    } catch (error) {
      this.status = this.live.state === 'done' ? 'done' : 'failed';
      this.error = this.live.error ?? error;
    }
    this.free();
  }

  /** Loads the question's files and images, to be sent again. */
  async attached(): Promise<Pick<Ask, 'files' | 'images'>> {
    const { images } = this.question;
    const { question } = await api.get<Schema['Job']>(`/api/jobs/${part(this.job ?? '')}`, { question: 1 });
    return {
      files: (question?.files ?? []).map((path) => ({ name: shortName(path), path })),
      images: await Promise.all(images.map(async (image) => (image.startsWith('/api/') ? dataUrl(await blob(image)) : image))),
    };
  }

  /** Loads the partial text of an old turn that failed. */
  async loadPartial(): Promise<void> {
    if (!this.job || this.live || this.partial) return;
    const job = await api.get<Schema['Job']>(`/api/jobs/${part(this.job)}`);
    this.partial = job.models_status?.[0]?.partial ?? '';
  }

  /** Loads the thinking of an answer that was not seen live, from the job's events, if the job is still stored. */
  recallThinking(): void {
    if (this.live || !this.job) return;
    [this.live, this.release] = follow(this.job);
  }

  private ended(job: Schema['Job']): void {
    const result = job.result as { content?: string; metadata?: Details } | undefined;
    if (result && typeof result.content === 'string') this.answers = [{ text: result.content, details: result.metadata ?? {} }];
    this.error = job.error ?? null;
    this.status = job.status === 'cancelled' ? 'cancelled' : job.status === 'failed' ? 'failed' : 'done';
  }

  free(): void {
    this.release?.();
    this.release = null;
  }
}

export class Thread {
  id = $state<string | null>(null);
  about = $state.raw<Conversation | null>(null);
  turns = $state.raw<Turn[]>([]);
  state = $state<'new' | 'loading' | 'ready' | 'failed'>('new');
  error = $state.raw<unknown>(null);
  private opened = 0; // counts openings: late responses about an earlier conversation are ignored

  get running(): Turn | null {
    return this.turns.findLast((turn) => turn.running) ?? null;
  }

  get last(): Turn | null {
    return this.turns.at(-1) ?? null;
  }

  async open(id: string | null): Promise<void> {
    if (id !== null && id === this.id) return;
    this.close();
    this.id = id;
    this.state = id === null ? 'new' : 'loading';
    if (id !== null) await this.load();
  }

  close(): void {
    this.opened += 1;
    for (const turn of untrack(() => this.turns)) turn.free();
    this.turns = [];
    this.about = null;
    this.error = null;
    this.id = null;
  }

  /** Loads the conversation, again when another tab or program has asked in it. Existing turns stay. */
  async load(): Promise<void> {
    const opened = this.opened;
    const id = this.id;
    if (id === null) return;
    try {
      const conversation = await withRetries(() => api.get<Conversation>(`/api/conversations/${part(id)}`));
      if (opened !== this.opened) return;
      this.about = conversation;
      this.turns = this.merged(turnsOf(conversation));
      this.state = 'ready';
    } catch (error) {
      if (opened !== this.opened) return;
      this.error = error;
      if (this.turns.length === 0) this.state = 'failed';
    }
  }

  private merged(stored: StoredTurn[]): Turn[] {
    const byJob = new Map(this.turns.filter(({ job }) => job).map((turn) => [turn.job, turn]));
    const turns = stored.map((row, index) => {
      const turn = (row.job && byJob.get(row.job)) || new Turn(row.job ?? `${index}`, row.question);
      if (turn.status === 'sending' || (!turn.live && turn.answers.length === 0)) turn.take(row);
      return turn;
    });
    return [...turns, ...this.turns.filter((turn) => !turns.includes(turn))];
  }

  /** Whether these jobs include a new one of this conversation, which began elsewhere. */
  noticed(jobs: Schema['JobSummary'][]): boolean {
    if (this.id === null || this.state !== 'ready' || this.turns.some(({ status }) => status === 'sending')) return false;
    return jobs.some((job) => job.id === this.id && !this.turns.some((turn) => turn.job === job.job_id));
  }

  async send(ask: Ask): Promise<void> {
    const key = identifier();
    const question: Question = { text: ask.prompt, at: new Date().toISOString(), models: [ask.model], images: ask.images, files: ask.files.map(({ name }) => name) };
    const turn = new Turn(key, question);
    this.turns = [...this.turns, turn];
    await this.submit(turn, ask);
  }

  async submit(turn: Turn, ask: Ask): Promise<void> {
    const opened = this.opened;
    const conversation = this.id;
    turn.status = 'sending';
    turn.error = null;
    try {
      const job = await withRetries(() => request<Schema['Job']>('POST', '/api/jobs', { body: bodyOf(ask, conversation), headers: { 'idempotency-key': turn.key } }));
      if (opened !== this.opened) return;
      turn.job = job.job_id;
      if (this.id === null) {
        this.id = job.id;
        this.state = 'ready';
        if (router.route.screen === 'ask') replace('ask', job.id);
      }
      turn.follow();
    } catch (error) {
      turn.error = error;
      turn.status = 'unsent';
      unsent.set(turn, ask);
    }
  }

  async retry(turn: Turn): Promise<void> {
    const ask = unsent.get(turn);
    if (ask) await this.submit(turn, ask);
  }

  /** Removes a question that the server refused, and returns it for the composer. */
  withdraw(turn: Turn): Ask | null {
    this.turns = this.turns.filter((other) => other !== turn);
    return unsent.get(turn) ?? null;
  }

  async stop(turn: Turn | null = this.running): Promise<void> {
    if (turn?.job) await api.post(`/api/jobs/${part(turn.job)}/cancel`);
  }
}

const unsent = new WeakMap<Turn, Ask>();

function bodyOf(ask: Ask, conversation: string | null): Record<string, unknown> {
  return {
    prompt: ask.prompt,
    model: ask.model,
    mode: 'background',
    ...(conversation && { continuation_id: conversation }),
    ...(ask.effort && { reasoning_effort: ask.effort }),
    ...(ask.web && { use_websearch: true }),
    ...(ask.files.length > 0 && { files: ask.files.map(({ path }) => path) }),
    ...(ask.images.length > 0 && { images: ask.images }),
  };
}

/** Repeats a request while the server cannot be reached, as it may be starting. Only for requests that are safe to repeat. */
async function withRetries<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'UNREACHABLE' || tries >= TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, 250 * 2 ** (tries - 1)));
    }
  }
}

/** A random id. `crypto.randomUUID` exists only with https and on localhost. */
function identifier(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
