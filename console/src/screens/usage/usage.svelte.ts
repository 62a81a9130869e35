// The screen's data, loaded again when the choice changes or calls have ended.
import { api } from '../../lib/api';
import type { By, Range, Report, Series, Sum } from './report';

const PAUSE = 2000; // ms from the end of a call to the next read

export class Usage {
  report = $state.raw<Report | null>(null);
  both = $state.raw<Sum | null>(null); // this period and the one before
  series = $state.raw<Series | null>(null);
  error = $state.raw<unknown>(null);
  private shown = ''; // the choice that the numbers belong to
  private generation = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  async load(range: Range, by: By): Promise<void> {
    this.generation += 1;
    const generation = this.generation;
    clearTimeout(this.timer);
    this.timer = undefined;
    const { seconds, parts: buckets } = range;
    const choice = `${range.value} ${by}`;
    try {
      const [report, both, series] = await Promise.all([
        api.get<Report>('/api/usage', { seconds, by }),
        api.get<Report>('/api/usage', { seconds: 2 * seconds, by: 'provider' }),
        api.get<Series>('/api/usage/series', { seconds, by, buckets }),
      ]);
      if (generation !== this.generation) return;
      this.report = report;
      this.both = both.total;
      this.series = series;
      this.error = null;
      this.shown = choice;
    } catch (error) {
      if (generation !== this.generation) return;
      this.error = error;
      if (choice !== this.shown) this.report = this.both = this.series = null; // no numbers of another period under this title
    }
  }

  /** Loads soon, because calls have ended. */
  soon(range: Range, by: By): void {
    this.timer ??= setTimeout(() => void this.load(range, by), PAUSE);
  }

  close(): void {
    this.generation += 1;
    clearTimeout(this.timer);
  }
}
