// The models and agents of this machine, loaded once, and again when a screen asks for it.
import { api, type Schema } from './api';
import { options, type Agent, type Model, type Option } from './models';
import { session } from './session.svelte';

class Catalog {
  models = $state.raw<Model[]>([]);
  agents = $state.raw<Agent[]>([]);
  state = $state<'unknown' | 'loading' | 'ready' | 'failed'>('unknown');
  error = $state.raw<unknown>(null);
  readonly options: Option[] = $derived(options(this.models, this.agents));

  /** Whether any model or agent can be asked now. */
  get usable(): boolean {
    return this.options.some(({ reason }) => reason === null);
  }

  find(value: string): Option | null {
    return this.options.find((option) => option.value === value) ?? null;
  }

  /** The id of the embedded model, if nothing else can be asked. */
  get onlyEmbedded(): string | null {
    const usable = this.models.filter(({ available }) => available);
    return usable.length === 1 && usable[0]?.embedded && !this.agents.some((agent) => agent.usable) ? usable[0].id : null;
  }

  /** Loads both lists. Concurrent callers share one load. */
  load(again = false): Promise<void> {
    if (again || this.pending === null || this.state === 'failed') this.pending = this.read();
    return this.pending;
  }

  private pending: Promise<void> | null = null;

  /** Loads models without waiting for agents, which take longer (their programs are searched for). */
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

  /** Loads the agents. Not called for a team's server, whose agents are not for its people. */
  private async readAgents(): Promise<void> {
    try {
      this.agents = (await api.get<Schema['Agents']>('/api/agents')).agents;
    } catch {
      // models can be used without agents
    }
  }
}

export const catalog = new Catalog();
