// Converts a conversation's document into turns: a question with its answers, or with the reason why there is none.
import type { Schema } from '../../lib/api';

export type Message = Schema['Message'];
export type Conversation = Schema['Conversation'];

export interface Question {
  text: string;
  at: string;
  models: string[];
  images: string[]; // addresses
  files: string[]; // names
}

export interface Answer {
  text: string;
  details: Details;
}

/** The part of an answer's `metadata` that the page shows. */
export interface Details {
  model?: string;
  provider?: string;
  usage?: { input_tokens: number; output_tokens: number; estimated?: boolean };
  cost_usd?: number | null;
  response_time_ms?: number | null;
  finish_reason?: string;
  answered_by?: string;
  settings_left_out?: string[];
  notices?: { kind: string; text?: string; sources?: Source[]; url?: string; title?: string }[];
  tool_calls?: { server: string; tool: string; ms: number; ok: boolean }[];
  passed_over?: { model: string; code: string }[];
  warnings?: string[];
  cached?: boolean;
  has_thinking?: boolean;
}

export interface Source {
  url: string;
  title?: string;
}

export interface StoredTurn {
  job: string | null;
  question: Question;
  answers: Answer[];
  status: 'running' | 'done' | 'failed' | 'cancelled';
  error: Schema['ErrorDetail'] | null;
}

export const imageAddress = (id: string): string => `/api/images/${encodeURIComponent(id)}`;

/** A file's name; for an uploaded file its original name, not the server's path. */
export const shortName = (name: string): string => name.replace(/^.*[\\/]uploads[\\/][0-9a-f]{32}[\\/]/, '');

/** The turns in the order of the questions. A job that ended between two queries of the server may be in two lists. */
export function turnsOf(conversation: Conversation): StoredTurn[] {
  const turns = answeredTurns(conversation.history);
  const jobs = new Set(turns.map(({ job }) => job));
  for (const job of [...conversation.unfinished, ...conversation.running]) {
    if (jobs.has(job.job_id)) continue;
    jobs.add(job.job_id);
    turns.push({
      job: job.job_id,
      question: { text: job.prompt, at: job.started_at, models: job.models, images: job.image_ids.map(imageAddress), files: job.files.map(shortName) },
      answers: [],
      status: job.status === 'processing' ? 'running' : job.status === 'cancelled' ? 'cancelled' : 'failed',
      error: job.error ?? null,
    });
  }
  return turns.sort((a, b) => (a.question.at < b.question.at ? -1 : a.question.at > b.question.at ? 1 : 0));
}

function answeredTurns(history: Message[]): StoredTurn[] {
  const turns: StoredTurn[] = [];
  for (const message of history) {
    const last = turns.at(-1);
    if (message.role === 'user' || !last) turns.push({ job: message.job_id ?? null, question: questionOf(message), answers: [], status: 'done', error: null });
    if (message.role !== 'user') turns.at(-1)?.answers.push({ text: message.content, details: (message.metadata ?? {}) as Details });
  }
  return turns;
}

function questionOf(message: Message): Question {
  if (message.role !== 'user') return { text: '', at: message.at, models: [], images: [], files: [] };
  const details = (message.metadata ?? {}) as { sources?: { name: string }[]; settings?: { models?: string[] } };
  const images = message.image_ids ?? [];
  const names = (details.sources ?? []).map(({ name }) => shortName(name));
  return {
    text: message.content,
    at: message.at,
    models: details.settings?.models ?? [],
    images: images.map(imageAddress),
    files: names.slice(0, Math.max(0, names.length - images.length)), // images are the last sources
  };
}

/** The cited sources, each once. */
export function sourcesOf(details: Details): Source[] {
  const all = (details.notices ?? []).flatMap((notice) => [...(notice.sources ?? []), ...(notice.url ? [{ url: notice.url, ...(notice.title && { title: notice.title }) }] : [])]);
  return all.filter((source, index) => all.findIndex(({ url }) => url === source.url) === index);
}

/** Remarks about an answer, as sentences. */
export function remarksOf(details: Details): string[] {
  const remarks = (details.notices ?? []).filter((notice) => !notice.url && !notice.sources && notice.text).map((notice) => String(notice.text));
  if (details.finish_reason === 'length') remarks.push('The answer was cut off at the maximum length. Ask it to continue.');
  for (const { model, code } of details.passed_over ?? []) remarks.push(`${model} failed (${code}), so another model answered.`);
  if (details.answered_by) remarks.push(`The vendor says that ${details.answered_by} answered.`);
  if (details.settings_left_out?.length) remarks.push(`The model does not accept: ${details.settings_left_out.join(', ')}.`);
  if (details.cached) remarks.push('From the cache: this answer cost nothing.');
  return [...remarks, ...(details.warnings ?? [])];
}
