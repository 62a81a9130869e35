// Settings: their values as text and back, their sources, and their commands.
import type { Schema } from '../../lib/api';
import { shell } from '../../lib/format';

export type Setting = Schema['Setting'];

/** The settings of the section "Defaults", in the order in which people look for them. */
export const DEFAULTS = ['default_model', 'default_effort', 'consensus_models', 'panel_size', 'judge', 'auto_order', 'budget_day', 'budget_month'];

export function asText(value: unknown): string {
  if (value === null || value === undefined) return '';
  return Array.isArray(value) ? value.join(', ') : String(value);
}

/** The value to send. The API checks it, so nothing is refused here. */
export function asValue(setting: Setting, text: string): unknown {
  const trimmed = text.trim();
  if (setting.type === 'strings') return trimmed.split(/[,\n]/).map((item) => item.trim()).filter(Boolean);
  if (setting.type === 'boolean') return trimmed === 'true';
  if (setting.type === 'integer' && /^-?\d+$/.test(trimmed)) return Number(trimmed);
  return trimmed;
}

export function setCommand(setting: Setting, text: string): string {
  const value = Array.isArray(asValue(setting, text)) ? (asValue(setting, text) as string[]).join(',') : text.trim();
  return value ? `counsel config set ${setting.name} ${shell(value)}` : `counsel config unset ${setting.name}`;
}

/** Whether the environment sets it. A saved value would have no effect until the variable is unset. */
export const fromEnvironment = (setting: Setting): boolean => setting.source.startsWith('environment');
export const inFile = (setting: Setting): boolean => setting.source.includes('config.toml');

export function sourceText(setting: Setting): string {
  if (setting.source === 'default') return 'default';
  if (fromEnvironment(setting)) return setting.env;
  return setting.source.split(':')[0]?.split('/').at(-1) ?? setting.source; // "config.toml: name"
}

export function search(settings: Setting[], query: string): Setting[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return settings.filter((setting) => {
    const text = `${setting.name} ${setting.name.replaceAll('_', ' ')} ${setting.env} ${setting.description}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** The setting's limits, and its default if it has another value. */
export function hint(setting: Setting): string {
  const parts = [];
  if (setting.minimum !== null && setting.maximum !== null) parts.push(`${setting.minimum.toLocaleString('en')} to ${setting.maximum.toLocaleString('en')}`);
  const initial = asText(setting.default);
  if (setting.set && initial) parts.push(`default ${initial}`);
  return parts.filter(Boolean).join('; ');
}
