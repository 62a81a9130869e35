// Folds a job's events into what a screen shows. Per model: texts by phase, thinking, tools, waits, failure and times.
import type { Schema } from './api';

export interface JobEvent {
  seq: number;
  at: number; // seconds since 1970
  kind: string;
  slot: string;
  data: Record<string, unknown>;
}
export type MemberState = 'waiting' | 'running' | 'finished' | 'failed';

/** A text that grows at its end. Offsets in events count code points, as Python does. */
export class GrowingText {
  value = $state.raw('');
  generation = $state(0); // increases when text is discarded
  private length = 0; // code points

  put(text: string, offset: number): void {
    if (offset < this.length) this.cut(offset);
    this.value += text;
    this.length += codePoints(text);
  }

  cut(offset: number): void {
    if (offset >= this.length) return;
    this.value = offset === 0 ? '' : [...this.value].slice(0, offset).join('');
    this.length = offset;
    this.generation += 1;
  }
}

export const JUDGE = 'judge'; // the judge's slot

/** Sorts a judge after the members, whose slots are numbers. */
function order(slot: string): number {
  return /^\d+$/.test(slot) ? Number(slot) : Infinity;
}

function codePoints(text: string): number {
  let number = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit >= 0xd800 && unit < 0xdc00) number -= 1;
  }
  return number;
}

/** One model of a job. */
export class Member {
  readonly slot: string;
  model = $state('');
  state = $state<MemberState>('waiting');
  phase = $state('');
  texts = $state<Record<string, GrowingText>>({}); // by phase
  private readonly thoughts = new GrowingText();
  tools = $state<{ name: string; ms?: number; ok?: boolean }[]>([]);
  notices = $state<string[]>([]);
  error = $state<{ error: string; code: string; hint?: string } | null>(null);
  wait = $state<string | null>(null);
  startedAt = $state<number | null>(null);
  firstWordAt = $state<number | null>(null);
  endedAt = $state<number | null>(null);
  provider = $state('');
  rounds = $state<Record<string, { startedAt: number; endedAt: number | null }>>({}); // by phase

  spent = $state<Record<string, Schema['SpentData']>>({}); // by phase

  constructor(slot: string) {
    this.slot = slot;
  }

  get thinking(): string {
    return this.thoughts.value;
  }

  /** Adds thinking. A late or reconnected follower gets it again from the beginning. */
  think(text: string, offset: number): void {
    this.thoughts.put(text, offset);
  }

  forgetThinking(): void {
    this.thoughts.cut(0);
  }

  finish(at: number): void {
    this.endedAt = at;
    const round = this.rounds[this.phase];
    if (round) round.endedAt = at;
  }

  text(phase: string = this.phase): GrowingText {
    let text = this.texts[phase];
    if (!text) {
      text = new GrowingText();
      this.texts[phase] = text;
      text = this.texts[phase] ?? text;
    }
    return text;
  }
}

/** The text to show: of the current phase, or after a failure of the last phase with text (the first answer, say). */
export function latest(member: Member): GrowingText | undefined {
  const current = member.texts[member.phase];
  if (current?.value || member.state !== 'failed') return current;
  return Object.values(member.texts).findLast(({ value }) => value !== '');
}

export class LiveJob {
  readonly id: string;
  cursor = ''; // how much of the job this page has received
  state = $state<'waiting' | 'running' | 'done' | 'failed' | 'cancelled' | 'gone'>('waiting');
  members = $state<Member[]>([]);
  phase = $state('');
  wait = $state<string | null>(null);
  error = $state<{ error: string; code: string; hint?: string } | null>(null);
  startedAt = $state<number | null>(null);
  endedAt = $state<number | null>(null);
  conversation = $state<string | null>(null);
  tool = $state('');

  constructor(id: string) {
    this.id = id;
  }

  get ended(): boolean {
    return this.state !== 'waiting' && this.state !== 'running';
  }

