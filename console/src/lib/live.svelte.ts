// One stream of events for the whole page: browsers allow six connections to a server, and several tabs share them. It
// reconnects by itself and continues where each job's text stopped. A hidden tab closes its stream and resumes later.
import { api, type Schema } from './api';
import { LiveJob, type JobEvent } from './job.svelte';
import { openEvents } from './sse';

interface JobsListener {
  /** Jobs that are new or changed. `first`: the newest ones, at the beginning of a connection; more may have changed before. */
  changed: (jobs: Schema['JobSummary'][], first: boolean) => void;
  gone: (job: string) => void; // deleted
}
const FIRST_RETRY = 300; // ms
const LONGEST_RETRY = 4000;

export const connection = $state<{ state: 'idle' | 'connecting' | 'live' | 'lost' }>({ state: 'idle' });

const followed = new Map<string, { job: LiveJob; users: number }>();
const listeners = new Set<JobsListener>();
let close: (() => void) | null = null; // the stream that is open
let retry = FIRST_RETRY;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Follow a job: the same object for everyone who follows it. Call the second result to stop. */
export function follow(id: string): [LiveJob, () => void] {
  let entry = followed.get(id);
  if (!entry) {
    entry = { job: new LiveJob(id), users: 0 };
    followed.set(id, entry);
    reopen();
  }
  entry.users += 1;
  const taken = entry;
  let released = false;
  return [
    taken.job,
    () => {
      if (released) return;
      released = true;
      taken.users -= 1;
      if (taken.users > 0) return;
      followed.delete(id);
      reopen();
    },
  ];
}

/** The list of jobs, first the newest ones. */
export function followJobs(listener: JobsListener): () => void {
  listeners.add(listener);
  reopen();
  return () => {
    listeners.delete(listener);
    reopen();
  };
}

let planned = false;

/** Once per turn of the event loop, however many jobs were added. */
function reopen(): void {
  if (planned) return;
  planned = true;
  queueMicrotask(() => {
    planned = false;
    open();
  });
}

function open(): void {
  clearTimeout(timer);
  close?.();
  close = null;
  applyAll(); // before the cursors are read
  const running = [...followed.values()].filter(({ job }) => !job.ended);
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
      if (name === 'job') received(JSON.parse(data) as Message);
      else if (name === 'gone') gone((JSON.parse(data) as { job: string }).job);
      else if (name === 'jobs') {
        const { jobs } = JSON.parse(data) as { jobs: Schema['JobSummary'][] };
        for (const listener of listeners) listener.changed(jobs, first);
        first = false;
      }
    },
    ended: (answered) => {
      // It answered, but not with a stream: perhaps the session has ended. A request finds out, and shows the sign-in.
      if (answered) void api.get('/api/jobs', { limit: 1 }).catch(() => undefined);
      later();
    },
  });
}

function gone(job: string): void {
  const entry = followed.get(job);
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

/** Once per frame, however many events came: 20 models that write 20 times a second draw 60 times, not 400. */
function received(message: Message): void {
  waiting.push(message);
  frame ||= requestAnimationFrame(applyAll);
}

function applyAll(): void {
  cancelAnimationFrame(frame);
  frame = 0;
  const messages = waiting;
  waiting = [];
  for (const { job, cursor, event } of messages) {
    const entry = followed.get(job);
    if (!entry) continue;
    entry.job.apply(event);
    entry.job.cursor = cursor;
  }
}

function later(): void {
  close = null;
  const running = [...followed.values()].some(({ job }) => !job.ended);
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
