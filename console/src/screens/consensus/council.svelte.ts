// The data of one consensus for the screen: live events, then the result with first answers, tokens and costs.
import { api, ApiError, part, type Schema } from '../../lib/api';
import { everySecond } from '../../lib/clock.svelte';
import { JUDGE, type GrowingText, type LiveJob, type Member } from '../../lib/job.svelte';
import { follow } from '../../lib/live.svelte';
import { families, letter, masker, shuffled } from './blind';
import { labels } from './command';
import { verdict, type Verdict } from './difference';

export type ColumnState = 'waiting' | 'thinking' | 'writing' | 'done' | 'failed' | 'stopped';
export interface Problem {
  error: string;
  code: string;
  hint?: string | null;
}
export interface Text {
  text: string;
  generation: number;
  live: boolean;
}
export interface Column {
  slot: string;
  name: string; // the name to show, hidden in blind mode
  model: string; // the model's id, "" if unknown or hidden
  state: ColumnState;
  first: Text;
  middle: string; // of the second of three rounds, "" if there was none
  refined: Text | null;
  thinking: string;
  error: Problem | null;
  errorPhase: string;
  wait: string | null;
  notices: string[];
  ms: number | null; // null: not asked yet
  tokens: { input: number; output: number } | null;
  cost: number | null | undefined; // undefined: not known yet
  verdict: Verdict | null;
}

type Consensus = Schema['Consensus'];
type Model = Schema['Model'];
const RETRY = 1000; // ms
const REVEALED = 'counsel.consensus.revealed.';
const BLIND = 'counsel.consensus.blind.';
export const BLIND_BY_DEFAULT = 'counsel.consensus.blind';

/** Switches this consensus to blind reading. */
export function hideNames(job: string): void {
  localStorage.setItem(BLIND + job, '1');
  localStorage.removeItem(REVEALED + job);
}

export class Council {
  readonly id: string;
  job = $state.raw<LiveJob | null>(null);
  detail = $state.raw<Schema['Job'] | null>(null);
  error = $state.raw<ApiError | null>(null);
  blind = $state(false);
  models = $state.raw<Model[]>([]);
  private stop: () => void = () => undefined;
  private reads = 0;
  private later: ReturnType<typeof setTimeout> | undefined;
  private knowsNames = $state(false);
  private readonly verdicts = new Map<number, { first: string; refined: string; verdict: Verdict }>();

  constructor(id: string) {
    this.id = id;
  }

  async open(): Promise<void> {
    await this.read();
    const id = this.detail?.job_id; // the address may contain the conversation's id instead
    if (!id) return;
    this.blind = localStorage.getItem(BLIND + id) !== null && localStorage.getItem(REVEALED + id) === null;
    const [job, stop] = follow(id);
    this.job = job;
    this.stop = stop;
  }

  close(): void {
    this.stop();
    clearTimeout(this.later);
    this.reads = -1;
  }

  /** Reads the job from the server. Only the response of the last read counts. */
  async read(): Promise<void> {
    this.reads += 1;
    const read = this.reads;
    try {
      const detail = await api.get<Schema['Job']>(`/api/jobs/${part(this.id)}`, { question: 1 });
      if (read !== this.reads) return;
      this.detail = detail;
      this.error = null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (read !== this.reads) return;
      this.error = error;
      if (error.status === 0 && this.job) this.later = setTimeout(() => void this.read(), RETRY); // the server is restarting
    }
  }

  async loadModels(): Promise<void> {
    try {
      this.models = (await api.get<Schema['Models']>('/api/models')).models;
    } finally {
      this.knowsNames = true;
    }
  }

  /** Not empty if the job must be read again, for its first answers or its result. */
  get needsReading(): string {
    if (!this.job || !this.detail) return '';
    if (this.job.ended) return this.detail.status === 'processing' ? `ended ${this.job.state}` : '';
    const lacks = this.job.members.some((member) => member.phase.startsWith('refined') && !member.texts.initial?.value && !this.stateOf(member.slot)?.initial_response);
    return lacks ? `refined ${this.job.members.map((member) => member.phase).join()}` : '';
  }

  get running(): boolean {
    return this.detail?.status === 'processing' && !(this.job?.ended ?? false);
  }

  get question(): string {
    return this.detail?.question?.prompt ?? this.detail?.title ?? '';
  }

  get result(): Consensus | null {
    const result = this.detail?.result;
    return result && 'phases' in result ? result : null;
  }

  get refines(): boolean {
    return this.detail?.question?.enable_cross_feedback ?? false;
  }