  member(slot: string): Member {
    let member = this.members.find((candidate) => candidate.slot === slot);
    if (!member) {
      this.members.push(new Member(slot));
      this.members.sort((a, b) => order(a.slot) - order(b.slot));
      member = this.members.find((candidate) => candidate.slot === slot);
    }
    return member as Member;
  }

  apply(event: JobEvent): void {
    const data = event.data;
    if (event.slot === '' || event.kind === 'started' || event.kind === 'phase') this.applyToJob(event);
    else this.applyToMember(this.member(event.slot), event);
    if (event.kind !== 'waiting') this.wait = null;
    if (event.kind === 'waiting' && event.slot === '') this.wait = typeof data.text === 'string' ? data.text : null;
  }

  private applyToJob(event: JobEvent): void {
    const data = event.data;
    switch (event.kind) {
      case 'started': {
        this.state = 'running';
        this.startedAt = event.at;
        this.tool = String(data.tool ?? '');
        this.conversation = typeof data.continuation_id === 'string' ? data.continuation_id : null;
        const models = Array.isArray(data.models) ? (data.models as string[]) : [];
        models.forEach((model, index) => {
          const member = this.member(String(index));
          if (!member.model) member.model = model;
        });
        break;
      }
      case 'phase':
        this.phase = String(data.phase ?? '');
        break;
      case 'done':
        this.end('done', event);
        break;
      case 'failed':
      case 'cancelled':
        this.error = (data.error as Schema['ErrorDetail']) ?? null;
        this.end(event.kind, event);
        break;
    }
  }

  private end(state: 'done' | 'failed' | 'cancelled', event: JobEvent): void {
    this.state = state;
    this.endedAt = event.at;
    for (const member of this.members) {
      if (member.state === 'running' || member.state === 'waiting') member.state = state === 'done' ? 'finished' : 'failed';
      if (member.endedAt === null) member.finish(event.at);
    }
  }

  private applyToMember(member: Member, event: JobEvent): void {
    const data = event.data;
    member.wait = null;
    switch (event.kind) {
      case 'model_started':
        member.model = String(data.model);
        if (member.phase === String(data.phase ?? '')) member.forgetThinking(); // another attempt
        member.phase = String(data.phase ?? '');
        member.text(member.phase).cut(0);
        member.state = 'running';
        member.error = null; // of an earlier attempt
        member.startedAt ??= event.at;
        member.endedAt = null;
        member.rounds[member.phase] = { startedAt: event.at, endedAt: null };
        break;
      case 'text':
        member.phase = String(data.phase ?? member.phase);
        member.firstWordAt ??= event.at;
        if (member.state === 'waiting') member.state = 'running';
        member.text(member.phase).put(String(data.text), Number(data.offset));
        break;
      case 'restarted':
        member.text(String(data.phase ?? member.phase)).cut(Number(data.offset));
        if (Number(data.offset) === 0) member.forgetThinking();
        if (data.error) member.notices.push(String(data.error));
        if (data.next) member.model = String(data.next);
        break;
      case 'thinking':
        member.think(String(data.text), Number(data.offset ?? 0));
        break;
      case 'tool':
        if (typeof data.ok === 'boolean') member.tools.push({ name: String(data.name), ms: Number(data.ms), ok: data.ok });
        break;
      case 'notice':
        member.notices.push(String(data.text));
        break;
      case 'waiting':
        member.wait = typeof data.text === 'string' ? data.text : null;
        break;
      case 'model_finished':
        member.state = 'finished';
        member.model = String(data.model ?? member.model);
        member.provider = String(data.provider ?? '');
        if (data.spent) member.spent[String(data.phase ?? member.phase)] = data.spent as Schema['SpentData'];
        member.finish(event.at);
        break;
      case 'model_failed':
        member.state = 'failed';
        member.error = data.error as Schema['ErrorDetail'];
        member.finish(event.at);
        break;
    }
  }
}
