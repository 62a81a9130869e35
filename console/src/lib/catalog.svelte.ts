// The models and agents of this machine, loaded once and again when a screen asks for it.
import { api, type Schema } from './api';
import { options, type Agent, type Model, type Option } from './models';
import { session } from './session.svelte';

class Catalog {
  models = $state.raw<Model[]>([]);
  agents = $state.raw<Agent[]>([]);
  state = $state<'unknown' | 'loading' | 'ready' | 'failed'>('unknown');
  error = $state.raw<unknown>(null);
  readonly options: Option[] = $derived(options(this.models, this.agents));

  /** Some model or agent can be asked now. */
  get usable(): boolean {
    return this.options.some(({ reason }) => reason === null);
  }

  find(value: string): Option | null {
    return this.options.find((option) => option.value === value) ?? null;
  }

  /** The embedded model, if nothing else can be asked. */
  get onlyEmbedded(): string | null {
    const usable = this.models.filter(({ available }) => available);
    return usable.length === 1 && usable[0]?.embedded && !this.agents.some((agent) => agent.usable) ? usable[0].id : null;
  }

  /** All callers wait for the same load. */
  load(again = false): Promise<void> {
    if (again || this.pending === null || this.state === 'failed') this.pending = this.read();
    return this.pending;
  }

  private pending: Promise<void> | null = null;

  /** Agents take longer (their programs are looked for), so models do not wait for them. */
  private async read(): Promise<void> {
    this.state = 'loading';
    const agents = session.about?.person ? Promise.resolve() : this.readAgents();
    try {
      this.models = (await api.get<Schema['Models']>('/api/models')).models;
      if (this.models.every(({ available, embedded }) => !available || embedded)) await agents;
      this.state = 'ready';
      this.error = null;
    } catch (error) {
      this.error = error;
      this.state = 'failed';
    }
  }

  /** Not of a team's server: its agents are its own. */
  private async readAgents(): Promise<void> {
    try {
      this.agents = (await api.get<Schema['Agents']>('/api/agents')).agents;
    } catch {
      // the models are still there
    }
  }
}

export const catalog = new Catalog();
