// Actions on a job.
import { api, part, type Schema } from '../../lib/api';
import { report, show } from '../../lib/toasts.svelte';

export async function cancelJob(job: string): Promise<void> {
  try {
    const { message } = await api.post<Schema['Cancelled']>(`/api/jobs/${part(job)}/cancel`);
    show(message);
  } catch (error) {
    report(error);
  }
}

/** Deletes the job. Returns whether that worked. */
export async function deleteJob(job: string): Promise<boolean> {
  try {
    await api.delete(`/api/jobs/${part(job)}`);
    show('The job is deleted.');
    return true;
  } catch (error) {
    report(error);
    return false;
  }
}

/** The id as `counsel jobs` prints it. Every command accepts the beginning of an id. */
export function shortId(job: string): string {
  return /^job_([0-9a-f]{8})-[0-9a-f-]{27}$/.exec(job)?.[1] ?? job;
}
