// The open conversation: its turns, the answers that are being written, and what is asked next.
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
const TRIES = 6; // of a question whose connection was lost: the same key, so it is asked once

export class Turn {
  readonly key: string; // of the element
  readonly question: Question;
  job = $state<string | null>(null);
  status = $state<TurnStatus>('sending');
  answers = $state.raw<Answer[]>([]);
  error = $state.raw<unknown>(null);
  partial = $state.raw(''); // of an answer that did not finish, when it was not seen live
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

  /** What is shown of a job with one model. */
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

  /** The job has ended: its result has the cost and everything else that events do not tell. */
  async settle(): Promise<void> {
    if (this.settling || !this.job || !this.live) return;
    this.settling = true;
    try {
      if (this.live.state === 'gone') {
        this.status = 'failed';
        this.error = new ApiError('This job was deleted.', 'NOT_FOUND', null, 404);
      } else this.ended(await patiently(() => api.get<Schema['Job']>(`/api/jobs/${part(this.job ?? '')}`)));
    } catch (error) {
      this.status = this.live.state === 'done' ? 'done' : 'failed';
      this.error = this.live.error ?? error;
    }
    this.free();
  }

  /** Its files and images, to be sent once more. */
  async attached(): Promise<Pick<Ask, 'files' | 'images'>> {
    const { images } = this.question;
    const { question } = await api.get<Schema['Job']>(`/api/jobs/${part(this.job ?? '')}`, { question: 1 });
    return {
      files: (question?.files ?? []).map((path) => ({ name: shortName(path), path })),
      images: await Promise.all(images.map(async (image) => (image.startsWith('/api/') ? dataUrl(await blob(image)) : image))),
    };
  }

  /** Of an old turn that failed: what it had said. */
  async loadPartial(): Promise<void> {
    if (!this.job || this.live || this.partial) return;
    const job = await api.get<Schema['Job']>(`/api/jobs/${part(this.job)}`);
    this.partial = job.models_status?.[0]?.partial ?? '';
  }

  /** Thinking of an answer that was not seen live: the job's events have its beginning, as long as the job is stored. */
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
  private opened = 0; // a late answer of the server about another conversation is dropped

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

  /** Also when another tab or program has asked in this conversation: turns that are here stay as they are. */
  async load(): Promise<void> {
    const opened = this.opened;
    const id = this.id;
    if (id === null) return;
    try {
      const conversation = await patiently(() => api.get<Conversation>(`/api/conversations/${part(id)}`));
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
    const known = new Map(this.turns.filter(({ job }) => job).map((turn) => [turn.job, turn]));
    const turns = stored.map((row, index) => {
      const turn = (row.job && known.get(row.job)) || new Turn(row.job ?? `${index}`, row.question);
      if (turn.status === 'sending' || (!turn.live && turn.answers.length === 0)) turn.take(row);
      return turn;
    });
    return [...turns, ...this.turns.filter((turn) => !turns.includes(turn))];
  }

  /** A job of this conversation that this page has not seen began elsewhere. */
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
      const job = await patiently(() => request<Schema['Job']>('POST', '/api/jobs', { body: bodyOf(ask, conversation), headers: { 'idempotency-key': turn.key } }));
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

  /** A question that the server refused goes back to the composer. */
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

/** Again while the server cannot be reached: it may be starting. Only for requests that may be repeated. */
async function patiently<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'UNREACHABLE' || tries >= TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, 250 * 2 ** (tries - 1)));
    }
  }
}

/** `crypto.randomUUID` exists on https and on this machine only. */
function identifier(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
