// One job: its document, timeline and live text, loaded again when the job changes.
import { api, ApiError, part, type Schema } from '../../lib/api';
import { follow } from '../../lib/live.svelte';
import type { LiveJob } from '../../lib/job.svelte';
import type { Timeline } from './waterfall';

const PAUSE = 400; // ms between two reads

export class JobView {
  readonly id: string;
  readonly live: LiveJob;
  job = $state.raw<Schema['Job'] | null>(null);
  question = $state.raw<Schema['Question'] | null>(null);
  timeline = $state.raw<Timeline | null>(null);
  error = $state.raw<unknown>(null);
  began = $state(0); // ms since 1970 by this browser's clock
  private readonly release: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private last = 0;
  private closed = false;

  constructor(id: string) {
    this.id = id;
    [this.live, this.release] = follow(id);
    void this.read();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.release();
  }

  get missing(): boolean {
    return this.live.state === 'gone' || (this.error instanceof ApiError && this.error.status === 404);
  }

  /** Changes whenever the document and the timeline do: everything but text. */
  get milestones(): string {
    const { live } = this;
    const members = live.members.map((member) => [member.state, member.phase, member.model, member.firstWordAt, member.tools.length, member.notices.length, member.wait]);
    return JSON.stringify([live.state, live.phase, live.wait, members]);
  }

  /** Reads soon, but no more often than the pause allows. */
  refresh(): void {
    if (this.timer !== undefined || this.closed) return;
    this.timer = setTimeout(() => void this.read(), Math.max(0, this.last + PAUSE - Date.now()));
  }

  async read(): Promise<void> {
    this.timer = undefined;
    this.last = Date.now();
    try {
      const [job, timeline] = await Promise.all([
        api.get<Schema['Job']>(`/api/jobs/${part(this.id)}`, { question: this.question ? null : 1 }),
        api.get<Timeline>(`/api/jobs/${part(this.id)}/timeline`),
      ]);
      if (this.closed) return;
      this.began = Date.now() - job.elapsed_seconds * 1000;
      this.job = job;
      this.timeline = timeline;
      this.question ??= job.question ?? null;
      this.error = null;
    } catch (error) {
      const away = error instanceof ApiError && error.status === 0; // the page shows "Reconnecting" already
      if (!this.closed && !(away && this.job)) this.error = error;
    }
  }
}