  get names(): string[] {
    return labels(this.detail?.models ?? []);
  }

  /** Whether the judge is comparing the answers now. */
  get judging(): boolean {
    return this.running && this.judge?.state === 'running';
  }

  private get judge(): Member | undefined {
    return this.job?.members.find(({ slot }) => slot === JUDGE);
  }

  get judgeName(): string {
    return this.judge?.model ?? this.detail?.question?.judge ?? '';
  }

  /** The name to show for a member that results call `label`. */
  shownLabel(label: string): string {
    const slot = this.names.indexOf(label);
    return slot < 0 ? this.mask(label) : this.shownName(slot);
  }

  setBlind(blind: boolean): void {
    const id = this.detail?.job_id ?? this.id;
    if (blind) hideNames(id);
    else localStorage.setItem(REVEALED + id, '1');
    this.blind = blind;
  }

  private get order(): number[] {
    return shuffled(this.names.length, this.detail?.job_id ?? this.id); // order[position] = slot
  }

  shownName(slot: number): string {
    return this.blind ? `Model ${letter(this.order.indexOf(slot))}` : (this.names[slot] ?? `Model ${slot + 1}`);
  }

  /** Hides all names in a text during blind reading. */
  readonly mask = $derived.by((): ((text: string, live?: boolean) => string) => {
    if (!this.blind) return (text) => text;
    const hints: string[] = [];
    const hidden = this.names.map((label, slot) => {
      const requested = this.detail?.models[slot] ?? label;
      const answered = this.metadata(label)?.model ?? '';
      const candidates = this.models.filter((model) => model.id === requested || model.id === answered || model.aliases.includes(requested));
      const names = [label, requested, answered, ...candidates.flatMap((model) => [model.id, model.label, model.wire_id])].filter(Boolean);
      hints.push(...families(names), ...candidates.map((model) => model.provider), this.metadata(label)?.provider ?? '');
      return { names, label: this.shownName(slot) };
    });
    return masker(hidden, hints);
  });

  readonly columns = $derived.by((): Column[] => {
    const slots = this.names.map((_, slot) => slot);
    const slotOrder = this.blind ? this.order : slots;
    const columns = slotOrder.map((slot) => this.column(slot));
    const first = (column: Column): number => (column.state === 'failed' ? 0 : column.state === 'stopped' ? 1 : 2);
    return columns.sort((a, b) => first(a) - first(b));
  });

  get answered(): number {
    return this.columns.filter(hasAnswer).length;
  }

  private metadata(label: string): Schema['InitialMetadata'] | undefined {
    return this.result?.phases.initial.find((answer) => answer.model === label)?.metadata;
  }

  private stateOf(slot: string): Schema['ModelState'] | undefined {
    return this.detail?.models_status?.find((state) => state.slot === slot);
  }

  private column(slot: number): Column {
    const label = this.names[slot] ?? '';
    const member = this.job?.members.find((entry) => entry.slot === String(slot));
    const stored = this.stateOf(String(slot));
    const result = this.result;
    const first = result?.phases.initial.find((answer) => answer.model === label);
    const refined = result?.phases.refined.find((answer) => answer.model === label);
    const failed = result?.phases.failed.find((failure) => failure.model === label);
    const error = failed ?? member?.error ?? (member && this.running ? null : stored?.error) ?? null;
    const state = this.stateOfColumn(member, stored, error, result !== null);
    const live = this.running && member?.state === 'running';
    const texts = {
      first: first ? staticText(first.response) : this.liveText(member, 'initial', live) ?? staticText(stored?.initial_response ?? (stored?.phase === 'initial' ? stored.text || (stored.partial ?? '') : (failed as { partial?: string } | undefined)?.partial ?? '')),
      refined: refined ? (refined.refined_response === null ? null : staticText(refined.refined_response)) : result ? null : (this.liveText(member, 'refined', live) ?? (stored?.phase?.startsWith('refined') && stored.text !== stored.initial_response ? staticText(stored.text || (stored.partial ?? '')) : null)),
    };
    // Events have the usage of each finished answer; for a page opened later, the result has it.
    const usages = result ? [first?.metadata, refined?.metadata].flatMap((metadata) => (metadata ? [{ ...metadata.usage, cost_usd: metadata.cost_usd }] : [])) : Object.values(member?.spent ?? {});
    const costs = usages.map(({ cost_usd }) => cost_usd);
    return {
      slot: String(slot),
      name: this.shownName(slot),
      model: this.blind ? '' : (first?.metadata.model ?? ''),
      state,
      first: this.masked(texts.first),
      middle: this.masked(staticText(this.middleAnswer(label))).text,
      refined: texts.refined && this.masked(texts.refined),
      thinking: this.blind && !this.knowsNames ? '' : this.mask(member?.thinking ?? ''),
      error: this.shownError(error),
      errorPhase: failed?.phase ?? (error ? (member?.phase ?? stored?.phase ?? '') : ''),
      wait: member?.wait ?? null,
      notices: (member?.notices ?? []).map((notice) => this.mask(notice)),
      ms: refined?.metadata?.total_response_time ?? first?.metadata.response_time_ms ?? this.elapsed(member),
      tokens: usages.length > 0 ? { input: sum(usages.map(({ input_tokens }) => input_tokens)), output: sum(usages.map(({ output_tokens }) => output_tokens)) } : null,
      cost: usages.length === 0 ? undefined : costs.includes(null) ? null : sum(costs as number[]),
      verdict: texts.refined && !live && state === 'done' ? (verdictByAuthor(refined?.changed) ?? this.verdictOf(slot, texts.first.text, texts.refined.text)) : null,
    };
  }

