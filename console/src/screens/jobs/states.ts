// The states of a job: their titles and colours.
import type { Schema } from '../../lib/api';
import { cost } from '../../lib/format';

export type JobState = Schema['JobSummary']['status'];

export const STATES: { value: JobState; title: string; tone: 'accent' | 'good' | 'warn' | 'bad' | '' }[] = [
  { value: 'processing', title: 'Running', tone: 'accent' },
  { value: 'completed', title: 'Done', tone: 'good' },
  { value: 'completed_with_errors', title: 'Partly done', tone: 'warn' },
  { value: 'failed', title: 'Failed', tone: 'bad' },
  { value: 'cancelled', title: 'Cancelled', tone: '' },
];

export function stateOf(status: JobState): (typeof STATES)[number] {
  return STATES.find(({ value }) => value === status) ?? { value: status, title: status, tone: '' };
}

export interface Costs {
  status: JobState;
  cost_usd?: number | null;
  cost_complete?: boolean;
}

/** The cost as `counsel jobs` shows it: '' for a job without calls, `?` if unknown, `$0.01+` for at least that much. */
export function costOf(job: Costs): string {
  const usd = job.cost_usd ?? null;
  if (job.status === 'processing') return '';
  if (usd === null) return job.status === 'failed' || job.status === 'cancelled' ? '' : '?';
  if (job.cost_complete === false) return usd === 0 ? '?' : `${cost(usd)}+`;
  return cost(usd);
}

/** The names of a job's models by slot; `gpt-5#2` is the second `gpt-5`. */
export function labels(models: string[]): string[] {
  return models.map((model, index) => {
    const earlier = models.slice(0, index).filter((other) => other === model).length;
    return earlier === 0 ? model : `${model}#${earlier + 1}`;
  });
}

/** A short list of models: `gpt-5, o3 and 2 more`. */
export function modelsOf(models: string[], most = 3): string {
  if (models.length <= most) return models.join(', ');
  return `${models.slice(0, most - 1).join(', ')} and ${models.length - most + 1} more`;
}
