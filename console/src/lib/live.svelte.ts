// One stream of events for the whole page, because all tabs share the six connections that a browser opens to a server.
// It reconnects by itself and continues where each job's text stopped. A hidden tab closes its stream and resumes later.
import { api, type Schema } from './api';
import { LiveJob, type JobEvent } from './job.svelte';
import { openEvents } from './sse';

interface JobsListener {
  /** New and changed jobs. `first`: the newest jobs at the start of a connection; older ones may have changed, too. */
  changed: (jobs: Schema['JobSummary'][], first: boolean) => void;
  gone: (job: string) => void; // deleted
}
const FIRST_RETRY = 300; // ms
const LONGEST_RETRY = 4000;

export const connection = $state<{ state: 'idle' | 'connecting' | 'live' | 'lost' }>({ state: 'idle' });

const entries = new Map<string, { job: LiveJob; users: number }>();
const listeners = new Set<JobsListener>();
let close: (() => void) | null = null; // closes the open stream
let retry = FIRST_RETRY;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Follows a job. All followers get the same object, and a function that stops following. */
export function follow(id: string): [LiveJob, () => void] {
  let entry = entries.get(id);
  if (!entry) {
    entry = { job: new LiveJob(id), users: 0 };
    entries.set(id, entry);
    reopen();
  }
  entry.users += 1;
  const shared = entry;
  let released = false;
  return [
    shared.job,
    () => {
      if (released) return;
      released = true;
      shared.users -= 1;
      if (shared.users > 0) return;
      entries.delete(id);
      reopen();
    },
  ];
}

/** Follows the list of jobs, newest first. Returns a function that stops following. */
export function followJobs(listener: JobsListener): () => void {
  listeners.add(listener);
  reopen();
  return () => {
    listeners.delete(listener);
    reopen();
  };
}

let scheduled = false;

/** Reopens the stream at most once per turn of the event loop, however many jobs were added. */
function reopen(): void {
  if (scheduled) return;
  scheduled = true;
  queueMicrotask(() => {
    scheduled = false;
    open();
  });
}

function open(): void {
  clearTimeout(timer);
  close?.();
  close = null;
  applyAll(); // updates the cursors, which are read below
  const running = [...entries.values()].filter(({ job }) => !job.ended);
  if ((running.length === 0 && listeners.size === 0) || document.hidden) {
    connection.state = 'idle';
    return;
  }
  const query = { job: running.map(({ job }) => `${job.id}~${job.cursor}`), ...(listeners.size > 0 && { jobs: '1' }) };
  if (connection.state === 'idle') connection.state = 'connecting';
  let first = true;
  close = openEvents('/api/events', query, {
    opened: () => {
      connection.state = 'live';
      retry = FIRST_RETRY;
    },
    message: (name, data) => {
      if (name === 'job') receive(JSON.parse(data) as Message);
      else if (name === 'gone') gone((JSON.parse(data) as { job: string }).job);
      else if (name === 'jobs') {
        const { jobs } = JSON.parse(data) as { jobs: Schema['JobSummary'][] };
        for (const listener of listeners) listener.changed(jobs, first);
        first = false;
      }
    },
    ended: (answered) => {
      // An answer without a stream: perhaps the session has ended. A request finds out, and shows the sign-in.
      if (answered) void api.get('/api/jobs', { limit: 1 }).catch(() => undefined);
      retryLater();
    },
  });
}

function gone(job: string): void {
  const entry = entries.get(job);
  if (entry) entry.job.state = 'gone';
  for (const listener of listeners) listener.gone(job);
}

interface Message {
  job: string;
  cursor: string;
  event: JobEvent;
}
let waiting: Message[] = [];
let frame = 0;

/** Applies events once per frame: 20 models that write 20 times a second draw 60 times a second, not 400. */
function receive(message: Message): void {
  waiting.push(message);
  frame ||= requestAnimationFrame(applyAll);
}

function applyAll(): void {
  cancelAnimationFrame(frame);
  frame = 0;
  const messages = waiting;
  waiting = [];
  for (const { job, cursor, event } of messages) {
    const entry = entries.get(job);
    if (!entry) continue;
    entry.job.apply(event);
    entry.job.cursor = cursor;
  }
}

function retryLater(): void {
  close = null;
  const running = [...entries.values()].some(({ job }) => !job.ended);
  if (!running && listeners.size === 0) {
    connection.state = 'idle';
    return;
  }
  connection.state = 'lost';
  clearTimeout(timer);
  timer = setTimeout(open, retry * (0.75 + Math.random() / 2));
  retry = Math.min(LONGEST_RETRY, retry * 1.7);
}

document.addEventListener('visibilitychange', reopen);
addEventListener('online', reopen);
