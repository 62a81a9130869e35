// Options of the model picker, in order: auto, available models, agents, older models, then what needs a key or a program.
import type { Schema } from './api';
import { count } from './format';

export type Model = Schema['Model'];
export type Agent = Schema['Agent'];

export interface Option {
  value: string; // `model` of a question
  label: string;
  group: 'Automatic' | 'Models' | 'Agents' | 'Older models' | 'Not available';
  detail: string; // price and context window, or a description
  reason: string | null; // why it cannot be asked
  words: string; // text for searches
  vision: boolean;
  webSearch: boolean;
  efforts: boolean;
}

const GROUPS: Option['group'][] = ['Automatic', 'Models', 'Agents', 'Older models', 'Not available'];

export function options(models: Model[], agents: Agent[]): Option[] {
  const usable = models.some(({ available }) => available);
  const automatic: Option = {
    value: 'auto', label: 'auto', group: 'Automatic', detail: 'the best available model; if it fails, the next', reason: usable ? null : 'No model is available yet.',
    words: 'auto automatic best', vision: true, webSearch: true, efforts: true,
  };
  const all = [automatic, ...models.filter(({ listed }) => listed).map(modelOption), ...agents.map(agentOption)];
  return GROUPS.flatMap((group) => all.filter((option) => option.group === group));
}

function modelOption(model: Model): Option {
  const newest = model.superseded_by === null;
  return {
    value: model.id,
    label: model.id,
    group: !model.available ? 'Not available' : newest ? 'Models' : 'Older models',
    detail: [model.label, price(model), `${count(model.context).replace('.0M', 'M')} window`].filter(Boolean).join(' · '),
    reason: model.available ? null : model.reason,
    words: [model.id, model.provider, model.label, ...model.aliases].join(' ').toLowerCase(),
    vision: model.vision,
    webSearch: model.web_search,
    efforts: Object.keys(model.efforts).length > 0,
  };
}

function agentOption(agent: Agent): Option {
  return {
    value: agent.agent,
    label: agent.agent,
    group: agent.usable ? 'Agents' : 'Not available',
    detail: `${agent.label}, works in the project's folder`,
    reason: agent.usable ? null : (agent.reason ?? 'It is not set up.'),
    words: `${agent.agent} ${agent.label} agent`.toLowerCase(),
    vision: true,
    webSearch: false,
    efforts: true,
  };
}

export function price(model: Model): string {
  const rates = model.price_per_million;
  if (!rates) return 'price unknown';
  if (rates.input === 0 && rates.output === 0) return 'free';
  return `${dollars(rates.input)} / ${dollars(rates.output)} per 1M`;
}

function dollars(usd: number): string {
  return `$${Number.isInteger(usd) ? usd : usd >= 0.1 ? usd.toFixed(2) : usd}`;
}

/** Options that contain all words. In each group, names that begin with the first word come first. */
export function matching(all: Option[], query: string): Option[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const first = words[0];
  if (first === undefined) return all;
  const hits = all.filter((option) => words.every((word) => option.words.includes(word) || option.value.toLowerCase().includes(word)));
  const rank = (option: Option): number => (option.value.toLowerCase() === first ? 0 : option.value.toLowerCase().startsWith(first) ? 1 : 2);
  const exact = hits.find((option) => option.value.toLowerCase() === first)?.group; // the group of an exact match comes first
  const groups = [...GROUPS].sort((a, b) => Number(b === exact) - Number(a === exact));
  return groups.flatMap((group) => hits.filter((option) => option.group === group).sort((a, b) => rank(a) - rank(b) || a.value.length - b.value.length));
}
