// Blind reading: "Model A" instead of a name, in an order that says nothing, the same after a reload.

/** A permutation of 0 … count-1 that depends on the job's id only. */
export function shuffled(count: number, seed: string): number[] {
  const order = Array.from({ length: count }, (_, index) => index);
  const random = randomFrom(seed);
  for (let index = count - 1; index > 0; index -= 1) {
    const other = Math.floor(random() * (index + 1));
    [order[index], order[other]] = [order[other] as number, order[index] as number];
  }
  return order;
}

/** xorshift32 of an FNV-1a hash. */
function randomFrom(seed: string): () => number {
  let state = 0x811c9dc5;
  for (let index = 0; index < seed.length; index += 1) state = Math.imul(state ^ seed.charCodeAt(index), 0x01000193);
  state ||= 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** A, B … Z, AA … for the position in the shuffled order. */
export function letter(position: number): string {
  const last = String.fromCharCode(65 + (position % 26));
  return position < 26 ? last : letter(Math.floor(position / 26) - 1) + last;
}

export interface Hidden {
  names: string[]; // of one model: as it was asked, its id, its label
  shown: string; // "Model A"
}

/** Replaces every name of the models in a text. `hints` (vendors, families) become `▒▒▒`. */
export function masker(models: Hidden[], hints: string[]): (text: string, live?: boolean) => string {
  const shown = new Map<string, string>();
  for (const hint of hints) if (hint.length > 1) shown.set(hint.toLowerCase(), '▒▒▒');
  for (const model of models) {
    for (const name of model.names) {
      const key = name.toLowerCase();
      if (name) shown.set(key, shown.has(key) && shown.get(key) !== model.shown ? '▒▒▒' : model.shown);
    }
  }
  const names = [...shown.keys()].sort((a, b) => b.length - a.length);
  if (names.length === 0) return (text) => text;
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${names.map(escaped).join('|')})(?![\\p{L}\\p{N}])`, 'giu');
  const hide = (text: string): string => text.replace(pattern, (name) => shown.get(name.toLowerCase()) ?? '▒▒▒');
  const lines = new LineCache(hide);
  return (text, live = false) => lines.hidden(live ? withoutBegunName(text, names) : text);
}

/** Growing texts are hidden again and again, but only their last line: no name has a line break. */
class LineCache {
  private readonly hide: (text: string) => string;
  private readonly known = new Map<string, { plain: string; hidden: string }>(); // by the beginning of a text

  constructor(hide: (text: string) => string) {
    this.hide = hide;
  }

  hidden(text: string): string {
    const end = text.lastIndexOf('\n') + 1;
    if (end < SHORT) return this.hide(text);
    const key = text.slice(0, SHORT);
    const before = this.known.get(key);
    const start = before && text.startsWith(before.plain) ? before.plain.length : 0;
    const hidden = (start > 0 ? (before?.hidden ?? '') : '') + this.hide(text.slice(start, end));
    this.known.set(key, { plain: text.slice(0, end), hidden });
    return hidden + this.hide(text.slice(end));
  }
}

const SHORT = 200; // characters that are quicker hidden than looked up

/** The end of a growing text may be the beginning of a name: it is shown when more has come. */
function withoutBegunName(text: string, names: string[]): string {
  const longest = names[0]?.length ?? 0;
  const tail = text.slice(-longest).toLowerCase();
  for (let size = tail.length; size > 0; size -= 1) {
    const end = tail.slice(-size);
    if (names.some((name) => name.startsWith(end))) return text.slice(0, text.length - size);
  }
  return text;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/** "gpt-6.1-sol" → "gpt": words that tell the vendor. */
export function families(names: string[]): string[] {
  return [...new Set(names.flatMap((name) => name.toLowerCase().match(/[a-z]{3,}/g) ?? []))].filter((word) => !PLAIN.has(word));
}

/** Words of models' names that are plain English, too. */
const PLAIN = new Set(['auto', 'latest', 'mini', 'nano', 'pro', 'large', 'small', 'medium', 'fast', 'lite', 'flash', 'max', 'code', 'preview', 'high', 'low', 'build', 'chat', 'the', 'tiny', 'instruct', 'embedded', 'model', 'free', 'beta', 'thinking', 'reasoning', 'turbo', 'plus', 'next', 'local', 'open', 'vision']);