  /** Computed once per pair of texts: a long pair takes 30 ms. */
  private verdictOf(slot: number, first: string, refined: string): Verdict | null {
    if (!first) return null;
    const cached = this.verdicts.get(slot);
    if (cached?.first === first && cached.refined === refined) return cached.verdict;
    const entry = { first, refined, verdict: verdict(first, refined) };
    this.verdicts.set(slot, entry);
    return entry.verdict;
  }

  private stateOfColumn(member: Member | undefined, stored: Schema['ModelState'] | undefined, error: Problem | null, hasResult: boolean): ColumnState {
    if (error) return error.code === 'CANCELLED' ? 'stopped' : 'failed';
    if (hasResult) return 'done';
    if (!this.running && (stored?.status === 'cancelled' || stored?.status === 'interrupted')) return 'stopped';
    if (!member) return stored?.status === 'completed' ? 'done' : 'waiting';
    if (member.state === 'failed') return this.job?.state === 'cancelled' ? 'stopped' : 'failed';
    if (member.state === 'finished') return 'done';
    if (member.state === 'waiting' || member.wait) return 'waiting';
    return member.texts[member.phase]?.value ? 'writing' : 'thinking';
  }

  private middleAnswer(label: string): string {
    return this.result?.phases.rounds?.[0]?.answers.find(({ model }) => model === label)?.response ?? '';
  }

  /** The live text of a round; null if the events have none. */
  private liveText(member: Member | undefined, phase: string, live: boolean): Text | null {
    const text: GrowingText | undefined = member?.texts[phase];
    if (!text || (text.value === '' && !(live && member?.phase === phase))) return null;
    return { text: text.value, generation: text.generation, live: live && member?.phase === phase };
  }

  /** The text with hidden names. Empty until all names are known, because `gpt-latest` may call itself otherwise. */
  private masked(text: Text): Text {
    if (!this.blind) return text;
    return { ...text, text: this.knowsNames ? this.mask(text.text, text.live) : '' };
  }

  private shownError(error: Problem | null): Problem | null {
    if (!error) return null;
    if (!this.blind) return { error: error.error, code: error.code, hint: error.hint ?? null };
    return { error: error.code === 'CANCELLED' ? 'This model was stopped.' : 'This model failed. Reveal the names to see why.', code: error.code };
  }

  private elapsed(member: Member | undefined): number | null {
    const rounds = Object.values(member?.rounds ?? {});
    if (rounds.length === 0) return null;
    return sum(rounds.map(({ startedAt, endedAt }) => Math.max(0, (endedAt ?? everySecond() / 1000) - startedAt))) * 1000;
  }
}

/** Whether the model has a complete first answer. A failed refinement does not remove it. */
export function hasAnswer({ state, first, refined, errorPhase }: Column): boolean {
  return first.text !== '' && (state === 'done' || refined !== null || errorPhase.startsWith('refined'));
}

/** The verdict by the model's own statement or its vote. null if it stated nothing: then words are compared. */
function verdictByAuthor(changed: boolean | null | undefined): Verdict | null {
  if (changed === null || changed === undefined) return null;
  const text = changed ? 'changed its mind' : 'kept its position';
  return { changed, text, reason: changed ? 'The model says that its position changed, or its vote did.' : 'The model says that its position is the same, or its vote is.' };
}

function staticText(text: string): Text {
  return { text, generation: 0, live: false };
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
